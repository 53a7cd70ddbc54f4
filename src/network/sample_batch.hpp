#pragma once

#include "network/sample_set.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace varve {

/// The rows [first, last) of an immutable sample set in memory.
struct SampleRows {
  std::shared_ptr<SampleSet const> set;
  std::size_t first = 0;
  std::size_t last = 0;

  std::size_t num_samples() const { return last - first; }
  EdgeOffset first_entry() const { return set->matrix.row_pointers[first]; }
  EdgeOffset last_entry() const { return set->matrix.row_pointers[last]; } ///< one past the last entry
  EdgeOffset num_entries() const { return last_entry() - first_entry(); }

  bool operator==(SampleRows const&) const = default;
};

/// Samples on their way to an engine: consecutive rows of one or more shared sets, and the number of the first sample.
/// Copies and parts of a batch share its sets, so they cost a few pointers regardless of the number of samples.
class SampleBatch {
public:
  /// A batch of all samples of a set, which is moved or copied into the batch.
  SampleBatch(SampleSet samples);

  std::size_t num_samples() const { return num_samples_; }
  std::size_t num_neurons() const { return rows_.front().set->num_neurons(); }
  EdgeOffset num_entries() const;
  SampleIndex first_sample() const { return first_sample_; }

  /// True if all entries have the same value and every set stores it only once.
  bool has_one_value() const;

  /// The rows of this batch, set by set: at least one element, which may have no rows. All sets have the same width.
  std::vector<SampleRows> const& rows() const { return rows_; }

  /// The samples [first, last), counted from the first sample of this batch.
  SampleBatch part(std::size_t first, std::size_t last) const;

  /// Appends the samples of another batch. They are numbered after the last sample of this batch; their own numbers are
  /// ignored.
  void append(SampleBatch const& next);

  /// A batch of the same samples, numbered from `first_sample`.
  SampleBatch numbered_from(SampleIndex first_sample) const;

  /// True if the first sample numbers are equal and both batches refer to the same rows of the same sets.
  bool operator==(SampleBatch const&) const = default;

private:
  std::vector<SampleRows> rows_;
  std::size_t num_samples_ = 0;
  SampleIndex first_sample_ = 0;
};

/// Copies the samples of a batch into one set.
SampleSet to_set(SampleBatch const& batch);

} // namespace varve
