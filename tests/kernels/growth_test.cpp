#include "kernels/edge_rows.hpp"
#include "kernels/execution_spaces.hpp"
#include "kernels/gather_positions.hpp"
#include "kernels/growth.hpp"
#include "kernels/leaf_sums.hpp"
#include "reference/train.hpp"
#include "reference/training_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace varve {
namespace {

/// Inputs and errors of one layer, and the reference's gradients of all its places: those of a layer of identity whose
/// weights are all 0, so that its errors are 2 * (0 - target) / outputs.
template <class Scalar>
struct LayerCase {
  std::size_t num_inputs, num_outputs;
  SampleSet samples;
  SparseMatrix errors;
  std::vector<Scalar> gradients;

  LayerCase(std::size_t inputs, std::size_t outputs, std::size_t positions, std::uint64_t seed)
      : num_inputs(inputs), num_outputs(outputs) {
    RandomStream random(seed, 3);
    samples = {test::draw_matrix(random, positions, inputs, 0.7, 1.5), 0};
    Answers answers;
    answers.values = test::draw_matrix(random, positions, outputs, 0.8, 1.0);
    errors = answers.values;
    for (auto& value : errors.values) {
      auto const target = static_cast<double>(static_cast<Scalar>(value));
      value = 2.0 * (0.0 - target) / static_cast<double>(outputs);
    }
    Layer layer{{outputs, inputs, {0}, {}, {}}, {0.0}, Activation::identity()};
    for (std::size_t place = 0; place < outputs * inputs; ++place) {
      layer.weights.column_indices.push_back(static_cast<NeuronIndex>(place % inputs));
      layer.weights.values.push_back(0.0);
      if ((place + 1) % inputs == 0) layer.weights.row_pointers.push_back(place + 1);
    }
    Network const network({layer});
    gradients = gradient_of(trained_layers<Scalar>(network), samples, answers, Loss::mean_square).layers[0].weights;
  }
};

template <class ExecutionSpace, class Scalar>
TrainingPanel<ExecutionSpace, Scalar> panel_of(SparseMatrix const& matrix) {
  std::vector<Scalar> const values(matrix.values.begin(), matrix.values.end());
  std::vector<std::uint64_t> rows(matrix.num_rows);
  std::iota(rows.begin(), rows.end(), std::uint64_t{0});
  GatherPositions<ExecutionSpace, Scalar> const kernel{
      {upload<ExecutionSpace>("rows", std::vector<std::uint64_t>(matrix.row_pointers)),
       upload<ExecutionSpace>("columns", matrix.column_indices), upload<ExecutionSpace>("values", values)},
      upload<ExecutionSpace>("positions", rows),
      TrainingPanel<ExecutionSpace, Scalar>("panel", num_leaves<Scalar>(matrix.num_rows) * matrix.num_columns),
      static_cast<int>(matrix.num_columns)};
  ExecutionSpace const space;
  gather_positions(space, kernel, static_cast<int>(matrix.num_rows));
  space.fence("gathered");
  return kernel.panel;
}

/// The gradients of the outputs [first, first + count) by the kernels.
template <class ExecutionSpace, class Scalar>
std::vector<Scalar> gradients_of_block(LayerCase<Scalar> const& given, int leaves_per_run, std::size_t first,
                                       std::size_t count) {
  ExecutionSpace const space;
  auto const leaves = static_cast<int>(num_leaves<Scalar>(given.samples.num_samples()));
  int levels = 1;
  while (1 << (levels - 1) < leaves_per_run) ++levels;
  std::size_t const num_sums = count * given.num_inputs;
  PlaceGradients<ExecutionSpace, Scalar> kernel{};
  kernel.inputs = panel_of<ExecutionSpace, Scalar>(given.samples.matrix);
  kernel.errors = panel_of<ExecutionSpace, Scalar>(given.errors);
  std::vector<Scalar> const nobody_reads(size_of_levels(num_sums, leaves, leaves_per_run),
                                         std::numeric_limits<Scalar>::quiet_NaN());
  kernel.levels = {upload<ExecutionSpace>("levels", nobody_reads), num_sums, levels, leaves_per_run, leaves};
  kernel.num_inputs = static_cast<int>(given.num_inputs);
  kernel.num_outputs = static_cast<int>(given.num_outputs);
  kernel.first_output = static_cast<int>(first);
  kernel.block_outputs = static_cast<int>(count);
  place_gradients(space, kernel);
  DeviceArray<ExecutionSpace, Scalar> const totals("totals", num_sums);
  launch_range(space, AddLevels<ExecutionSpace, Scalar>{kernel.levels, totals, 0});
  space.fence("totals");
  return download(totals);
}

template <class ExecutionSpace, class Scalar>
void expect_gradients() {
  std::uint64_t seed = 0;
  for (std::size_t const positions : {1U, 33U, 64U, 200U, 449U}) {
    for (auto const& [inputs, outputs] : {std::pair{37U, 20U}, {16U, 5U}, {1U, 3U}, {50U, 1U}}) {
      LayerCase<Scalar> const given(inputs, outputs, positions, ++seed);
      for (int const leaves_per_run : {1, 2, 8}) {
        SCOPED_TRACE(testing::Message() << positions << " positions, " << inputs << " inputs, " << outputs
                                        << " outputs, runs of " << leaves_per_run);
        std::vector<Scalar> found;
        for (std::size_t first = 0; first < outputs; first += 7) {
          auto const block = gradients_of_block<ExecutionSpace>(given, leaves_per_run, first,
                                                                std::min<std::size_t>(7, outputs - first));
          found.insert(found.end(), block.begin(), block.end());
        }
        ASSERT_EQ(found, given.gradients);
      }
    }
  }
}

/// The listed places and magnitudes of the outputs [first, first + count).
template <class ExecutionSpace, class Scalar>
void expect_listed(SparseMatrix const& pattern, std::vector<Scalar> const& gradients, std::size_t first,
                   std::size_t count, Scalar limit) {
  std::vector<std::uint32_t> places;
  std::vector<Scalar> magnitudes;
  std::size_t const inputs = pattern.num_columns;
  for (std::size_t place = 0; place < count * inputs; ++place) {
    auto const columns = pattern.row_columns(first + place / inputs);
    Scalar const size = std::isnan(gradients[place]) ? Scalar{0} : std::abs(gradients[place]);
    if (std::ranges::count(columns, place % inputs) > 0 || size <= limit) continue;
    places.push_back(static_cast<std::uint32_t>(place));
    magnitudes.push_back(size);
  }
  ListFreePlaces<ExecutionSpace, Scalar> kernel{};
  kernel.edges = test::edge_rows<ExecutionSpace>(pattern.row_pointers, pattern.column_indices);
  kernel.gradients = upload<ExecutionSpace>("gradients", gradients);
  kernel.places = DeviceArray<ExecutionSpace, std::uint32_t>("places", count * inputs);
  kernel.magnitudes = DeviceArray<ExecutionSpace, Scalar>("magnitudes", count * inputs);
  kernel.limit = limit;
  kernel.num_inputs = static_cast<int>(inputs);
  kernel.first_output = static_cast<int>(first);
  ASSERT_EQ(list_free_places(ExecutionSpace(), kernel, count * inputs), places.size()) << "above " << limit;
  auto found_places = download(kernel.places);
  auto found_magnitudes = download(kernel.magnitudes);
  found_places.resize(places.size());
  found_magnitudes.resize(places.size());
  EXPECT_EQ(found_places, places);
  EXPECT_EQ(found_magnitudes, magnitudes);
}

template <class ExecutionSpace, class Scalar>
void expect_lists() {
  RandomStream random(4, 4);
  auto const infinity = std::numeric_limits<Scalar>::infinity();
  for (double const density : {0.0, 0.1, 0.6, 1.1}) {
    auto const pattern = test::draw_matrix(random, 17, 40, density, 1.0);
    for (auto const& [first, count] : {std::pair{0U, 17U}, {5U, 3U}, {16U, 1U}, {4U, 0U}}) {
      std::vector<Scalar> gradients(count * 40);
      for (auto& gradient : gradients) gradient = static_cast<Scalar>(random.between(-3, 3)); // ties of both signs
      for (std::size_t i = 0; i < gradients.size(); i += 13) gradients[i] = std::numeric_limits<Scalar>::quiet_NaN();
      for (std::size_t i = 5; i < gradients.size(); i += 31) gradients[i] = -infinity;
      for (Scalar const limit : {Scalar(-1), Scalar(0), Scalar(1), Scalar(2), infinity})
        expect_listed<ExecutionSpace, Scalar>(pattern, gradients, first, count, limit);
    }
  }
}

template <class ExecutionSpace>
class GrowthKernels : public testing::Test {};
TYPED_TEST_SUITE(GrowthKernels, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(GrowthKernels, GiveTheGradientsOfAllPlaces) {
  expect_gradients<TypeParam, float>();
  expect_gradients<TypeParam, double>();
}

TYPED_TEST(GrowthKernels, ListFreePlacesAboveALimit) {
  expect_lists<TypeParam, float>();
  expect_lists<TypeParam, double>();
}

} // namespace
} // namespace varve
