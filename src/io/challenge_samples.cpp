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

TripleFormat text_format(std::size_t neurons, std::optional<std::size_t> num_samples) {
  TripleFormat format;
  format.names = {"image", "pixel", "value"};
  format.largest = {num_samples.value_or(largest_image), neurons};
  format.drops_zeros = true;
  return format;
}

WantedRows wanted_samples(TripleFormat const& format, OptionalSampleRange const& range,
                          std::optional<std::size_t> num_samples) {
  if (!range) return {0, num_samples};
  if (range->first > range->second || range->second > format.largest[0]) {
    throw UsageError(fmt::format("the samples {}:{} were asked for, expected a range within 1:{}", range->first + 1,
                                 range->second, format.largest[0]));
  }
  return {range->first, range->second};
}

/// Throws if a range begins after the last image. It may end there, because trailing images may have no pixel.
void require_begun(fs::path const& path, SampleRange range, std::uint64_t largest) {
  if (range.first < largest || range.first == range.second) return;
  throw UsageError(fmt::format("the samples {}:{} were asked for, but {} ends with sample {}", range.first + 1,
                               range.second, path.string(), largest));
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

} // namespace

SampleSet read_challenge_samples(fs::path const& path, std::size_t neurons, OptionalSampleRange const& range,
                                 std::optional<std::size_t> num_samples) {
  auto const format = text_format(neurons, num_samples);
  auto const wanted = wanted_samples(format, range, num_samples);
  auto triples = read_triples(path, format, neurons, wanted, true);
  if (range && !num_samples) require_begun(path, *range, triples.largest_row);
  return {std::move(triples.matrix), wanted.first};
}

std::unique_ptr<SampleReader> open_challenge_samples(fs::path const& path, std::size_t neurons,
                                                     OptionalSampleRange const& range, std::size_t bytes) {
  auto const format = text_format(neurons, std::nullopt);
  auto const wanted = wanted_samples(format, range, std::nullopt);
  auto scan = scan_triples(path, format, neurons, wanted, bytes);
  if (range) require_begun(path, *range, scan.largest_row);
  if (scan.whole) return std::make_unique<SamplesInMemory>(SampleSet{std::move(scan.whole->matrix), wanted.first});
  return std::make_unique<ChallengeSampleReader>(path, format, neurons, wanted, scan);
}

struct ChallengeSampleWriter::Contents {
  fs::path path;
  TripleWriter file;
};

ChallengeSampleWriter::ChallengeSampleWriter(fs::path const& path)
    : contents_(new Contents{path, TripleWriter(path)}) {}

ChallengeSampleWriter::~ChallengeSampleWriter() = default;

void ChallengeSampleWriter::append(SampleSet const& batch) {
  auto const& matrix = batch.matrix;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      contents_->file.write(batch.first_sample + row + 1, std::uint64_t{matrix.column_indices[entry]} + 1,
                            matrix.value(entry));
    }
  }
}

void ChallengeSampleWriter::append_labels(Labels const& /*batch*/) {
  throw UsageError(fmt::format("{} is text, which has no place for labels; expected .safetensors, or --samples-only",
                               contents_->path.string()));
}

void ChallengeSampleWriter::append_targets(SampleSet const& /*batch*/) {
  throw UsageError(fmt::format("{} is text, which has no place for targets; expected .safetensors, or --samples-only",
                               contents_->path.string()));
}

void ChallengeSampleWriter::commit() { contents_->file.commit(); }

void write_challenge_samples(SampleSet const& samples, fs::path const& path) {
  ChallengeSampleWriter writer(path);
  writer.append(samples);
  writer.commit();
}

} // namespace varve
