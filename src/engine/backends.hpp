#pragma once

#include "engine/inference.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// The network that runs, after the passes.
struct NetworkToRun {
  std::shared_ptr<NetworkSource const> layers;
  std::optional<ReductionReport> reduction;      ///< empty if the network was not rewritten
  std::vector<NeuronIndex> output_map;           ///< output as given -> output of `layers`; empty: output j is output j
  std::shared_ptr<OrderedNetwork const> ordered; ///< the same object as `layers` if edges were reordered, else null
};

/// prepare() for Varve's own engine.
std::unique_ptr<Inference> prepare_on_device(NetworkToRun const& network, InferenceOptions const& options);

/// prepare() for Kokkos Kernels, which serves comparison: it adds products in its own order and ignores
/// options.edge_order.
std::unique_ptr<Inference> prepare_kokkos_kernels(NetworkSource const& network, InferenceOptions const& options);

} // namespace varve
