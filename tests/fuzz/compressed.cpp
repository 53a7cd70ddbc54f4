#include "fuzz/target.hpp"

#include "core/error.hpp"
#include "io/text_file.hpp"

#include <optional>
#include <span>
#include <vector>

namespace varve::fuzz {
namespace {

constexpr std::size_t max_read = std::size_t{1} << 22; // enough to see several buffers, and a bomb stays small

struct Contents {
  std::string bytes; ///< the first ones
  std::string error;
};

Contents read_in_steps(std::filesystem::path const& path, std::size_t step) {
  Contents contents;
  try {
    auto const source = open_bytes(path);
    std::vector<char> buffer(step);
    for (std::size_t count = step; count == step && contents.bytes.size() < max_read;) {
      count = source->read(std::span(buffer));
      contents.bytes.append(buffer.data(), count);
    }
  } catch (InputError const& error) {
    contents.error = error.what();
  }
  return contents;
}

} // namespace

/// A compressed text: the steps in which it is read make no difference.
VARVE_FUZZ_TARGET(compressed) {
  auto const path = file_of(bytes, "bytes");
  auto const wide = read_in_steps(path, std::size_t{1} << 16);
  auto const narrow = read_in_steps(path, 1021);
  // Why they are refused may differ: a decompressor that sees more of its output at a time may meet another fault
  // first.
  bool const is_cut = wide.bytes.size() >= max_read || narrow.bytes.size() >= max_read;
  require(is_cut || wide.error.empty() == narrow.error.empty(),
          "the size of a buffer decides whether data are refused");
  bool const begin_equal = wide.bytes.starts_with(narrow.bytes) || narrow.bytes.starts_with(wide.bytes);
  require(begin_equal, "the size of a buffer changes what compressed data hold");
  if (!wide.error.empty()) throw InputError(wide.error);
}

} // namespace varve::fuzz
