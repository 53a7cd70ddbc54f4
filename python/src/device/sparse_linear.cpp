#include "../sparse_linear.hpp"
#include "../device.hpp"

#include "core/execution.hpp"
#include "core/host_vector.hpp"
#include "core/pack_sums.hpp"
#include "kernels/fused_backward.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/trained_forward.hpp"
#include "network/activation.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace varve::python {
namespace {

/// Hosts: a square of numbers, of which a register of the processor holds a row. (Compilers take shuffles of longer
/// vectors apart into single numbers.)
template <class Scalar>
struct Square {
  static constexpr int size = host::kPieceLanes<Scalar, kLeafChains<Scalar>>;
  using Vector = typename host::Vectors<Scalar, size>::Vector;
  Vector row[size];

  /// Rows become columns: as often as sizes double, the numbers of rows i and i + size / 2 alternate in two rows.
  KOKKOS_FORCEINLINE_FUNCTION void transpose() {
    for (int step = 1; step < size; step *= 2) {
      Vector before[size];
      for (int i = 0; i < size; ++i) before[i] = row[i];
      for (int i = 0; i < size / 2; ++i) {
        row[2 * i] = alternated<0>(before[i], before[i + size / 2], std::make_integer_sequence<int, size>());
        row[2 * i + 1] = alternated<size / 2>(before[i], before[i + size / 2], std::make_integer_sequence<int, size>());
      }
    }
  }

private:
  template <int First, int... Lane>
  static Vector alternated(Vector const& one, Vector const& other, std::integer_sequence<int, Lane...> /*lanes*/) {
    return host::shuffled<Scalar>(one, other,
                                  std::integer_sequence<int, (First + Lane / 2 + (Lane % 2 != 0 ? size : 0))...>());
  }
};

/// Rows of samples [sample][neuron] to the lines of a panel, or back. Index: neighbouring neurons of a leaf (hosts: as
/// many as fit 64 bytes). Lines are filled up with zeros. Bound by bandwidth.
template <class ExecutionSpace, class Scalar, int Links, bool ToLines>
struct TransposeSamples {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Rows = std::conditional_t<ToLines, Scalar const*, Scalar*>;
  static constexpr bool on_host = kOnHost<ExecutionSpace>;
  static constexpr std::size_t block = on_host ? kLeafChains<Scalar> : 1;

  Rows rows;
  TrainingPanel<ExecutionSpace, Scalar, Links> lines;
  std::size_t num_samples, num_neurons;

  KOKKOS_FORCEINLINE_FUNCTION std::size_t blocks_per_leaf() const { return (num_neurons + block - 1) / block; }

  KOKKOS_FUNCTION void operator()(std::size_t index) const {
    std::size_t const leaf = index / blocks_per_leaf();
    std::size_t const first = index % blocks_per_leaf() * block;
    if constexpr (on_host) {
      if (first + block <= num_neurons) {
        KOKKOS_IF_ON_HOST((transpose_squares(leaf, first);))
        return;
      }
    }
    for (std::size_t neuron = first; neuron < num_neurons && neuron < first + block; ++neuron) turn(leaf, neuron);
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION void turn(std::size_t leaf, std::size_t neuron) const {
    constexpr int width = Tile::num_samples;
    for (int place = 0; place < width; ++place) {
      auto const position = static_cast<std::size_t>(PlaceInLine<Tile>::position_of(place));
      std::size_t const sample = leaf * static_cast<std::size_t>(width) + position;
      auto& number = number_at(lines, leaf * num_neurons + neuron, place);
      if constexpr (ToLines) {
        number = sample < num_samples ? rows[sample * num_neurons + neuron] : Scalar(0);
      } else {
        if (sample < num_samples) rows[sample * num_neurons + neuron] = number;
      }
    }
  }

  /// All samples of the leaf for `block` neurons.
  void transpose_squares(std::size_t leaf, std::size_t first) const {
    constexpr int size = Square<Scalar>::size;
    for (int place = 0; place < Tile::num_samples; place += size) {
      std::size_t const sample = leaf * Tile::num_samples + static_cast<std::size_t>(place);
      std::size_t const count = num_samples > sample ? std::min<std::size_t>(size, num_samples - sample) : 0;
      if (!ToLines && count == 0) return;
      for (std::size_t neuron = first; neuron < first + block; neuron += size)
        transpose_square(leaf * num_neurons + neuron, place, rows + sample * num_neurons + neuron, count);
    }
  }

  /// The samples from `place` on of the lines from `line` on, of which `count` exist.
  KOKKOS_FORCEINLINE_FUNCTION void transpose_square(std::size_t line, int place, Rows samples,
                                                    std::size_t count) const {
    constexpr int size = Square<Scalar>::size, chains = kLeafChains<Scalar>;
    using Vector = typename Square<Scalar>::Vector;
    Square<Scalar> square = {};
    for (std::size_t i = 0; i < size; ++i) {
      if constexpr (ToLines) {
        if (i < count) square.row[i] = host::load<Vector>(samples + i * num_neurons);
      } else {
        square.row[i] = host::load<Vector>(lines(line + i).pack[place / chains].lane + place % chains);
      }
    }
    square.transpose();
    for (std::size_t i = 0; i < size; ++i) {
      if constexpr (ToLines) {
        host::store(lines(line + i).pack[place / chains].lane + place % chains, square.row[i]);
      } else {
        if (i < count) host::store(samples + i * num_neurons, square.row[i]);
      }
    }
  }
};

/// target[i] = source[places[i]], or target[places[i]] = source[i].
template <class Scalar, bool Gather>
struct PermuteEdges {
  std::uint32_t const* places;
  Scalar const* source;
  Scalar* target;

