#pragma once

#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Copies the wanted results of a run from the panel to the host, and nothing else, because a run may have many batches
/// of less than a millisecond each.
class Results {
public:
  /// The kernels must outlive this object.
  explicit Results(KernelSet const& kernels) : kernels_(kernels) {}

  /// The number of live samples after each list of the last run; last element: samples that left saturated.
  std::vector<int> fetch_counts(Stream const& stream, Panel const& panel);

  /// Sets the members of `result` that depend on the last activations. counts: result of fetch_counts().
  void collect(EndOfRun const& run, std::vector<int> const& counts, WantedOutputs wanted, BatchResult& result);

  /// collect(), and also writes the last activations, including zeros, to a matrix [samples, outputs] in device memory.
  /// Does not fence afterwards.
  void write(EndOfRun const& run, std::vector<int> const& counts, DeviceOutput const& target, BatchResult& result);

private:
  std::vector<int> summarize(EndOfRun const& run, std::vector<int> const& counts, BatchResult& result);
  std::vector<int> fetch(Stream const& stream, int const* numbers, std::size_t count);
  int const* send(Stream const& stream, std::vector<int> const& numbers, DeviceBytes& room);

  KernelSet const& kernels_;
  DeviceBytes ids_, positions_; ///< samples and their positions, if some samples are represented
  DeviceBytes ends_;            ///< the end of each sample
  DeviceBytes fetched_;         ///< copies on the host
};

} // namespace varve
