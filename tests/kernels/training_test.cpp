#include "engine/draw.hpp"
#include "formats/device_layer.hpp"
#include "kernels/edge_rows.hpp"
#include "kernels/execution_spaces.hpp"
#include "kernels/fused_backward.hpp"
#include "kernels/gather_positions.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/output_error.hpp"
#include "kernels/trained_dense.hpp"
#include "kernels/trained_forward.hpp"
#include "kernels/update_step.hpp"
#include "reference/train.hpp"
#include "reference/training_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace varve {
namespace {

using test::training_case;
using test::TrainingCase;
using test::TrainingShape;

template <class Scalar>
auto bits_of(Scalar number) {
  return std::bit_cast<std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>>(number);
}

template <class Scalar>
void expect_equal_bits(std::vector<Scalar> const& found, std::vector<Scalar> const& expected, char const* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(bits_of(found[i]), bits_of(expected[i])) << what << " " << i;
}

/// The kernels that a step consists of; those in scratch are for GPUs.
enum class Kernels { edges, scratch, dense };

/// A step by the kernels alone, all of a layer's sums at once, with lines of so many links (with_links()).
template <class ExecutionSpace, class Scalar, int Links>
class StepByKernels {
public:
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  template <class T>
  using Array = DeviceArray<ExecutionSpace, T>;
  using Panel = TrainingPanel<ExecutionSpace, Scalar, Links>;

  StepByKernels(Network const& network, int leaves_per_run, Kernels kernels)
      : network_(network), leaves_per_run_(leaves_per_run), kernels_(kernels) {
    auto const trained = trained_layers<Scalar>(network);
    for (auto const& layer : trained) {
      auto const inputs = transposed(layer.pattern);
      std::vector<Scalar> by_input;
      for (auto const edge : inputs.edges) by_input.push_back(layer.weights[edge]);
      layers_.push_back({test::edge_rows<ExecutionSpace>(layer.pattern.row_pointers, layer.pattern.column_indices),
                         test::edge_rows<ExecutionSpace>(inputs.row_pointers, inputs.outputs),
                         upload<ExecutionSpace>("by_input", by_input),
                         upload<ExecutionSpace>("by_output", layer.weights), upload<ExecutionSpace>("bias", layer.bias),
                         inputs.edges, DenseLayer(layer)});
    }
  }

  /// A layer as dense matrices.
  struct DenseLayer {
    explicit DenseLayer(TrainedLayer<Scalar> const& layer) {
      auto const inputs = layer.pattern.num_columns;
      auto const outputs = layer.pattern.num_rows;
      std::vector<Scalar> rows(inputs * outputs);
      std::vector<Scalar> columns(inputs * outputs);
      std::vector<std::uint32_t> place_of_edge(layer.weights.size());
      for (std::size_t output = 0; output < outputs; ++output) {
        for (auto edge = layer.pattern.row_pointers[output]; edge < layer.pattern.row_pointers[output + 1]; ++edge) {
          auto const input = std::size_t{layer.pattern.column_indices[edge]};
          rows[output * inputs + input] = columns[input * outputs + output] = layer.weights[edge];
          place_of_edge[edge] = static_cast<std::uint32_t>(input * outputs + output);
        }
      }
      by_output = upload<ExecutionSpace>("dense", rows);
      by_input = upload<ExecutionSpace>("dense", columns);
      places = upload<ExecutionSpace>("places", place_of_edge);
    }
    Array<Scalar> by_output, by_input;
    Array<std::uint32_t> places; ///< by edge, in by_input
  };

  struct DeviceLayer {
    EdgeRows<ExecutionSpace> edges_by_output, edges_by_input;
    Array<Scalar> by_input, by_output;
    Array<double> bias;
    std::vector<EdgeOffset> edge_numbers;
    DenseLayer dense;
  };