  KOKKOS_FUNCTION void operator()(std::size_t edge) const {
    if constexpr (Gather) {
      target[edge] = source[places[edge]];
    } else {
      target[places[edge]] = source[edge];
    }
  }
};

template <class Scalar>
struct WidenBias {
  Scalar const* bias;
  double* wide;

  KOKKOS_FUNCTION void operator()(std::size_t output) const {
    wide[output] = bias == nullptr ? 0.0 : static_cast<double>(bias[output]);
  }
};

/// The arrays that lie one after the other in the caller's scratch, at multiples of 256 bytes. Without an address it
/// only counts.
class Cutter {
public:
  explicit Cutter(void* begin) : begin_(static_cast<unsigned char*>(begin)) {}

  template <class T>
  T* take(std::size_t count) {
    auto* const found = begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + used_);
    used_ += (count * sizeof(T) + 255) / 256 * 256;
    return found;
  }
  std::size_t used() const { return used_; }

private:
  unsigned char* begin_;
  std::size_t used_ = 0;
};

template <class ExecutionSpace, class Scalar, int Links>
struct Scratch {
  using Panel = TrainingPanel<ExecutionSpace, Scalar, Links>;
  using Line = typename TrainingTile<ExecutionSpace, Scalar, Links>::Line;
  using Tune = TrainingTuning<ExecutionSpace>;

  Panel inputs, outputs, input_errors;
  DeviceArray<ExecutionSpace, double> bias;
  DeviceArray<ExecutionSpace, Scalar> weights, gradients; ///< by input
  TreeLevels<ExecutionSpace, Scalar> levels, bias_levels;
  int num_leaves;
  std::size_t bytes;

