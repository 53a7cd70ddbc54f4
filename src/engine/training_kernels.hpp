#pragma once

#include "core/device_memory.hpp"
#include "core/error.hpp"
#include "engine/trained_layers.hpp"
#include "network/leaf.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/optimizer.hpp"
#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The numbers of a neuron for the samples of a leaf, in an order that depends on the device.
template <class Scalar>
struct LeafLine {
  Scalar numbers[kLeafSamples<Scalar>];
};

/// The numbers of all neurons of a layer for a mini-batch: [leaf][neuron].
template <class Scalar>
using LeafPanel = DeviceNumbers<LeafLine<Scalar>>;

/// Rows of a sparse matrix on a device.
template <class Scalar>
struct SampleRowsOnDevice {
  DeviceNumbers<EdgeOffset const> row_pointers;
  DeviceNumbers<NeuronIndex const> columns; ///< ascending within each row
  DeviceNumbers<Scalar const> values;       ///< one per entry, or one for all entries
};

/// A pattern in compressed sparse rows on a device.
struct RowsOnDevice {
  DeviceNumbers<std::uint32_t const> row_pointers; ///< first edge of each row, then the number of edges
  DeviceNumbers<NeuronIndex const> neurons;        ///< the neuron at the other end of each edge
  int num_rows = 0;
};

/// Uploads rows of a valid pattern. Throws InputError if there are more edges than 32 bits can number.
inline RowsOnDevice upload_rows(DeviceMemory const& memory, std::string const& label,
                                std::vector<EdgeOffset> const& pointers, std::vector<NeuronIndex> const& neurons) {
  std::vector<std::uint32_t> narrow;
  narrow.reserve(pointers.size());
  for (auto const pointer : pointers)
    narrow.push_back(narrowed<std::uint32_t>(pointer, "edges of a layer that is trained"));
  return {new_copy(memory, label + "_rows", narrow), new_copy(memory, label + "_neurons", neurons),
          narrowed<int>(pointers.size() - 1, "neurons of a layer")};
}

/// The pattern of a layer in training: by output for the forward pass, by input for the backward pass and the gradient.
/// The training order of edges and weights is by input; `places` maps it to the order by output.
struct PatternOnDevice {
  RowsOnDevice by_output, by_input;
  DeviceNumbers<std::uint32_t const> places; ///< edge in training order -> edge in the order by output
};

/// One layer in training: its edges and its parts of the arrays of all layers.
template <class Scalar>
struct LayerInTraining : TrainedShape {
  PatternOnDevice edges;
  Activation activation;
  std::size_t first_edge = 0, first_output = 0;        ///< indices of the parts' first elements
  std::size_t first_stored = 0;                        ///< index of by_output's first weight
  DeviceNumbers<Scalar const> by_input{}, by_output{}; ///< weights in training order and by output
  DeviceNumbers<double const> bias{};
  // only for a dense backward pass of a layer that lacks some edges
  DeviceNumbers<Scalar> dense_by_input{};            ///< [input][output]
  DeviceNumbers<Scalar const> dense_weights{};       ///< dense_by_input, read-only
  DeviceNumbers<std::uint32_t const> dense_places{}; ///< place in dense_by_input of each edge by input

  /// Weights for the backward pass: by input, one per edge or [input][output].
  DeviceNumbers<Scalar const> const& backward_weights() const {
    return dense_weights.size() != 0 ? dense_weights : by_input;
  }
};

/// Arrays that kernels read for a strip of a layer. They are views of the strip alone.
template <class Scalar>
struct DirectedLayer {
  LayerStrip strip;
  RowsOnDevice const& edges;
  DeviceNumbers<Scalar const> const& weights; ///< in the order of `edges`, or dense
  DeviceNumbers<double const> const& bias;    ///< for the forward direction
  DeviceNumbers<std::uint32_t const> const&
      places; ///< for the backward direction: LayerInTraining::dense_places from the strip's first place on
};

