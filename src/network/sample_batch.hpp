#pragma once

#include "network/ready_samples.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace varve {

/// The rows [first, last) of immutable samples in memory: of a set, or of samples that lie ready for a device.
struct SampleRows {
  std::shared_ptr<SampleSet const> set;      ///< null if they lie ready
  std::shared_ptr<ReadySamples const> ready; ///< null if they are of a set
  std::size_t first = 0;
  std::size_t last = 0;

  std::size_t num_samples() const { return last - first; }
  std::size_t num_neurons() const { return set ? set->num_neurons() : ready->num_neurons; }
  EdgeOffset first_entry() const { return row_pointers()[first]; }
  EdgeOffset last_entry() const { return row_pointers()[last]; } ///< one past the last entry
  EdgeOffset num_entries() const { return last_entry() - first_entry(); }

  /// Row pointers, columns and values of all samples of the set, not only of these rows.
  std::span<EdgeOffset const> row_pointers() const { return set ? set->matrix.row_pointers : ready->row_pointers; }
  std::span<double const> values() const { return set ? set->matrix.values : ready->values; }
  ReadyColumns columns() const { return set ? ReadyColumns(set->matrix.column_indices.data()) : ready->columns; }

  /// The column of an entry, counted as row pointers count.
  NeuronIndex column(EdgeOffset entry) const {
    return std::visit([entry](auto const* columns) -> NeuronIndex { return columns[entry]; }, columns());
  }

  bool operator==(SampleRows const&) const = default;
};

/// Samples on their way to an engine: consecutive rows of one or more shared sets, and the number of the first sample.
/// Copies and parts of a batch share its sets, so they cost a few pointers regardless of the number of samples.
class SampleBatch {
public:
  /// A batch of all samples of a set, which is moved or copied into the batch.
  SampleBatch(SampleSet samples);

  /// A batch of samples that lie ready for a device, numbered from `first_sample`.
  SampleBatch(ReadySamples samples, SampleIndex first_sample);

  std::size_t num_samples() const { return num_samples_; }
  std::size_t num_neurons() const { return rows_.front().num_neurons(); }
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