  Scratch(ExecutionSpace const& space, LayerPattern const& pattern, std::size_t num_samples, void* memory)
      : num_leaves(static_cast<int>(varve::num_leaves<Scalar>(num_samples))) {
    Cutter cut(memory);
    auto const leaves = static_cast<std::size_t>(num_leaves);
    auto const panel = [&](std::size_t neurons) {
      return Panel(cut.template take<Line>(leaves * neurons), leaves * neurons);
    };
    auto const array = [&](std::size_t size) {
      return DeviceArray<ExecutionSpace, Scalar>(cut.template take<Scalar>(size), size);
    };
    inputs = panel(pattern.num_inputs);
    outputs = panel(pattern.num_outputs);
    input_errors = panel(pattern.num_inputs);
    bias = DeviceArray<ExecutionSpace, double>(cut.template take<double>(pattern.num_outputs), pattern.num_outputs);
    weights = array(pattern.num_edges);
    gradients = array(pattern.num_edges + pattern.num_outputs);
    int const processors = num_processors(space);
    auto const levels_of = [&](std::size_t num_sums, int blocks) {
      int const per_run = Tune::leaves_per_run(processors, blocks, num_leaves);
      int count = 1;
      while (1 << (count - 1) < per_run) ++count;
      return TreeLevels<ExecutionSpace, Scalar>{array(size_of_levels(num_sums, num_leaves, per_run)), num_sums, count,
                                                per_run, num_leaves};
    };
    constexpr int group = NeuronSums<ExecutionSpace, Scalar, Links>::Sums::count;
    levels = levels_of(pattern.num_edges, Tune::num_blocks(processors, static_cast<int>(pattern.num_inputs)));
    bias_levels = levels_of(pattern.num_outputs,
                            Tune::num_blocks(processors, (static_cast<int>(pattern.num_outputs) + group - 1) / group));
    bytes = cut.used();
  }
};

template <class ExecutionSpace>
EdgeRows<ExecutionSpace> edge_rows(std::uint32_t const* pointers, std::uint32_t const* ends, std::size_t num_rows,
                                   std::size_t num_edges) {
  return {ConstDeviceArray<ExecutionSpace, std::uint32_t>(pointers, num_rows + 1),
          ConstDeviceArray<ExecutionSpace, NeuronIndex>(ends, num_edges), static_cast<int>(num_rows)};
}

template <class Scalar, int Links, bool ToLines, class ExecutionSpace, class Rows>
void turn(ExecutionSpace const& space, Rows rows, TrainingPanel<ExecutionSpace, Scalar, Links> const& lines,
          int num_leaves, std::size_t num_samples, std::size_t num_neurons) {
  TransposeSamples<ExecutionSpace, Scalar, Links, ToLines> const kernel{rows, lines, num_samples, num_neurons};
  launch_range("varve::turn_samples", space, static_cast<std::size_t>(num_leaves) * kernel.blocks_per_leaf(), kernel);
}

template <int Links, class ExecutionSpace, class Scalar>
void forward_on(ExecutionSpace const& space, LayerPattern const& pattern, std::size_t num_samples, Scalar const* x,
                Scalar const* weights, Scalar const* bias, Scalar* y, void* memory) {
  Scratch<ExecutionSpace, Scalar, Links> const scratch(space, pattern, num_samples, memory);
  turn<Scalar, Links, true>(space, x, scratch.inputs, scratch.num_leaves, num_samples, pattern.num_inputs);
  launch_range("varve::widen_bias", space, pattern.num_outputs, WidenBias<Scalar>{bias, scratch.bias.data()});
  TrainedForward<ExecutionSpace, Scalar, Links> kernel{};
  kernel.edges =
      edge_rows<ExecutionSpace>(pattern.row_pointers, pattern.columns, pattern.num_outputs, pattern.num_edges);
  kernel.weights = ConstDeviceArray<ExecutionSpace, Scalar>(weights, pattern.num_edges);
  kernel.bias = scratch.bias;
  kernel.bounds = {-std::numeric_limits<Scalar>::infinity(), std::numeric_limits<Scalar>::infinity()};
  kernel.inputs = scratch.inputs;
  kernel.outputs = scratch.outputs;
  kernel.num_inputs = static_cast<int>(pattern.num_inputs);
  kernel.stride = static_cast<int>(pattern.num_outputs);
  trained_forward(space, kernel, scratch.num_leaves);
  turn<Scalar, Links, false>(space, y, scratch.outputs, scratch.num_leaves, num_samples, pattern.num_outputs);
}

template <bool HasInputErrors, class ExecutionSpace, class Scalar, int Links>
void gradients(ExecutionSpace const& space, LayerPattern const& pattern,
               Scratch<ExecutionSpace, Scalar, Links> const& scratch) {
  FusedBackward<ExecutionSpace, Scalar, HasInputErrors, Links> kernel{};
  kernel.edges =
      edge_rows<ExecutionSpace>(pattern.input_pointers, pattern.outputs, pattern.num_inputs, pattern.num_edges);
  kernel.weights = scratch.weights;
  kernel.inputs = scratch.inputs;
  kernel.errors = scratch.outputs;
  kernel.input_errors = scratch.input_errors;
  kernel.derivative = Derivative<Scalar>(Activation::identity());
  kernel.levels = scratch.levels;
  kernel.bias_levels = scratch.bias_levels;
  kernel.num_outputs = static_cast<int>(pattern.num_outputs);
  kernel.stride = static_cast<int>(pattern.num_inputs);
  fused_backward(space, kernel);
}

template <int Links, class ExecutionSpace, class Scalar>
void backward_on(ExecutionSpace const& space, LayerPattern const& pattern, std::size_t num_samples, Scalar const* x,
                 Scalar const* dy, Scalar const* weights, Scalar* dx, Scalar* dweights, Scalar* dbias, void* memory) {
  Scratch<ExecutionSpace, Scalar, Links> const scratch(space, pattern, num_samples, memory);
  turn<Scalar, Links, true>(space, x, scratch.inputs, scratch.num_leaves, num_samples, pattern.num_inputs);
  turn<Scalar, Links, true>(space, dy, scratch.outputs, scratch.num_leaves, num_samples, pattern.num_outputs);
  if (dx != nullptr) {
    PermuteEdges<Scalar, true> const gather{pattern.places, weights, scratch.weights.data()};
    launch_range("varve::turn_edges", space, pattern.num_edges, gather);
    gradients<true>(space, pattern, scratch);
    turn<Scalar, Links, false>(space, dx, scratch.input_errors, scratch.num_leaves, num_samples, pattern.num_inputs);
  } else {
    gradients<false>(space, pattern, scratch);
  }
  launch_range(space, AddLevels<ExecutionSpace, Scalar>{scratch.levels, scratch.gradients, 0, scratch.bias_levels,
                                                        pattern.num_edges});
  PermuteEdges<Scalar, false> const scatter{pattern.places, scratch.gradients.data(), dweights};
  launch_range("varve::turn_edges", space, pattern.num_edges, scatter);
  DeviceArray<ExecutionSpace, Scalar> const sums(dbias, pattern.num_outputs);
  Kokkos::deep_copy(space, sums,
                    Kokkos::subview(scratch.gradients, std::make_pair(pattern.num_edges, scratch.gradients.size())));
}

/// Calls work(space, links) with an instance of the backend's execution space, and with_links() for so many samples.
template <class Scalar, class Work, class... Spaces>
void run_in(LayerPlace const& place, std::size_t num_samples, SpaceList<Spaces...> /*spaces*/, Work const& work) {
  auto const run = [&]<class ExecutionSpace>(std::type_identity<ExecutionSpace> /*type*/) {
    auto const& space = *static_cast<ExecutionSpace const*>(instance(place.backend, place.stream));
    with_links<ExecutionSpace, Scalar>(static_cast<int>(num_samples), [&](auto links) { work(space, links); });
    if constexpr (kOnHost<ExecutionSpace>) space.fence("varve: a sparse layer");
  };
  ((to_backend<Spaces>() == backend_of_kernels(place.backend) ? run(std::type_identity<Spaces>()) : void()), ...);
}

} // namespace

