#pragma once

#include "core/types.hpp"
#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <variant>
#include <vector>

namespace varve {

/// Samples to classify, or activations of samples: a sparse matrix [samples, neurons] and the number of its first
/// sample. Samples are numbered from 0 here; the challenge's text files and Varve's TSV outputs number them from 1.
struct SampleSet {
  SparseMatrix matrix;
  SampleIndex first_sample = 0; ///< number of row 0 within the whole input, from 0

  std::size_t num_samples() const { return matrix.num_rows; }
  std::size_t num_neurons() const { return matrix.num_columns; }

  bool operator==(SampleSet const&) const = default;
};

/// The samples [first, last) of a set, counted from its first row.
inline SampleSet samples_of(SampleSet const& samples, std::size_t first, std::size_t last) {
  return {rows_of(samples.matrix, first, last), samples.first_sample + first};
}

/// Appends the rows of `part`, which must have the same number of neurons; an empty set becomes a copy of the part.
void append_rows(SampleSet& all, SampleSet const& part);

/// True if 16 bits hold the columns of samples with this many neurons.
inline bool fit_narrow_columns(std::size_t num_neurons) {
  return num_neurons <= std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1;
}

/// The columns of samples in the width in which a device takes them. Null if there are none.
using ReadyColumns = std::variant<NeuronIndex const*, std::uint16_t const*>;

/// Samples that a reader has put where a device takes them from (SampleMemory): a sparse matrix [samples, neurons] as
/// that of a SampleSet, whose columns lie in memory of the device's choice.
struct ReadySamples {
  std::size_t num_neurons = 0;
  std::vector<EdgeOffset> row_pointers = {0}; ///< from 0 to the number of entries, one more than samples
  std::vector<double> values;                 ///< one per entry, or exactly one shared by all entries
  ReadyColumns columns;                       ///< ascending and distinct within each sample
  std::shared_ptr<void const> memory;         ///< owns the columns

  std::size_t num_samples() const { return row_pointers.size() - 1; }
  EdgeOffset num_entries() const { return row_pointers.back(); }
};

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

/// Fingerprint of one activation, computed from the indices of its sample and neuron and the bits of its value. hash()
/// adds the fingerprints of all nonzero activations modulo 2^64, so the sum does not depend on order, batches or ranks.
/// Mixing function: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
VARVE_HOST_DEVICE inline std::uint64_t activation_fingerprint(std::uint64_t sample, std::uint64_t neuron,
                                                              std::uint64_t bits) {
  std::uint64_t word = sample + 0x9e3779b97f4a7c15U;
  std::uint64_t const terms[] = {neuron, bits, 0};
  for (std::uint64_t const next : terms) {
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    word = (word ^ (word >> 31U)) + next;
  }
  return word;
}

/// The sum of the fingerprints of all nonzero activations. Values are hashed as float or double, whichever precision
/// computed them.
std::uint64_t hash(SparseMatrix const& activations, SampleIndex first_sample, Precision precision);
inline std::uint64_t hash(SampleSet const& activations, Precision precision) {
  return hash(activations.matrix, activations.first_sample, precision);
}

/// For each row the column of the largest value. Absent entries count as 0; the lowest column wins a tie.
std::vector<NeuronIndex> largest(SparseMatrix const& activations);

/// Host memory for the columns of samples on their way to a device, in blocks that are used again: fresh memory takes
/// longer to get than samples take to be copied. The engine that computes gives it (Inference::sample_memory), readers
/// fill it. Any thread may use it. An object is held by shared pointers; blocks keep it alive.
class SampleMemory : public std::enable_shared_from_this<SampleMemory> {
public:
  /// How to get and return bytes. `allocate` returns null or throws std::bad_alloc if there are none.
  struct Source {
    std::function<void*(std::size_t)> allocate;
    std::function<void(void*)> free;
  };

  /// `is_narrow`: the device takes columns below 65536 in 16 bits; otherwise all in 32.
  SampleMemory(Source source, bool is_narrow);
  ~SampleMemory();
  SampleMemory(SampleMemory const&) = delete;
  SampleMemory& operator=(SampleMemory const&) = delete;

  bool is_narrow() const { return is_narrow_; }

  /// A block of at least so many bytes, not initialised, which returns here when its last owner lets go. Null if there
  /// is no such memory.
  std::shared_ptr<void> take(std::size_t bytes);

private:
  struct Block {
    void* address = nullptr;
    std::size_t bytes = 0;
  };

  Block allocate(std::size_t bytes) const;
  Block reuse(std::size_t bytes);
  void give_back(Block block);

  Source source_;
  bool is_narrow_;
  std::mutex guard_;
  std::vector<Block> free_; ///< blocks that nobody uses
};

} // namespace varve