/// The arrays of a strip of a layer that is on the device.
template <class Scalar>
DirectedLayer<Scalar> strip_of(LayerInTraining<Scalar> const& layer, LayerUse::Direction direction,
                               LayerStrip const& strip) {
  if (direction == LayerUse::Direction::forward)
    return {strip, layer.edges.by_output, layer.by_output, layer.bias, layer.dense_places};
  return {strip, layer.edges.by_input, layer.backward_weights(), layer.bias, layer.dense_places};
}

/// Partial sums of the binary tree over leaves (TreeLevels of the kernels).
template <class Scalar>
struct LevelsOnDevice {
  DeviceNumbers<Scalar> sums;
  std::size_t num_sums = 0; ///< sums in each level
  int leaves_per_run = 1;   ///< a power of two
  int num_leaves = 0;       ///< leaves, or halves of leaves
  int parts_per_leaf = 1;   ///< parts of each leaf that count as leaves

  /// The same levels from sum `first` on, for one of several layers whose sums are adjacent.
  LevelsOnDevice from_sum(std::size_t first) const {
    auto levels = *this;
    levels.sums = sums.part(first, sums.size());
    return levels;
  }
};

/// Partial sums over leaves of the gradients of a strip of a layer.
template <class Scalar>
struct GradientLevels {
  LevelsOnDevice<Scalar> weights; ///< a sum for each gradient of the strip
  LevelsOnDevice<Scalar> bias;    ///< a sum for each output, if the strip also has the gradients of biases
};

/// Arrays that the backward pass of a strip of a layer reads and writes besides its weights.
template <class Scalar>
struct BackwardPanels {
  LeafPanel<Scalar> inputs;       ///< activations of the layer before
  LeafPanel<Scalar> errors;       ///< errors of the layer's outputs
  LeafPanel<Scalar> input_errors; ///< result: errors of the outputs of the layer before
  GradientLevels<Scalar> levels;  ///< result: gradients
  int num_positions;              ///< of the micro-batch, on which the length of lines depends
};

/// Division of the leaves into runs for the backward pass of a strip.
struct LeafRuns {
  int of_weights,
      of_bias; ///< leaves, or parts of leaves, that one team adds up
  int num_leaves;
  int parts_per_leaf = 1;
};

/// Properties of a device's training kernels that determine how the host divides work and memory.
struct TrainingTraits {
  std::size_t series_sums;            ///< most edges and neurons of a series of layers; 0: no series
  std::size_t group_bytes;            ///< bytes of partial sums of neighbouring layers that one launch adds up
  std::size_t min_transposed_weights; ///< weights from which on a dense layer without gaps is transposed in blocks
  std::size_t launch_edges;           ///< edges whose forward pass for a leaf takes as long as a launch
  std::size_t num_processors;
};

/// Layers [first, last] over num_leaves leaves from first_leaf on, of a micro-batch of num_positions; errors: which of
/// two panels holds the errors of the last layer's outputs.
struct SeriesPart {
  std::size_t first, last, first_leaf, num_leaves;
  int num_positions, errors;

  auto operator<=>(SeriesPart const&) const = default;
};

/// The lines of a part in the panels of a series of layers.
template <class Scalar>
struct SeriesPanels {
  std::function<LeafPanel<Scalar>(std::size_t layer)> inputs_of;
  LeafPanel<Scalar> errors[2];
};

/// Launches of series of layers on a host. They are built once and kept: a kernel holds thirty arrays per layer, and
/// copying these takes 3 to 14 % of a step of narrow layers.
template <class Scalar>
class SeriesPasses {
public:
  virtual ~SeriesPasses() = default;

  /// Call after arrays or panels have been replaced.
  virtual void forget() = 0;
  /// The forward pass of layers [first, end). Does not fence.
  virtual void forward(Stream const& stream, std::vector<LayerInTraining<Scalar>> const& layers, std::size_t first,
                       std::size_t end, SeriesPanels<Scalar> const& panels, int num_positions) = 0;
  /// The backward pass of a part: writes the sums of gradients to `levels`, adjacent by layer. Does not fence.
  virtual void backward(Stream const& stream, std::vector<LayerInTraining<Scalar>> const& layers,
                        SeriesPart const& part, SeriesPanels<Scalar> const& panels,
                        GradientLevels<Scalar> const& levels) = 0;
};

