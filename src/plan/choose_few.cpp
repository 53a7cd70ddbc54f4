#include "passes/edge_order.hpp"
#include "plan/choose.hpp"
#include "plan/layer_sizes.hpp"

#include <utility>

namespace varve {

/// True if the device has the few kernel and the network is whole. Of a network split across ranks each rank computes
/// one layer a launch, so that this kernel would gain nothing.
bool LayerChooser::has_few_kernel() const { return device_.few_outputs > 0 && !request_.is_split; }

/// True if the few kernel is faster than others for the expected samples: those of two tiles. With twice as many, the
/// tiles of the fused kernel are full.
bool LayerChooser::suits_few_kernel() const {
  return has_few_kernel() && request_.expected_samples && *request_.expected_samples <= 2 * device_.few_tile_samples;
}

/// The layer for the few kernel: in dense blocks where they take less time than its edges, else in sliced ELL.
std::optional<Encoding> LayerChooser::as_few(Layer const& layer) const {
  if (!takes_few_ || !has_short_inputs(layer.num_inputs())) return std::nullopt;
  bool const may_be_dense = may_use(FormatName::dense) && is_ascending(layer.weights);
  if (!may_use(FormatName::sliced_ell)) {
    bool const is_asked_for = may_be_dense && is_last(FormatName::dense);
    return is_asked_for ? std::optional(in_few_blocks(layer, KernelName::few)) : std::nullopt;
  }
  auto sliced = in_few_slices(layer);
  auto const in_slices = static_cast<double>(sliced.choice.num_stored);
  if (may_be_dense) {
    auto dense = in_few_blocks(layer, KernelName::few);
    if (static_cast<double>(dense.choice.num_stored) <= device_.most_stored_in_few_dense * in_slices) return dense;
  }
  // With few samples, launches cost more than padding, so layers may have much of it, and narrow ones more.
  constexpr double much = 2.0;
  constexpr double anyhow = 16384.0;
  bool const is_cheap = in_slices <= much * static_cast<double>(layer.num_edges()) + anyhow;
  if (is_cheap || request_.kernel || is_last(FormatName::sliced_ell)) return sliced;
  return std::nullopt;
}

/// Sliced ELL for the few kernel: a slice holds outputs with about as many edges.
Encoding LayerChooser::in_few_slices(Layer const& layer) const {
  Encoding encoding;
  encoding.order = order_by_size(layer.weights);
  encoding.choice.format = FormatName::sliced_ell;
  encoding.choice.kernel = KernelName::few;
  encoding.choice.shape = {device_.few_outputs, 1, 1};
  encoding.choice.num_stored =
      num_stored(ell_size(layer.weights, encoding.order, encoding.choice.shape), encoding.choice.shape);
  return encoding;
}

/// A layer that can be spread, in dense blocks, if the spread kernel has tiles of one sample and takes less time than
/// with the layer's edges: it needs no indices, though it computes with zeros in gaps.
std::optional<Encoding> LayerChooser::as_spread_blocks(Layer const& layer) const {
  bool const has_blocks = spreads_single_samples() && device_.most_stored_in_few_dense > 0.0;
  if (!has_blocks || !may_use(FormatName::dense) || !is_ascending(layer.weights)) return std::nullopt;
  auto dense = in_few_blocks(layer, KernelName::spread);
  double const most = device_.most_stored_in_few_dense * static_cast<double>(layer.num_edges());
  bool const is_faster = static_cast<double>(dense.choice.num_stored) <= most;
  return is_faster || is_last(FormatName::dense) ? std::optional(std::move(dense)) : std::nullopt;
}

Encoding LayerChooser::in_few_blocks(Layer const& layer, KernelName kernel) const {
  Encoding encoding;
  encoding.choice.format = FormatName::dense;
  encoding.choice.kernel = kernel;
  encoding.choice.shape = device_.few_dense_shape;
  encoding.choice.num_stored = num_stored_densely(layer.weights, encoding.choice.shape);
  return encoding;
}

} // namespace varve
