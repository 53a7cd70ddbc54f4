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

/// Reads the samples of a text that is too large for memory, part by part.
class ChallengeSampleReader final : public SampleReader {
public:
  ChallengeSampleReader(fs::path const& path, TripleFormat const& format, std::size_t neurons, WantedRows const& wanted,
                        TripleScan const& scan)
      : rows_(path, format, neurons, wanted, scan.sums),
        num_neurons_(neurons),
        num_samples_(wanted.last.value_or(scan.largest_row) - wanted.first),
        num_entries_(scan.num_entries),
        first_sample_(wanted.first),
        has_one_value_(scan.has_one_value) {}

  std::size_t num_samples() const override { return num_samples_; }
  std::size_t num_neurons() const override { return num_neurons_; }
  EdgeOffset num_entries() const override { return num_entries_; }
  SampleIndex first_sample() const override { return first_sample_; }
  bool has_one_value() const override { return has_one_value_; }
  SampleBatch read(std::size_t first, std::size_t last) override {
    return SampleSet{rows_.read(first, last), first_sample_ + first};
  }

private:
  TripleRows rows_;
  std::size_t num_neurons_;
  std::size_t num_samples_;
  EdgeOffset num_entries_;
  SampleIndex first_sample_;
  bool has_one_value_;
};

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

} // namespace

SampleSet read_challenge_samples(fs::path const& path, std::size_t neurons, OptionalSampleRange const& range) {
  auto const wanted = wanted_samples(range);
  auto scan = read_triples(path, text_format(neurons), neurons, wanted, true);
  require_begun(path, range, scan.largest_row);
  return {std::move(*scan.whole), wanted.first};
}

std::unique_ptr<SampleReader> open_challenge_samples(fs::path const& path, std::size_t neurons,
                                                     OptionalSampleRange const& range, std::size_t bytes) {
  auto const format = text_format(neurons);
  auto const wanted = wanted_samples(range);
  auto scan = read_triples(path, format, neurons, wanted, true, bytes);
  require_begun(path, range, scan.largest_row);
  if (scan.whole) return std::make_unique<SamplesInMemory>(SampleSet{std::move(*scan.whole), wanted.first});
  return std::make_unique<ChallengeSampleReader>(path, format, neurons, wanted, scan);
}

std::unique_ptr<SampleWriter> create_challenge_samples(fs::path const& path) {
  return std::make_unique<ChallengeSampleWriter>(path);
}

} // namespace varve