/// Arguments of a step of the optimizer; see UpdateStep of the kernels.
template <class Number, class Sum>
struct UpdatedNumbers {
  DeviceNumbers<Number> numbers;
  DeviceNumbers<Number> first,
      second;                                ///< moments; empty where the optimizer has none
  DeviceNumbers<Sum const> sums;             ///< sums of the gradients over the mini-batch
  DeviceNumbers<Number> copies;              ///< the numbers in another order; empty: not wanted
  DeviceNumbers<std::uint32_t const> places; ///< index of each number in `copies`
  DeviceNumbers<int> bad;                    ///< one element: set to 1 if a number is not finite; empty: no check
  UpdateFactors<Number> factors;
  OptimizerKind kind;
};

/// Numbers that another rank has computed, and their destinations; see StoreReceived of the kernels.
template <class Number>
struct ReceivedNumbers {
  DeviceNumbers<Number const> numbers;
  DeviceNumbers<Number> in_order;            ///< empty: not wanted
  DeviceNumbers<Number> copies;              ///< empty: not wanted
  DeviceNumbers<std::uint32_t const> places; ///< index of each number in `copies`
  DeviceNumbers<int> bad;                    ///< one element: set to 1 if a number is not finite
};

/// The outputs of a network for a micro-batch and the answers; see OutputError of the kernels.
template <class Scalar>
struct AnsweredOutputs {
  LeafPanel<Scalar> outputs;
  LeafPanel<Scalar> targets;               ///< target outputs; empty if `labels` are given
  DeviceNumbers<NeuronIndex const> labels; ///< target class by position
  DeviceNumbers<double const> weights;     ///< weight of the sample by position; empty: 1
  LeafPanel<Scalar> errors;                ///< result
  DeviceNumbers<double> losses;            ///< result, by position
  DeviceNumbers<int> is_right;             ///< result, by position
  Activation activation;
  Loss loss;
  int num_outputs, num_positions;
};

/// Outputs of a layer whose gradients are wanted at all places, with the panels of all outputs.
template <class Scalar>
struct PlaceBlock {
  LeafPanel<Scalar> inputs, errors;
  int num_inputs, num_outputs, first_output, block_outputs, num_positions;
};

/// All parts of training that are compiled for an execution space. No function fences unless it returns a number.
template <class Scalar>
class TrainingKernels {
public:
  virtual ~TrainingKernels() = default;

  virtual DeviceMemory const& memory() const = 0;
  virtual TrainingTraits traits() const = 0;
  virtual LeafRuns runs_of(std::size_t num_rows, std::size_t num_outputs, bool is_dense,
                           std::size_t num_leaves) const = 0;
  /// Leaves that one team adds up in a series, or in a block of places.
  virtual int leaves_of_series(int num_leaves) const = 0;
  virtual int leaves_of_places(int num_inputs, int block_outputs, int num_leaves) const = 0;

  virtual void update(Stream const& stream, UpdatedNumbers<Scalar, Scalar> const& weights) const = 0;
  virtual void update_bias(Stream const& stream, UpdatedNumbers<double, Scalar> const& bias) const = 0;
  virtual void store(Stream const& stream, ReceivedNumbers<Scalar> const& weights) const = 0;
  virtual void store_bias(Stream const& stream, ReceivedNumbers<double> const& bias) const = 0;
  /// by_output[output][input] = by_input[input][output] for the weights [first, last) of a layer without gaps.
  virtual void turn(Stream const& stream, LayerInTraining<Scalar> const& layer, DeviceNumbers<Scalar> const& by_output,
                    std::size_t first, std::size_t last) const = 0;
  /// The index of the first number that is not finite.
  virtual std::optional<std::size_t> first_bad(Stream const& stream,
                                               DeviceNumbers<Scalar const> const& numbers) const = 0;
  virtual std::optional<std::size_t> first_bad_bias(Stream const& stream,
                                                    DeviceNumbers<double const> const& numbers) const = 0;

