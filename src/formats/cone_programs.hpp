#pragma once

#include "formats/device_layer.hpp"
#include "passes/cones.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

namespace varve {

/// A run of layers whose outputs depend on few inputs each, as one program per cone (see Cone); a slot has SlotBytes
/// bytes. A program is a list of groups of `GroupSize` steps. A group is one or more rounds of GroupSize moves of two
/// edges each; after the last round the sums become activations. Padding: steps with fewer edges than others of their
/// group read one of their inputs with weight 0, and the last group of a layer repeats its last step. Neither changes a
/// result, because activations are finite.
template <class ExecutionSpace, class Scalar_, int GroupSize, std::size_t SlotBytes>
struct ConePrograms {
  using Format = ConePrograms;
  using Scalar = Scalar_;
  using Index = std::uint16_t; ///< type of slot numbers
  static constexpr int group_size = GroupSize;
  static constexpr std::size_t slot_bytes = SlotBytes;
  static constexpr int line_length = 8; ///< inputs and outputs of a program are padded to multiples of it

  /// Two edges of a step.
  struct alignas(16) Move {
    Scalar weight[2];
    std::uint16_t place[2]; ///< byte offset of each input's slot
    std::uint16_t target;   ///< byte offset of the slot that the step writes
    std::uint16_t is_last;  ///< 1 in the last round of a group, else 0
  };

  /// The parts of a cone's program within the arrays of all programs.
  struct Program {
    int first_move, num_rounds;    ///< a round has GroupSize moves
    int first_bias, num_groups;    ///< a group has GroupSize biases
    int first_input, num_inputs;   ///< padded to whole lines
    int first_output, num_outputs; ///< padded to whole lines
  };

  /// The run as a kernel argument: trivially copyable, valid during the lifetime of the format.
  struct Edges {
    int num_inputs, num_outputs; ///< inputs of the first layer, outputs of the last layer
    int num_programs;
    int bias_stride; ///< 1: one bias per step; 0: one bias for all steps
    Bounds<Scalar> bounds;
    ArrayView<Program const> programs;
    ArrayView<Move const> moves;
    ArrayView<double const> biases;
    ArrayView<NeuronIndex const> inputs;          ///< slot i of a program holds its input i at the start
    ArrayView<NeuronIndex const> outputs;         ///< neurons that a program computes
    ArrayView<std::uint16_t const> output_places; ///< byte offsets of the slots that hold them at the end
  };

  ConePrograms() = default;
  ConePrograms(std::span<Layer const> layers, ConeRun const& run)
      : num_inputs_(narrowed<int>(layers.front().num_inputs(), "inputs of a run of cones")),
        num_outputs_(narrowed<int>(layers.back().num_outputs(), "outputs of a run of cones")),
        bounds_(bounds_of<Scalar>(layers.front().activation)) {
    Arrays arrays;
    for (Cone const& cone : run.cones) add(layers, cone, arrays);
    bool const has_one_bias = std::ranges::adjacent_find(arrays.biases, std::not_equal_to<>()) == arrays.biases.end();
    if (has_one_bias) arrays.biases.resize(1);
    bias_stride_ = has_one_bias ? 0 : 1;
    programs = upload<ExecutionSpace>("varve::cone_programs", arrays.programs);
    moves = upload<ExecutionSpace>("varve::cone_moves", arrays.moves);
    biases = upload<ExecutionSpace>("varve::cone_biases", arrays.biases);
    inputs = upload<ExecutionSpace>("varve::cone_inputs", arrays.inputs);
    outputs = upload<ExecutionSpace>("varve::cone_outputs", arrays.outputs);
    output_places = upload<ExecutionSpace>("varve::cone_output_places", arrays.output_places);
  }

  Edges edges() const {
    return {num_inputs_,  num_outputs_, static_cast<int>(programs.size()),
            bias_stride_, bounds_,      programs,
            moves,        biases,       inputs,
            outputs,      output_places};
  }
  int num_outputs() const { return num_outputs_; }

  static auto arrays_of(auto& format) {
    return std::tie(format.programs, format.moves, format.biases, format.inputs, format.outputs, format.output_places);
  }

  int max_slots = 0;  ///< most slots of a program
  int max_rounds = 0; ///< most rounds of a program
  int max_groups = 0; ///< most groups of a program
  ConstDeviceArray<ExecutionSpace, Program> programs;
  ConstDeviceArray<ExecutionSpace, Move> moves;
  ConstDeviceArray<ExecutionSpace, double> biases;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> inputs;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> outputs;
  ConstDeviceArray<ExecutionSpace, std::uint16_t> output_places;

private:
  struct Arrays {
    std::vector<Program> programs;
    std::vector<Move> moves;
    std::vector<double> biases;
    std::vector<NeuronIndex> inputs, outputs;
    std::vector<std::uint16_t> output_places;
  };