  Gradient<Scalar> run(TrainingCase const& given, Answers const& answers, Loss loss) {
    auto const positions = static_cast<int>(given.samples.num_samples());
    leaves_ = static_cast<int>(num_leaves<Scalar>(given.samples.num_samples()));
    std::vector<Panel> panels = {panel_of(given.samples.matrix, network_.num_inputs())};
    for (std::size_t number = 0; number < layers_.size(); ++number) panels.push_back(forward(number, panels.back()));
    Gradient<Scalar> gradient;
    gradient.layers.resize(layers_.size());
    Panel errors = output_errors(panels.back(), answers, loss, positions, gradient.loss);
    for (std::size_t number = layers_.size(); number-- > 0;) {
      errors = backward(number, panels[number], errors, gradient.layers[number]);
    }
    return gradient;
  }

  std::vector<DeviceLayer> const& layers() const { return layers_; }

private:
  /// Full of numbers that nobody may read.
  Panel new_panel(std::size_t neurons) const {
    typename Tile::Line line;
    for (auto& pack : line.pack)
      for (auto& lane : pack.lane) lane = std::numeric_limits<Scalar>::quiet_NaN();
    return upload<ExecutionSpace>("panel",
                                  std::vector<typename Tile::Line>(static_cast<std::size_t>(leaves_) * neurons, line));
  }

  Panel panel_of(SparseMatrix const& matrix, std::size_t neurons) const {
    std::vector<Scalar> values(matrix.values.begin(), matrix.values.end());
    std::vector<std::uint64_t> rows(matrix.num_rows);
    std::iota(rows.begin(), rows.end(), std::uint64_t{0});
    GatherPositions<ExecutionSpace, Scalar, Links> const kernel{
        {upload<ExecutionSpace>("rows", std::vector<std::uint64_t>(matrix.row_pointers)),
         upload<ExecutionSpace>("columns", matrix.column_indices), upload<ExecutionSpace>("values", values)},
        upload<ExecutionSpace>("positions", rows),
        new_panel(neurons),
        static_cast<int>(neurons)};
    gather_positions(space_, kernel, static_cast<int>(matrix.num_rows));
    space_.fence("gathered");
    return kernel.panel;
  }

  Panel forward(std::size_t number, Panel const& inputs) const {
    Layer const layer = network_.layer(number);
    auto const& own = layers_[number];
    auto const num_outputs = static_cast<int>(layer.num_outputs());
    TrainedForward<ExecutionSpace, Scalar, Links> kernel{};
    kernel.edges = own.edges_by_output;
    kernel.weights = kernels_ == Kernels::dense ? own.dense.by_output : own.by_output;
    kernel.bias = own.bias;
    kernel.bounds = bounds_of<Scalar>(layer.activation);
    kernel.inputs = inputs;
    kernel.outputs = new_panel(layer.num_outputs());
    kernel.num_inputs = static_cast<int>(layer.num_inputs());
    kernel.stride = num_outputs;
    if (kernels_ == Kernels::dense) trained_dense_forward(space_, kernel, num_outputs, leaves_);
    if (kernels_ == Kernels::edges) trained_forward(space_, kernel, leaves_);
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (kernels_ == Kernels::scratch) scratch_forward(space_, kernel, leaves_);
    }
    space_.fence("forward");
    return kernel.outputs;
  }

