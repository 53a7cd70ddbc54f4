#include "passes/saturation.hpp"

#include <cmath>

namespace varve {

template <class Scalar>
double kept_cap(Layer const& layer) {
  if (!layer.activation.has_cap()) return 0.0;
  if (layer.num_inputs() == 0 || layer.num_outputs() == 0) return 0.0;
  auto const& weights = layer.weights;
  auto const cap = static_cast<Scalar>(layer.activation.cap);
  if (!std::isfinite(cap)) return 0.0; // activations are clipped to the largest finite number
  for (std::size_t output = 0; output < layer.num_outputs(); ++output) {
    Scalar sum = 0;
    for (EdgeOffset edge = weights.row_pointers[output]; edge < weights.row_pointers[output + 1]; ++edge)
      sum = std::fma(static_cast<Scalar>(weights.value(edge)), cap, sum);
    auto const x = static_cast<Scalar>(static_cast<double>(sum) + layer.bias_of(output));
    if (!(x >= cap)) return 0.0;
  }
  return layer.activation.cap;
}

template double kept_cap<float>(Layer const&);
template double kept_cap<double>(Layer const&);

std::size_t find_saturation(std::vector<LayerCaps> const& layers) {
  std::size_t from = layers.size();
  if (from == 0) return from;
  double const cap = layers.back().kept_cap;
  while (from > 1 && layers[from - 1].kept_cap > 0.0 && layers[from - 1].kept_cap == cap) --from;
  if (from < layers.size() && layers.at(from - 1).cap != cap) ++from;
  return from;
}

} // namespace varve
