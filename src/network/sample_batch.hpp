#pragma once

#include "network/sample_set.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace varve {

/// The rows [first, last) of a set in memory that nobody changes.
struct SampleRows {
  std::shared_ptr<SampleSet const> set;
  std::size_t first = 0;
  std::size_t last = 0;

  std::size_t num_samples() const { return last - first; }
  EdgeOffset first_entry() const { return set->matrix.row_pointers[first]; }
  EdgeOffset last_entry() const { return set->matrix.row_pointers[last]; } ///< exclusive
  EdgeOffset num_entries() const { return last_entry() - first_entry(); }

  bool operator==(SampleRows const&) const = default;
};

/// Samples on their way through an engine: rows of sets, one after the other, with the number of the first sample.
/// Copies and parts of a batch share its sets, so they cost a few pointers however many samples there are.
class SampleBatch {
public:
  /// All samples of a set, which is moved here or copied.
  SampleBatch(SampleSet samples);

  std::size_t num_samples() const { return num_samples_; }
  std::size_t num_neurons() const { return rows_.front().set->num_neurons(); }
  EdgeOffset num_entries() const;
  SampleIndex first_sample() const { return first_sample_; }

  /// All entries have the same value, which their sets hold once.
  bool has_one_value() const;

  /// At least one, which may be without rows; all as wide.
  std::vector<SampleRows> const& rows() const { return rows_; }

  /// The samples [first, last), counted from the first of this batch.
  SampleBatch part(std::size_t first, std::size_t last) const;

  /// Takes in the samples right behind those so far; their own numbers do not matter.
  void append(SampleBatch const& next);

  /// The same samples with other numbers.
  SampleBatch numbered_from(SampleIndex first_sample) const;

  /// True if the numbers are equal, and the samples are the same rows of the same sets.
  bool operator==(SampleBatch const&) const = default;

private:
  std::vector<SampleRows> rows_;
  std::size_t num_samples_ = 0;
  SampleIndex first_sample_ = 0;
};

/// A copy of the samples as one set.
SampleSet to_set(SampleBatch const& batch);

} // namespace varve