  Panel output_errors(Panel const& outputs, Answers const& answers, Loss loss, int positions, LossSum& sum) const {
    std::size_t const neurons = network_.num_outputs();
    using FullPanel = TrainingPanel<ExecutionSpace, Scalar>;
    using FullLine = typename TrainingTile<ExecutionSpace, Scalar>::Line;
    auto const full = [](Panel const& panel) {
      return FullPanel(reinterpret_cast<FullLine*>(panel.data()), panel.size());
    };
    Panel const errors = new_panel(neurons);
    Panel targets;
    OutputError<ExecutionSpace, Scalar> kernel{};
    kernel.outputs = full(outputs);
    if (!answers.are_labels()) targets = panel_of(answers.values, neurons);
    kernel.targets = full(targets);
    kernel.labels = upload<ExecutionSpace>("labels", answers.labels);
    kernel.weights = upload<ExecutionSpace>("weights", answers.weights);
    kernel.errors = full(errors);
    kernel.losses = Array<double>("losses", static_cast<std::size_t>(positions));
    kernel.is_right = Array<int>("right", static_cast<std::size_t>(positions));
    kernel.derivative = Derivative<Scalar>(network_.layers().back().activation);
    kernel.loss = loss;
    kernel.num_outputs = static_cast<int>(neurons);
    kernel.num_positions = positions;
    output_error(space_, kernel);
    space_.fence("output error");
    auto const losses = download(kernel.losses);
    sum.num_samples = losses.size();
    std::vector<double> leaves(static_cast<std::size_t>(leaves_));
    for (std::size_t i = 0; i < losses.size(); ++i) leaves[i / kLeafSamples<Scalar>] += losses[i];
    sum.loss = leaf_tree(0, leaves.size(), [&](std::size_t leaf) { return leaves[leaf]; });
    for (int const right : download(kernel.is_right)) sum.num_right += static_cast<std::size_t>(right);
    return errors;
  }

  TreeLevels<ExecutionSpace, Scalar> new_levels(std::size_t num_sums) const {
    int levels = 1;
    while (1 << (levels - 1) < leaves_per_run_) ++levels;
    int const parts = kernels_ == Kernels::scratch ? 2 : 1;
    std::vector<Scalar> const numbers(size_of_levels(num_sums, parts * leaves_, leaves_per_run_),
                                      std::numeric_limits<Scalar>::quiet_NaN());
    return {upload<ExecutionSpace>("levels", numbers), num_sums, levels, leaves_per_run_, parts * leaves_, parts};
  }

  /// The totals of two sets of sums, by one launch.
  void add_totals(TreeLevels<ExecutionSpace, Scalar> const& weights, TreeLevels<ExecutionSpace, Scalar> const& bias,
                  LayerGradient<Scalar>& gradient) const {
    AddLevels<ExecutionSpace, Scalar> const kernel{weights, Array<Scalar>("totals", weights.num_sums + bias.num_sums),
                                                   bias.num_sums, bias, 0};
    launch_range(space_, kernel);
    space_.fence("totals");
    auto const totals = download(kernel.totals);
    auto const middle = totals.begin() + static_cast<std::ptrdiff_t>(bias.num_sums);
    gradient.bias.assign(totals.begin(), middle);
    gradient.weights.assign(middle, totals.end());
  }

  /// Gives the errors of the layer's inputs, for the first layer an empty panel.
  Panel backward(std::size_t number, Panel const& inputs, Panel const& errors, LayerGradient<Scalar>& gradient) const {
    return number > 0 ? backward_by<true>(number, inputs, errors, gradient)
                      : backward_by<false>(number, inputs, errors, gradient);
  }

  template <bool HasInputErrors>
  Panel backward_by(std::size_t number, Panel const& inputs, Panel const& errors,
                    LayerGradient<Scalar>& gradient) const {
    auto const& own = layers_[number];
    auto const& layer = network_.layers()[number];
    bool const is_dense = kernels_ == Kernels::dense;
    FusedBackward<ExecutionSpace, Scalar, HasInputErrors, Links> kernel{};
    kernel.edges = own.edges_by_input;
    kernel.weights = is_dense ? own.dense.by_input : own.by_input;
    kernel.inputs = inputs;
    kernel.errors = errors;
    if (HasInputErrors) {
      kernel.input_errors = new_panel(layer.num_inputs());
      kernel.derivative = Derivative<Scalar>(network_.layers()[number - 1].activation);
    }
    kernel.levels = new_levels(is_dense ? own.dense.by_input.size() : own.by_input.size());
    kernel.bias_levels = new_levels(layer.num_outputs());
    kernel.num_outputs = static_cast<int>(layer.num_outputs());
    kernel.stride = static_cast<int>(layer.num_inputs());
    if (is_dense) trained_dense_backward(space_, kernel, kernel.stride);
    if (kernels_ == Kernels::edges) fused_backward(space_, kernel);
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (kernels_ == Kernels::scratch) scratch_backward(space_, kernel);
    }
    if (is_dense) {
      PickLevels<ExecutionSpace, Scalar> const pick{kernel.levels, own.dense.places,
                                                    Array<Scalar>("totals", own.dense.places.size()), 0};
      launch_range(space_, pick);
      add_totals(kernel.bias_levels, {{}, 0, 0, 1, 0}, gradient);
      gradient.bias = gradient.weights;
      gradient.weights = download(pick.totals);
    } else {
      add_totals(kernel.levels, kernel.bias_levels, gradient);
      auto const by_input = gradient.weights;
      for (std::size_t i = 0; i < by_input.size(); ++i) gradient.weights[own.edge_numbers[i]] = by_input[i];
    }
    return kernel.input_errors;
  }

  Network network_;
  int leaves_per_run_;
  Kernels kernels_;
  int leaves_ = 0;
  std::vector<DeviceLayer> layers_;
  ExecutionSpace space_;
};

