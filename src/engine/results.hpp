#pragma once

#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

/// The live and saturated samples of a batch at the end of a run, including samples that others represent.
struct SampleEnds {
  std::vector<int> live;        ///< samples whose activations are in the panel
  std::vector<int> positions;   ///< position of live[i] in the panel; empty unless has_represented
  std::vector<int> saturated;   ///< samples that left because they were permanently saturated
  bool has_represented = false; ///< false: the lists are the panel's, and live[i] is at position i

  /// The position of live[i] in the panel.
  int position(std::size_t i) const { return has_represented ? positions[i] : static_cast<int>(i); }
};

/// Copies the wanted results of a run from the panel to the host, and nothing else, because a run may have many batches
/// of less than a millisecond each.
class Results {
public:
  /// The kernels must outlive this object.
  explicit Results(KernelSet const& kernels) : kernels_(kernels) {}

  /// The number of live samples after each list of the last run; last element: samples that left saturated.
  std::vector<int> fetch_counts(Stream const& stream, Panel const& panel);

  /// Sets the members of `result` that depend on the last activations.
  void collect(Stream const& stream, Panel const& panel, std::vector<int> const& counts, SampleNumbers const& samples,
               PanelOutputs const& outputs, WantedOutputs wanted, BatchResult& result);

  /// collect(), and also writes the last activations, including zeros, to a matrix [samples, outputs] in device memory.
  /// Does not fence afterwards.
  void write(Stream const& stream, Panel const& panel, std::vector<int> const& counts, SampleNumbers const& samples,
             PanelOutputs const& outputs, DeviceOutput const& target, BatchResult& result);

private:
  SampleEnds summarize(Stream const& stream, Panel const& panel, std::vector<int> const& counts,
                       SampleNumbers const& samples, PanelOutputs const& outputs, BatchResult& result);
  SampleEnds find_ends(Stream const& stream, Panel const& panel, std::size_t num_samples, std::size_t num_live,
                       std::size_t num_saturated);
  std::uint64_t hash_live(Stream const& stream, Panel const& panel, SampleEnds const& ends, PanelOutputs const& outputs,
                          SampleIndex first_sample);
  std::uint64_t hash_saturated(Stream const& stream, Panel const& panel, SampleEnds const& ends,
                               PanelOutputs const& outputs, SampleIndex first_sample);
  std::vector<int> fetch(Stream const& stream, int const* numbers, std::size_t count);
  int const* send(Stream const& stream, std::vector<int> const& numbers, DeviceBytes& room);
  template <class Scalar>
  void collect_rows(Stream const& stream, Panel const& panel, SampleNumbers const& samples, SampleEnds const& ends,
                    std::size_t num_rows, PanelOutputs const& outputs, WantedOutputs wanted, BatchResult& result);

  KernelSet const& kernels_;
  DeviceBytes ids_, positions_; ///< device copies of SampleEnds, if some samples are represented
  DeviceBytes ends_;            ///< the end of each sample
  DeviceBytes fetched_;         ///< copies on the host
};

} // namespace varve
