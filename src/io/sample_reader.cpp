#include "io/sample_reader.hpp"

#include "io/challenge.hpp"
#include "io/hdf5.hpp"
#include "io/sample_file.hpp"

#include <algorithm>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// Samples that are in memory as a whole.
class SamplesInMemory final : public SampleReader {
public:
  explicit SamplesInMemory(SampleSet samples) : samples_(std::move(samples)) {}

  std::size_t num_samples() const override { return samples_.num_samples(); }
  EdgeOffset num_entries() const override { return samples_.matrix.num_entries(); }
  SampleIndex first_sample() const override { return samples_.first_sample; }
  std::size_t bytes_per_entry() const override { return bytes_per_entry_of(samples_.matrix); }
  SampleSet read(std::size_t first, std::size_t last) override { return samples_of(samples_, first, last); }

private:
  static std::size_t bytes_per_entry_of(SparseMatrix const& matrix) {
    return sizeof(NeuronIndex) + (matrix.is_iso() ? 0 : sizeof(double));
  }

  SampleSet samples_;
};

} // namespace

std::unique_ptr<SampleReader> open_sample_reader(fs::path const& path, std::size_t neurons,
                                                 OptionalSampleRange const& range) {
  if (!hdf5::has_signature(path)) {
    return std::make_unique<SamplesInMemory>(read_challenge_samples(path, neurons, range));
  }
  require_width(path, neurons);
  return std::make_unique<SampleFileReader>(path, range);
}

std::size_t samples_that_fit(SampleReader const& reader, std::size_t bytes) {
  constexpr std::size_t num_parts = 3;
  auto const num_samples = std::max<std::size_t>(reader.num_samples(), 1);
  auto const needed =
      static_cast<double>(reader.num_entries() * reader.bytes_per_entry() + num_samples * sizeof(EdgeOffset));
  if (needed <= static_cast<double>(bytes)) return num_samples;
  auto const fit = static_cast<double>(bytes) / num_parts / needed * static_cast<double>(num_samples);
  return std::max<std::size_t>(1, static_cast<std::size_t>(fit));
}

} // namespace varve