template <class ExecutionSpace, class Scalar, int Links>
void expect_reference(TrainingShape const& shape, int leaves_per_run) {
  auto const given = training_case(shape);
  auto const layers = trained_layers<Scalar>(given.network);
  std::vector<StepByKernels<ExecutionSpace, Scalar, Links>> ways;
  for (auto const by : {Kernels::edges, Kernels::scratch, Kernels::dense})
    if (by != Kernels::scratch || !kOnHost<ExecutionSpace>) ways.emplace_back(given.network, leaves_per_run, by);
  auto const compare = [&](Answers const& answers, Loss loss) {
    auto const expected = gradient_of(layers, given.samples, answers, loss);
    for (std::size_t way = 0; way < ways.size(); ++way) {
      auto const found = ways[way].run(given, answers, loss);
      EXPECT_EQ(bits_of(found.loss.loss), bits_of(expected.loss.loss));
      EXPECT_EQ(found.loss.num_right, expected.loss.num_right);
      for (std::size_t number = 0; number < layers.size(); ++number) {
        SCOPED_TRACE(testing::Message() << "kernels " << way << ", layer " << number << " of "
                                        << shape.widths.size() - 1 << ", " << shape.num_samples << " samples, runs of "
                                        << leaves_per_run);
        expect_equal_bits(found.layers[number].weights, expected.layers[number].weights, "edge");
        expect_equal_bits(found.layers[number].bias, expected.layers[number].bias, "bias");
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  };
  compare(given.labels, Loss::cross_entropy);
  compare(given.labels, Loss::mean_square);
  compare(given.targets, Loss::mean_square);
  compare(given.targets, {Loss::huber, 0.4});
  compare(given.labels, {Loss::huber, 0.4});
  compare(given.weighted(given.targets), {Loss::huber, 0.4});
  compare(given.weighted(given.labels), Loss::cross_entropy);
  compare(given.probabilities(), Loss::logistic);
  compare(given.network.num_outputs() == 1 ? given.labels_of_two() : given.labels, Loss::logistic);
}
template <class ExecutionSpace, class Scalar>
void expect_reference(TrainingShape const& shape, int leaves_per_run) {
  with_links<ExecutionSpace, Scalar>(static_cast<int>(shape.num_samples), [&](auto links) {
    if constexpr (links != 2 || sizeof(Scalar) == 4) // the middle length in float alone: tests in double compile long
      expect_reference<ExecutionSpace, Scalar, links>(shape, leaves_per_run);
  });
}

template <class ExecutionSpace>
class TrainingKernels : public testing::Test {};
TYPED_TEST_SUITE(TrainingKernels, test::ExecutionSpaces, test::NameOfSpace);

std::vector<Activation> const all = {Activation::relu(),    Activation::sigmoid(),  Activation::leaky_relu(0.125),
                                     Activation::tanh(),    Activation::softplus(), Activation::clipped_relu(0.75),
                                     Activation::identity()};

TYPED_TEST(TrainingKernels, EqualTheReferenceBitForBit) {
  std::uint64_t seed = 1;
  test::Draw draw;
  for (std::size_t const samples : {1U, 8U, 9U, 16U, 17U, 31U, 32U, 33U, 63U, 64U, 65U, 130U, 449U}) {
    if (!draw.next()) continue;
    for (int const leaves_per_run : {1, 2, 8}) {
      TrainingShape const shape{{37, 50, 16, 33, 70, 17, 10}, samples, 0.4, all, ++seed};
      expect_reference<TypeParam, float>(shape, leaves_per_run);
      expect_reference<TypeParam, double>(shape, leaves_per_run);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(TrainingKernels, TakeEveryLastActivation) {
  for (auto const& last : all) {
    TrainingShape const shape{{20, 30, 12}, 70, 0.5, {Activation::tanh(), last}, 5};
    expect_reference<TypeParam, float>(shape, 1);
    expect_reference<TypeParam, double>(shape, 4);
  }
}

TYPED_TEST(TrainingKernels, TakeOneNeuronNoEdgesAndDenseLayers) {
  expect_reference<TypeParam, float>({{1, 1, 1}, 70, 1.0, all}, 1);
  expect_reference<TypeParam, double>({{1, 3, 1}, 5, 1.0, all}, 1);
  expect_reference<TypeParam, float>({{5, 4, 3}, 70, 0.0, all}, 2);
  expect_reference<TypeParam, float>({{300, 3, 200, 2}, 100, 1.1, all}, 2);
  expect_reference<TypeParam, double>({{100, 33, 64}, 100, 1.1, all}, 2);
}

/// On GPUs the first two take the large teams of LeafProductOnGpu; in the others hosts add up several groups of leaves
/// of a run, of which the last is not full.
TYPED_TEST(TrainingKernels, TakeManyLeaves) {
  expect_reference<TypeParam, float>({{66, 130, 5}, 140 * kLeafSamples<float> - 3, 0.5, all}, 4);
  expect_reference<TypeParam, double>({{66, 130, 5}, 140 * kLeafSamples<double> - 3, 0.5, all}, 4);
  expect_reference<TypeParam, float>({{13, 50, 5}, 45 * kLeafSamples<float> - 3, 0.5, all}, 64);
  expect_reference<TypeParam, double>({{13, 50, 5}, 61 * kLeafSamples<double> - 3, 0.5, all}, 64);
}

TYPED_TEST(TrainingKernels, TakeMoreScratchThanAtTheirFirstLaunch) {
  expect_reference<TypeParam, float>({{20, 30, 12}, 40, 0.5, all}, 1);
  expect_reference<TypeParam, float>({{700, 20, 600, 4}, 40, 0.1, all}, 1);
  expect_reference<TypeParam, double>({{20, 30, 12}, 40, 0.5, all}, 1);
  expect_reference<TypeParam, double>({{700, 20, 600, 4}, 40, 0.1, all}, 1);
}

template <class ExecutionSpace, class Scalar>
void expect_updates(OptimizerKind kind, std::size_t count) {
  RandomStream random(count, static_cast<std::uint64_t>(kind));
  // a network whose edges are the numbers, by one input; the reference steps it with gradients of its own
  SparseMatrix pattern{count, 1, {}, std::vector<NeuronIndex>(count, 0), {}};
  pattern.row_pointers.resize(count + 1);
  std::iota(pattern.row_pointers.begin(), pattern.row_pointers.end(), EdgeOffset{0});
  for (std::size_t i = 0; i < count; ++i) pattern.values.push_back(test::draw_real(random, -1.0, 1.0));
  std::vector<double> bias(count);
  for (auto& number : bias) number = test::draw_real(random, -1.0, 1.0);
  Network const network({Layer{pattern, bias, Activation::identity()}});
  SampleSet const samples{{3, 1, {0, 1, 2, 3}, {0, 0, 0}, {0.3, -0.8, 0.9}}, 0};
  Answers answers;
  answers.values = test::draw_matrix(random, 3, count, 0.9, 1.0);
  Optimizer optimizer;
  optimizer.kind = kind;
  optimizer.l2 = 0.01;
  ReferenceTraining<Scalar> reference(network, Loss::mean_square, optimizer);

  ExecutionSpace const space;
  auto const start = trained_layers<Scalar>(network)[0];
  auto const with = [&](auto number, std::vector<decltype(number)> const& numbers, bool has_copies) {
    using Number = decltype(number);
    auto const moment = [&](int which) {
      return DeviceArray<ExecutionSpace, Number>("moment", optimizer.num_moments() > which ? count : 0);
    };
    UpdateStep<ExecutionSpace, Number, Scalar> kernel{};
    kernel.numbers = upload<ExecutionSpace>("numbers", numbers);
    kernel.first = moment(0);
    kernel.second = moment(1);
    if (has_copies) {
      std::vector<std::uint32_t> places(count);
      for (std::size_t i = 0; i < count; ++i) places[i] = static_cast<std::uint32_t>(count - 1 - i);
      kernel.copies = DeviceArray<ExecutionSpace, Number>("copies", count);
      kernel.places = upload<ExecutionSpace>("places", places);
    }
    kernel.kind = kind;
    return kernel;
  };
  auto weights = with(Scalar{}, start.weights, true);
  auto biases = with(double{}, start.bias, false);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    auto const gradient = gradient_of(reference.layers(), samples, answers, Loss::mean_square).layers[0];
    reference.step(samples, answers, 0.1);
    weights.sums = upload<ExecutionSpace>("sums", gradient.weights);
    biases.sums = upload<ExecutionSpace>("sums", gradient.bias);
    weights.factors = update_factors<Scalar>(optimizer, 0.1, 3, step);
    biases.factors = bias_update_factors(optimizer, 0.1, 3, step);
    launch_range(space, weights);
    launch_range(space, biases);
    space.fence("step");
    auto const& expected = reference.layers()[0];
    expect_equal_bits(download(weights.numbers), expected.weights, "weight");
    expect_equal_bits(download(biases.numbers), expected.bias, "bias");
    auto copies = download(weights.copies);
    std::ranges::reverse(copies);
    expect_equal_bits(copies, expected.weights, "copy");
    for (int which = 0; which < optimizer.num_moments(); ++which) {
      auto const& moments = reference.moments()[0];
      expect_equal_bits(download(which == 0 ? weights.first : weights.second),
                        moments.weights[static_cast<std::size_t>(which)], "moment");
      expect_equal_bits(download(which == 0 ? biases.first : biases.second),
                        moments.bias[static_cast<std::size_t>(which)], "moment of a bias");
    }
  }
}

TYPED_TEST(TrainingKernels, UpdateLikeTheReference) {
  for (auto const& entry : all_optimizers) {
    auto const kind = entry.kind;
    for (std::size_t const count : {1U, 16U, 67U}) {
      expect_updates<TypeParam, float>(kind, count);
      expect_updates<TypeParam, double>(kind, count);
    }
  }
}

/// Places within a line, on the tiles of every kind of device.
template <class Tile>
void expect_places_are_a_permutation() {
  using Places = PlaceInLine<Tile>;
  std::vector<int> seen(Tile::num_samples);
  for (int position = 0; position < Tile::num_samples; ++position) {
    int const place = Places::place_of(position);
    ASSERT_GE(place, 0);
    ASSERT_LT(place, Tile::num_samples);
    ++seen[static_cast<std::size_t>(place)];
    EXPECT_EQ(Places::position_of(place), position);
    int const lane = place / Tile::pack_width % Tile::num_lanes;
    int const first_of_lane = Places::position_of(lane * Tile::pack_width);
    constexpr int chains = kLeafChains<typename Tile::Scalar>;
    if (Tile::num_lanes > 1) {
      EXPECT_EQ(first_of_lane % chains, position % chains) << "a lane has a chain";
    }
  }
  EXPECT_EQ(seen, std::vector<int>(Tile::num_samples, 1));
}

TEST(PlacesInALine, AreAPermutationThatGivesEachLaneAChain) {
  expect_places_are_a_permutation<TileShape<float, 16, 4, 1>>();
  expect_places_are_a_permutation<TileShape<double, 8, 4, 1>>();
  expect_places_are_a_permutation<TileShape<float, 4, 1, 16>>();
  expect_places_are_a_permutation<TileShape<double, 2, 2, 8>>();
}

/// Kernels for GPUs add neighbouring lanes first, and count halves of the lanes as leaves.
template <class Tile>
void expect_tree_of_neighbours() {
  using Scalar = typename Tile::Scalar;
  constexpr int chains = kLeafChains<Scalar>;
  RandomStream random(chains, 7);
  std::vector<Scalar> by_chain(chains);
  for (auto& sum : by_chain) sum = static_cast<Scalar>(test::draw_real(random, -1.0, 1.0));
  std::vector<Scalar> by_lane;
  for (int lane = 0; lane < Tile::num_lanes; ++lane)
    by_lane.push_back(
        by_chain[static_cast<std::size_t>(PlaceInLine<Tile>::position_of(lane * Tile::pack_width) % chains)]);
  for (std::size_t distance = chains / 2; distance > 0; distance /= 2)
    for (std::size_t chain = 0; chain < distance; ++chain) by_chain[chain] += by_chain[chain + distance];
  auto const found = leaf_tree(0, by_lane.size(), [&](std::size_t lane) { return by_lane[lane]; });
  EXPECT_EQ(bits_of(found), bits_of(by_chain[0]));
}

TEST(PlacesInALine, LetNeighbouringLanesBeAddedFirst) {
  expect_tree_of_neighbours<TileShape<float, 4, 1, 16>>();
  expect_tree_of_neighbours<TileShape<double, 2, 2, 8>>();
}

template <class Scalar, int Width>
void expect_trees() {
  RandomStream random(Width, 3);
  Pack<Scalar, Width> rows[Width];
  for (auto& row : rows)
    for (auto& lane : row.lane) lane = static_cast<Scalar>(test::draw_real(random, -1.0, 1.0));
  auto const sums = lane_trees(rows);
  for (int i = 0; i < Width; ++i) {
    auto expected = rows[i];
    for (int distance = Width / 2; distance > 0; distance /= 2)
      for (int lane = 0; lane < distance; ++lane) expected.lane[lane] += expected.lane[lane + distance];
    EXPECT_EQ(bits_of(sums.lane[i]), bits_of(expected.lane[0])) << "row " << i << " of " << Width;
  }
}

TEST(LaneTrees, AddEachRowByItsTree) {
  expect_trees<float, 4>();
  expect_trees<float, 8>();
  expect_trees<float, 16>();
  expect_trees<double, 4>();
  expect_trees<double, 8>();
  expect_trees<double, 16>();
}

template <class ExecutionSpace>
class TurnedWeights : public testing::Test {};
TYPED_TEST_SUITE(TurnedWeights, test::ExecutionSpaces, test::NameOfSpace);

/// Ranges of weights that begin and end within inputs and within squares, also of layers narrower than a square.
template <class ExecutionSpace>
void expect_turned(std::size_t inputs, std::size_t outputs) {
  std::vector<float> by_input(inputs * outputs);
  for (std::size_t i = 0; i < by_input.size(); ++i) by_input[i] = static_cast<float>(i + 1);
  auto const from = upload<ExecutionSpace>("by_input", by_input);
  std::size_t const all = by_input.size();
  for (auto const& [first, last] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, all}, {0, (3 * all + 3) / 4}, {all / 3 + 1, all}, {all / 4, all / 4 + 1}, {all / 2, all / 2}}) {
    auto const to = upload<ExecutionSpace>("by_output", std::vector<float>(all, 0.0F));
    ExecutionSpace const space;
    launch_range(space, TransposeWeights<ExecutionSpace, float>{from, to, inputs, outputs, first, last});
    space.fence("turned");
    std::vector<float> expected(all, 0.0F);
    for (std::size_t i = first; i < last; ++i) expected[i % outputs * inputs + i / outputs] = by_input[i];
    ASSERT_EQ(download(to), expected) << inputs << " inputs, " << outputs << " outputs, " << first << " to " << last;
  }
}

TYPED_TEST(TurnedWeights, AreThoseOfTheRangeAndNoOthers) {
  expect_turned<TypeParam>(1, 1);
  expect_turned<TypeParam>(7, 40);
  expect_turned<TypeParam>(16, 16);
  expect_turned<TypeParam>(150, 97);
  expect_turned<TypeParam>(131, 16);
}

template <class ExecutionSpace>
class GatheredPositions : public testing::Test {};
TYPED_TEST_SUITE(GatheredPositions, test::ExecutionSpaces, test::NameOfSpace);

/// Rows of unlike lengths, one of them empty and one full, gathered to positions in another order, one of them twice.
/// The panel is full of other numbers before.
template <class ExecutionSpace, class Scalar>
void expect_gathered(std::size_t neurons, std::size_t positions, bool is_iso) {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  constexpr std::size_t num_rows = 40;
  std::vector<std::uint64_t> row_pointers{0};
  std::vector<NeuronIndex> columns;
  std::vector<Scalar> values;
  for (std::size_t row = 0; row < num_rows; ++row) {
    for (std::size_t i = 0; i < neurons; ++i) {
      if (row != 1 && (row == 0 || (i * i + row * 5) % (row + 1) >= 2)) continue;
      columns.push_back(static_cast<NeuronIndex>(i));
      values.push_back(static_cast<Scalar>(values.size() + 1));
    }
    row_pointers.push_back(columns.size());
  }
  if (is_iso) values.assign(1, Scalar(3));
  std::vector<std::uint64_t> rows_of(positions);
  for (std::size_t p = 0; p < positions; ++p) rows_of[p] = (p * 7 + p / 5) % num_rows;
  std::size_t const leaves = num_leaves<Scalar>(positions);
  TrainingPanel<ExecutionSpace, Scalar> const panel("panel", leaves * neurons);
  Kokkos::View<Scalar*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged> const numbers(
      reinterpret_cast<Scalar*>(panel.data()), leaves * neurons * Tile::num_samples);
  Kokkos::deep_copy(numbers, Scalar(-1));
  ExecutionSpace const space;
  gather_positions(space,
                   GatherPositions<ExecutionSpace, Scalar>{{upload<ExecutionSpace>("rows", row_pointers),
                                                            upload<ExecutionSpace>("columns", columns),
                                                            upload<ExecutionSpace>("values", values)},
                                                           upload<ExecutionSpace>("positions", rows_of),
                                                           panel,
                                                           static_cast<int>(neurons)},
                   static_cast<int>(positions));
  space.fence("gathered");
  auto const found = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), panel);
  for (std::size_t p = 0; p < leaves * Tile::num_samples; ++p) {
    std::vector<Scalar> expected(neurons, Scalar(0));
    if (p < positions) {
      for (auto entry = row_pointers[rows_of[p]]; entry < row_pointers[rows_of[p] + 1]; ++entry)
        expected[columns[entry]] = values[is_iso ? 0 : entry];
    }
    auto const in_leaf = static_cast<int>(p % Tile::num_samples);
    for (std::size_t i = 0; i < neurons; ++i)
      ASSERT_EQ(number_at(found, p / Tile::num_samples * neurons + i, PlaceInLine<Tile>::place_of(in_leaf)),
                expected[i])
          << neurons << " neurons, position " << p << ", neuron " << i;
  }
}

TYPED_TEST(GatheredPositions, HoldTheirRowsAndZerosElsewhere) {
  for (bool const is_iso : {false, true}) {
    expect_gathered<TypeParam, float>(1, 1, is_iso);
    expect_gathered<TypeParam, float>(96, 64, is_iso);
    expect_gathered<TypeParam, float>(250, 70, is_iso);
    expect_gathered<TypeParam, double>(611, 200, is_iso);
  }
}

} // namespace
} // namespace varve
