#include "engine/training_formats.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"

#include <limits>

namespace varve {
namespace {

/// Densities (edges per place) from which on dense kernels are faster on CPUs, as measured (perf/TRIED.md). Forward:
/// with few inputs, where a leaf's lines hardly exceed an L1, and with more. Backward: in the first layer, which has
/// gradients alone, and in others, for layers of many outputs; in the first layer also for some outputs.
constexpr std::size_t few_inputs = 256;
constexpr double min_forward_of_few = 0.46;
constexpr double min_forward = 0.33;
constexpr std::size_t many_outputs = 256;
constexpr double min_first_gradient = 0.52;
constexpr double min_backward = 0.70;
constexpr std::size_t some_outputs = 32;
constexpr double min_first_gradient_of_some = 0.68;
/// The same on GPUs, for both passes of any layer.
constexpr double min_on_gpus = 0.5;
constexpr double never = std::numeric_limits<double>::infinity();

double min_of_backward(bool is_first_layer, std::size_t num_outputs) {
  if (num_outputs >= many_outputs) return is_first_layer ? min_first_gradient : min_backward;
  return is_first_layer && num_outputs >= some_outputs ? min_first_gradient_of_some : never;
}

} // namespace

std::vector<TrainedFormat> choose_trained_formats(Network const& network, TrainingOptions const& options) {
  auto const asked = options.format;
  if (asked && *asked != FormatName::dense && *asked != FormatName::csr)
    throw UsageError("layers in training are stored as csr or dense, not as " + to_string(*asked));
  std::vector<TrainedFormat> formats;
  for (auto const& layer : network.layers()) {
    auto const places = static_cast<double>(layer.num_inputs()) * static_cast<double>(layer.num_outputs());
    bool const can_be_dense = layer.num_edges() > 0 && places <= std::numeric_limits<std::uint32_t>::max();
    auto const is_dense = [&](double least) {
      if (!can_be_dense || asked == FormatName::csr) return false;
      return asked == FormatName::dense || static_cast<double>(layer.num_edges()) >= least * places;
    };
    if (has_own_memory(options.backend)) {
      formats.push_back({is_dense(min_on_gpus), is_dense(min_on_gpus)});
      continue;
    }
    double const forward = layer.num_inputs() <= few_inputs ? min_forward_of_few : min_forward;
    formats.push_back({is_dense(forward), is_dense(min_of_backward(formats.empty(), layer.num_outputs()))});
  }
  return formats;
}

std::vector<std::uint32_t> places_by_output(SparseMatrix const& matrix, bool is_dense) {
  std::vector<std::uint32_t> places;
  places.reserve(matrix.num_entries());
  for (std::size_t output = 0; output < matrix.num_rows; ++output) {
    for (EdgeOffset edge = matrix.row_pointers[output]; edge < matrix.row_pointers[output + 1]; ++edge) {
      auto const place = is_dense ? output * matrix.num_columns + matrix.column_indices[edge] : edge;
      places.push_back(narrowed<std::uint32_t>(place, "place of a weight of a dense layer"));
    }
  }
  return places;
}

std::vector<std::uint32_t> places_by_input(SparseMatrix const& matrix, TransposedEdges const& by_input) {
  std::vector<std::uint32_t> places;
  places.reserve(matrix.num_entries());
  for (std::size_t input = 0; input < matrix.num_columns; ++input)
    for (EdgeOffset i = by_input.row_pointers[input]; i < by_input.row_pointers[input + 1]; ++i)
      places.push_back(
          narrowed<std::uint32_t>(input * matrix.num_rows + by_input.outputs[i], "place of a weight of a dense layer"));
  return places;
}

} // namespace varve