  void add(std::span<Layer const> layers, Cone const& cone, Arrays& arrays) {
    Program program{};
    program.first_move = narrowed<int>(arrays.moves.size(), "moves of a run of cones");
    program.first_bias = narrowed<int>(arrays.biases.size(), "biases of a run of cones");
    program.first_input = narrowed<int>(arrays.inputs.size(), "inputs of all cones of a run");
    program.first_output = narrowed<int>(arrays.outputs.size(), "outputs of all cones of a run");
    std::size_t first_edge = 0;
    for (std::size_t first = 0; first < cone.steps.size();) {
      std::size_t last = first; // end of the group, exclusive
      while (last < cone.steps.size() && last < first + GroupSize && cone.steps[last].layer == cone.steps[first].layer)
        ++last;
      first_edge +=
          add_group(layers, {cone.steps.data() + first, last - first}, cone.edge_slots.data() + first_edge, arrays);
      first = last;
      ++program.num_groups;
    }
    program.num_rounds =
        (narrowed<int>(arrays.moves.size(), "moves of a run of cones") - program.first_move) / GroupSize;
    program.num_inputs = append_lines(arrays.inputs, cone.inputs);
    program.num_outputs = append_lines(arrays.outputs, cone.outputs);
    std::vector<std::uint16_t> places;
    for (auto const slot : cone.output_slots) places.push_back(place_of(slot));
    append_lines(arrays.output_places, places);
    arrays.programs.push_back(program);
    max_slots = std::max(max_slots, program.num_inputs);
    for (auto const& step : cone.steps) max_slots = std::max(max_slots, step.target + 1);
    max_rounds = std::max(max_rounds, program.num_rounds);
    max_groups = std::max(max_groups, program.num_groups);
  }

  /// Byte offset of a slot.
  static std::uint16_t place_of(std::size_t slot) {
    return narrowed<std::uint16_t>(slot * SlotBytes, "place of a slot of a cone");
  }

  /// Appends a list, padded to whole lines; returns the padded length.
  template <class Number>
  static int append_lines(std::vector<Number>& all, std::vector<Number> const& list) {
    std::size_t const length = (list.size() + line_length - 1) / line_length * line_length;
    all.insert(all.end(), list.begin(), list.end());
    all.insert(all.end(), length - list.size(), list.empty() ? Number(0) : list.back());
    return narrowed<int>(length, "inputs or outputs of a cone");
  }

  /// Appends the moves and biases of a group of steps; returns the number of edges of these steps.
  static std::size_t add_group(std::span<Layer const> layers, std::span<Cone::Step const> steps,
                               std::uint16_t const* edge_slots, Arrays& arrays) {
    Layer const& layer = layers[steps.front().layer];
    SparseMatrix const& matrix = layer.weights;
    std::size_t num_edges = 0;
    std::size_t longest = 1;
    std::vector<std::size_t> first_edges;
    for (auto const& step : steps) {
      first_edges.push_back(num_edges);
      num_edges += matrix.row_size(step.neuron);
      longest = std::max(longest, static_cast<std::size_t>(matrix.row_size(step.neuron)));
    }
    std::size_t const rounds = (longest + 1) / 2;
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < GroupSize; ++i) {
        std::size_t const number = std::min(i, steps.size() - 1);
        auto const& step = steps[number];
        Move move{};
        move.target = place_of(step.target);
        move.is_last = round + 1 == rounds ? 1 : 0;
        for (std::size_t e = 0; e < 2; ++e) {
          std::size_t const edge = 2 * round + e;
          bool const exists = edge < matrix.row_size(step.neuron);
          move.place[e] = place_of(edge_slots[first_edges[number] + (exists ? edge : 0)]);
          if (exists) move.weight[e] = static_cast<Scalar>(matrix.value(matrix.row_pointers[step.neuron] + edge));
        }
        arrays.moves.push_back(move);
      }
    }
    for (std::size_t i = 0; i < GroupSize; ++i)
      arrays.biases.push_back(layer.bias_of(steps[std::min(i, steps.size() - 1)].neuron) + 0.0); // -0 becomes +0
    return num_edges;
  }

  int num_inputs_ = 0;
  int num_outputs_ = 0;
  int bias_stride_ = 0;
  Bounds<Scalar> bounds_{};
};

} // namespace varve
