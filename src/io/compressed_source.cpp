#include "io/compressed_source.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace varve {

void fail_truncated(std::filesystem::path const& path, char const* format) {
  throw InputError(fmt::format("{} is truncated: the file ends before its {} data does", path.string(), format));
}

CompressedSource::CompressedSource(std::unique_ptr<StoredBytes> stored, char const* format)
    : stored_(std::move(stored)), format_(format) {}

std::size_t CompressedSource::read(std::span<char> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    stored_->hold(1);
    if (stored_->held().empty() && !in_member_) break;
    if (!in_member_) begin_member();
    in_member_ = true;
    Step const step = advance(stored_->held(), buffer.subspan(filled));
    if (step.consumed == 0 && step.produced == 0 && !step.member_ended) fail_truncated(stored_->path(), format_);
    stored_->drop(step.consumed);
    filled += step.produced;
    in_member_ = !step.member_ended;
  }
  return filled;
}

void CompressedSource::fail_corrupt(char const* reason) const {
  throw InputError(
      fmt::format("{} is corrupt: its {} data cannot be decompressed ({})", stored_->path().string(), format_, reason));
}

} // namespace varve