template <class Scalar>
std::size_t scratch_bytes(LayerPlace const& place, LayerPattern const& pattern, std::size_t num_samples) {
  std::size_t bytes = 0;
  run_in<Scalar>(place, num_samples, CompiledSpaces(),
                 [&]<class ExecutionSpace>(ExecutionSpace const& space, auto links) {
                   bytes = Scratch<ExecutionSpace, Scalar, links>(space, pattern, num_samples, nullptr).bytes;
                 });
  return bytes;
}

template <class Scalar>
void layer_forward(LayerPlace const& place, LayerPattern const& pattern, std::size_t num_samples, Scalar const* x,
                   Scalar const* weights, Scalar const* bias, Scalar* y, void* scratch) {
  run_in<Scalar>(place, num_samples, CompiledSpaces(), [&](auto const& space, auto links) {
    forward_on<links>(space, pattern, num_samples, x, weights, bias, y, scratch);
  });
}

template <class Scalar>
void layer_backward(LayerPlace const& place, LayerPattern const& pattern, std::size_t num_samples, Scalar const* x,
                    Scalar const* dy, Scalar const* weights, Scalar* dx, Scalar* dweights, Scalar* dbias,
                    void* scratch) {
  run_in<Scalar>(place, num_samples, CompiledSpaces(), [&](auto const& space, auto links) {
    backward_on<links>(space, pattern, num_samples, x, dy, weights, dx, dweights, dbias, scratch);
  });
}

template std::size_t scratch_bytes<float>(LayerPlace const&, LayerPattern const&, std::size_t);
template std::size_t scratch_bytes<double>(LayerPlace const&, LayerPattern const&, std::size_t);
template void layer_forward<float>(LayerPlace const&, LayerPattern const&, std::size_t, float const*, float const*,
                                   float const*, float*, void*);
template void layer_forward<double>(LayerPlace const&, LayerPattern const&, std::size_t, double const*, double const*,
                                    double const*, double*, void*);
template void layer_backward<float>(LayerPlace const&, LayerPattern const&, std::size_t, float const*, float const*,
                                    float const*, float*, float*, float*, void*);
template void layer_backward<double>(LayerPlace const&, LayerPattern const&, std::size_t, double const*, double const*,
                                     double const*, double*, double*, double*, void*);

} // namespace varve::python
