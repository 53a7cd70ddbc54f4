#pragma once

#include "core/types.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <variant>
#include <vector>

namespace varve {

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

} // namespace varve