  /// sums[i] += others[i].
  virtual void merge_subtrees(Stream const& stream, DeviceNumbers<Scalar> const& sums,
                              DeviceNumbers<Scalar const> const& others) const = 0;
  /// total[i] = the sum of sums[p][i] over all subtrees p, by the program `merges` (merges_of() in network/leaf.hpp).
  virtual void add_subtrees(Stream const& stream, DeviceNumbers<Scalar const*> const& sums,
                            DeviceNumbers<int> const& merges, DeviceNumbers<Scalar> const& total) const = 0;
  /// numbers[i] -= shift.
  virtual void subtract(Stream const& stream, DeviceNumbers<std::uint32_t> const& numbers,
                        std::uint32_t shift) const = 0;

  /// Gathers rows, with their zeros, at the positions of a panel of `width` neurons.
  virtual void gather_positions(Stream const& stream, SampleRowsOnDevice<Scalar> const& rows,
                                DeviceNumbers<std::uint64_t> const& rows_of, LeafPanel<Scalar> const& panel,
                                std::size_t width, int num_positions) const = 0;
  virtual void answer(Stream const& stream, AnsweredOutputs<Scalar> const& outputs) const = 0;

  /// The forward pass of a strip of a layer over num_positions positions, by the kernel of its format.
  virtual void forward(Stream const& stream, LayerInTraining<Scalar> const& layer, DirectedLayer<Scalar> const& strip,
                       LeafPanel<Scalar> const& inputs, LeafPanel<Scalar> const& outputs, int num_positions) const = 0;
  /// The backward pass. before: the activation of the layer before; null for the first layer, which has gradients
  /// alone.
  virtual void backward(Stream const& stream, LayerInTraining<Scalar> const& layer, DirectedLayer<Scalar> const& strip,
                        Activation const* before, BackwardPanels<Scalar> const& panels) const = 0;
  /// totals[first + i] = the sum over all leaves of sum i, and the same for the biases from first_bias on. places:
  /// null, or if the levels have a gradient for each place of a layer, those of its edges in training order, which are
  /// used.
  virtual void totals(Stream const& stream, GradientLevels<Scalar> const& levels,
                      DeviceNumbers<std::uint32_t const> const* places, DeviceNumbers<Scalar> const& totals,
                      std::size_t first, std::size_t first_bias) const = 0;
  /// Null if the device computes no series.
  virtual std::unique_ptr<SeriesPasses<Scalar>> new_series() const = 0;

  /// The gradients of all places of a block, into `levels` for leaves_of_places().
  virtual void place_gradients(Stream const& stream, PlaceBlock<Scalar> const& block,
                               LevelsOnDevice<Scalar> const& levels) const = 0;
  /// Lists the places of a block without an edge whose absolute gradients exceed `limit`, with these gradients, and
  /// returns their number.
  virtual std::size_t list_free_places(Stream const& stream, RowsOnDevice const& edges, PlaceBlock<Scalar> const& block,
                                       DeviceNumbers<Scalar const> const& gradients, Scalar limit,
                                       DeviceNumbers<std::uint32_t> const& places,
                                       DeviceNumbers<Scalar> const& magnitudes) const = 0;
};

/// The kernels of training of one backend (backend_of_kernels()) for one scalar type, float or double, with the memory
/// of a backend that runs them. CMake generates a source file from backend_training.cpp.in for each combination.
template <Backend backend, class Scalar>
std::unique_ptr<TrainingKernels<Scalar>> training_kernels_of(DeviceMemory const& memory);

/// The kernels of training that a backend runs. Throws UsageError if this build lacks the backend.
template <class Scalar>
std::unique_ptr<TrainingKernels<Scalar>> training_kernels(Backend backend);

} // namespace varve
