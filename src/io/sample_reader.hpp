#pragma once

#include "core/types.hpp"
#include "network/loss.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace varve {

/// The samples [first, last), by their numbers within the whole input, from 0: in a file whose first_sample is 100, the
/// first sample is number 100.
using SampleRange = std::pair<SampleIndex, SampleIndex>;

/// A range of samples, or nullopt for all samples.
using OptionalSampleRange = std::optional<SampleRange>;

/// Whether a file may have labels or targets of samples other than the wanted ones.
enum class OtherSamples { refused, ignored };

/// "the samples 101:160", counted from 1 with both ends included as in options, or "none".
std::string shown(SampleRange const& samples);

/// The rows of the file `path` that hold a range of samples; the first of its `num_samples` rows is sample
/// `first_sample`. Throws UsageError if the file does not hold the range.
SampleRange rows_within(std::filesystem::path const& path, SampleIndex first_sample, std::uint64_t num_samples,
                        OptionalSampleRange const& range);

/// Checks a file `path` that has labels (or targets; `what` names them) of the samples `found`. Throws InputError
/// unless it has those of all wanted samples, and, if others are refused, no others.
void require_samples(std::filesystem::path const& path, char const* what, SampleRange const& found,
                     SampleRange const& wanted, OtherSamples others);

/// What is known of samples before they are read.
struct SampleFacts {
  std::size_t num_samples = 0;
  std::size_t num_neurons = 0;
  EdgeOffset num_entries = 0;   ///< of all samples
  SampleIndex first_sample = 0; ///< number of the first sample within the whole input
  bool has_one_value = false;   ///< true if all entries have the same value
};

/// Reads the samples of a file in parts, so that the file may be larger than memory.
class SampleReader {
public:
  explicit SampleReader(SampleFacts const& facts = {}) : facts_(facts) {}
  virtual ~SampleReader() = default;

  /// Of the samples in the wanted range.
  SampleFacts const& facts() const { return facts_; }
  std::size_t num_samples() const { return facts_.num_samples; }
  std::size_t num_neurons() const { return facts_.num_neurons; }
  EdgeOffset num_entries() const { return facts_.num_entries; }
  SampleIndex first_sample() const { return facts_.first_sample; }
  bool has_one_value() const { return facts_.has_one_value; }

  /// Bytes per entry of the samples in memory.
  std::size_t bytes_per_entry() const { return sizeof(NeuronIndex) + (has_one_value() ? 0 : sizeof(double)); }

  /// Reads the samples [first, last), counted from the first wanted one. Ask for parts in ascending order, from one
  /// thread at a time. Throws InputError, naming the file, if its content is malformed.
  virtual SampleBatch read(std::size_t first, std::size_t last) = 0;

  /// Lets read() put samples into this memory, which may be null, where the reader can. The samples are the same.
  virtual void read_into(std::shared_ptr<SampleMemory> /*memory*/) {}

protected:
  SampleFacts facts_;
};

/// Samples that are entirely in memory. With `repetitions` > 1 the input repeats that many times and numbering
/// continues. Parts share the samples without copying.
class SamplesInMemory final : public SampleReader {
public:
  explicit SamplesInMemory(SampleBatch samples, std::size_t repetitions = 1)
      : SampleReader({repetitions * samples.num_samples(), samples.num_neurons(), repetitions * samples.num_entries(),
                      samples.first_sample(), samples.has_one_value()}),
        samples_(std::move(samples)) {}

  SampleBatch read(std::size_t first, std::size_t last) override;

private:
  SampleBatch samples_;
};

/// Repeats the samples of a reader `repetitions` times; they are read once and kept in memory. Throws ResourceError if
/// they take more than `bytes`, UsageError if the samples or entries exceed what can be counted.
std::unique_ptr<SampleReader> repeated(std::unique_ptr<SampleReader> reader, std::size_t repetitions,
                                       std::size_t bytes);

/// The number of samples per part so that a run stays within `bytes` of host memory: all samples if they fit, else a
/// third of what fits, because three parts exist at a time (one runs, one is being read, one waits between them). At
/// least one.
std::size_t samples_that_fit(SampleReader const& reader, std::size_t bytes);

/// Writes samples batch by batch into a file that appears on commit() or not at all.
class SampleWriter {
public:
  virtual ~SampleWriter() = default;

  /// Writes the next samples. They must have the file's number of neurons and be numbered directly after the samples
  /// before. Throws InputError if they are malformed, ResourceError if the disk is full or fails.
  virtual void append(SampleSet const& batch) = 0;

  /// Writes the classes, or the targets, of the next samples; the samples themselves may be appended before or after.
  /// Throws as append does, and UsageError if the format cannot store them.
  virtual void append_labels(Labels const& batch) = 0;
  virtual void append_targets(SampleSet const& batch) = 0;

  /// Makes the file appear. Throws as OutputFile::commit does.
  virtual void commit() = 0;
};

/// A reader of the same samples, all of which another thread reads from now on, while the caller does other work; they
/// are kept in memory. `memory` is as in SampleReader::read_into, which does nothing afterwards. What reading throws,
/// the first call of read() throws. If the system grants no thread, the reader itself is returned.
std::unique_ptr<SampleReader> read_ahead(std::unique_ptr<SampleReader> reader, std::shared_ptr<SampleMemory> memory);

} // namespace varve
