#include "core/error.hpp"
#include "io/challenge.hpp"
#include "io/triple_text.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

/// The functions of io/challenge.hpp for samples.
namespace varve {
namespace {

namespace fs = std::filesystem;

// limit on image numbers: a typing error must not fill the memory
constexpr std::uint64_t largest_image = std::uint64_t{1} << 30;

TripleFormat text_format(std::size_t neurons) {
  return {{"image", "pixel", "value"}, {largest_image, neurons}, 0, true};
}

WantedRows wanted_samples(OptionalSampleRange const& range) {
  if (!range) return {};
  if (range->first > range->second || range->second > largest_image) {
    throw UsageError(fmt::format("the samples {}:{} were asked for, expected a range within 1:{}", range->first + 1,
                                 range->second, largest_image));
  }
  return {range->first, range->second};
}

/// Throws if a range begins after the last image. It may end there, because trailing images may have no pixel.
void require_begun(fs::path const& path, OptionalSampleRange const& range, std::uint64_t largest) {
  if (!range || range->first < largest || range->first == range->second) return;
  throw UsageError(fmt::format("the samples {}:{} were asked for, but {} ends with sample {}", range->first + 1,
                               range->second, path.string(), largest));
}

class ChallengeSampleWriter final : public SampleWriter {
public:
  explicit ChallengeSampleWriter(fs::path path) : path_(std::move(path)), file_(path_) {}

  void append(SampleSet const& batch) override {
    auto const& matrix = batch.matrix;
    for (std::size_t row = 0; row < matrix.num_rows; ++row) {
      for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
        file_.write(batch.first_sample + row + 1, std::uint64_t{matrix.column_indices[entry]} + 1, matrix.value(entry));
      }
    }
  }
  void append_labels(Labels const& /*batch*/) override { fail_no_place("labels"); }
  void append_targets(SampleSet const& /*batch*/) override { fail_no_place("targets"); }
  void commit() override { file_.commit(); }

private:
  [[noreturn]] void fail_no_place(char const* what) const {
    throw UsageError(fmt::format("{} is text, which has no place for {}; expected .safetensors, or --samples-only",
                                 path_.string(), what));
  }

  fs::path path_;
  TripleWriter file_;
};

/// Reads all wanted samples, or what open_triples needs of a text that takes more than `bytes` in memory.
TripleScan scan_samples(fs::path const& path, std::size_t neurons, OptionalSampleRange const& range,
                        std::optional<std::size_t> bytes) {
  auto scan = read_triples(path, text_format(neurons), neurons, wanted_samples(range), true, bytes);
  require_begun(path, range, scan.largest_row);
  return scan;
}

} // namespace

SampleSet read_challenge_samples(fs::path const& path, std::size_t neurons, OptionalSampleRange const& range) {
  auto scan = scan_samples(path, neurons, range, std::nullopt);
  return {std::move(*scan.whole), scan.facts.first_sample};
}

std::unique_ptr<SampleReader> open_challenge_samples(fs::path const& path, std::size_t neurons,
                                                     OptionalSampleRange const& range, std::size_t bytes) {
  auto scan = scan_samples(path, neurons, range, bytes);
  if (!scan.whole) return open_triples(path, text_format(neurons), wanted_samples(range), std::move(scan));
  return std::make_unique<SamplesInMemory>(SampleSet{std::move(*scan.whole), scan.facts.first_sample});
}

std::unique_ptr<SampleWriter> create_challenge_samples(fs::path const& path) {
  return std::make_unique<ChallengeSampleWriter>(path);
}

} // namespace varve
