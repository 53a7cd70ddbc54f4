#pragma once

#include "io/sample_range.hpp"
#include "network/sample_batch.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

namespace varve {

/// Samples of a file, read in parts, so that there may be more of them than fit into memory.
class SampleReader {
public:
  virtual ~SampleReader() = default;

  virtual std::size_t num_samples() const = 0; ///< of the wanted range, as the following
  virtual std::size_t num_neurons() const = 0;
  virtual EdgeOffset num_entries() const = 0;   ///< of all of them together
  virtual SampleIndex first_sample() const = 0; ///< number of the first one within the whole input
  virtual bool has_one_value() const = 0;       ///< all entries have the same value

  /// In memory.
  std::size_t bytes_per_entry() const { return sizeof(NeuronIndex) + (has_one_value() ? 0 : sizeof(double)); }

  /// The samples [first, last), counted from the first wanted one. Parts are asked for in ascending order, by one
  /// thread at a time. Throws InputError, naming the file, if its content is malformed.
  virtual SampleBatch read(std::size_t first, std::size_t last) = 0;
};

/// Samples that are in memory as a whole, once or several times over, numbered on. Their parts are no copies.
class SamplesInMemory final : public SampleReader {
public:
  explicit SamplesInMemory(SampleBatch samples, std::size_t repetitions = 1)
      : samples_(std::move(samples)), repetitions_(repetitions) {}

  std::size_t num_samples() const override { return repetitions_ * samples_.num_samples(); }
  std::size_t num_neurons() const override { return samples_.num_neurons(); }
  EdgeOffset num_entries() const override { return repetitions_ * samples_.num_entries(); }
  SampleIndex first_sample() const override { return samples_.first_sample(); }
  bool has_one_value() const override { return samples_.has_one_value(); }
  SampleBatch read(std::size_t first, std::size_t last) override;

private:
  SampleBatch samples_;
  std::size_t repetitions_;
};

/// The samples of a reader so many times over, read once and kept in memory. Throws ResourceError if they take more
/// than `bytes`, UsageError if there are more samples or entries than can be counted.
std::unique_ptr<SampleReader> repeated(std::unique_ptr<SampleReader> reader, std::size_t repetitions,
                                       std::size_t bytes);

/// Opens samples for a network of `neurons` inputs: an HDF5 sample file, of which each part is read by itself, or lines
/// `image pixel value` (plain, gz, xz, zst), which are kept in memory if that takes no more than `bytes` and read from
/// end to end a second time else. Throws as open_samples does.
std::unique_ptr<SampleReader> open_sample_reader(std::filesystem::path const& path, std::size_t neurons,
                                                 OptionalSampleRange const& range, std::size_t bytes);

/// The same without a network: an HDF5 file says its width, text needs it (UsageError if it is left open).
std::unique_ptr<SampleReader> open_sample_reader(std::filesystem::path const& path, std::optional<std::size_t> neurons,
                                                 std::size_t bytes);

/// How many samples of this reader fit into so many bytes: all, or so many that three parts of them do (one runs, one
/// is read ahead, one is on its way between the two). At least one.
std::size_t samples_that_fit(SampleReader const& reader, std::size_t bytes);

} // namespace varve
