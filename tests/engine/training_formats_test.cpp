#include "engine/training_plan.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "engine/training_at.hpp"
#include "network/network.hpp"
#include "reference/training_case.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::training_case;
using test::TrainingCase;

/// A matrix with an entry in so many of its places; some weights are 0.
SparseMatrix matrix_of(std::size_t num_rows, std::size_t num_columns, std::size_t num_entries) {
  RandomStream random(num_rows, num_columns);
  SparseMatrix matrix;
  matrix.num_rows = num_rows;
  matrix.num_columns = num_columns;
  for (std::size_t row = 0; row < num_rows; ++row) {
    for (std::size_t column = 0; column < num_columns; ++column) {
      std::size_t const place = row * num_columns + column;
      if ((place + 1) * num_entries / (num_rows * num_columns) == place * num_entries / (num_rows * num_columns))
        continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
      matrix.values.push_back(column % 5 == row % 5 ? 0.0 : test::draw_real(random, -0.3, 0.3));
    }
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return matrix;
}

/// The formats of layers of 10 inputs and so many outputs, with so many edges of 100.
std::vector<TrainedFormat> formats_of(std::vector<std::size_t> const& percents, TrainingOptions const& options) {
  std::vector<Layer> layers;
  for (auto const percent : percents) layers.push_back({matrix_of(10, 10, percent), {0.1}, Activation::relu()});
  return choose_trained_formats(Network(layers), options);
}

TEST(TrainingFormats, AreDenseFromTheMeasuredDensityOn) {
  TrainingOptions options;
  options.backend = Backend::serial;
  using Formats = std::vector<TrainedFormat>;
  EXPECT_EQ(formats_of({45, 46, 100}, options), (Formats{{false, false}, {true, false}, {true, false}}));
  Layer const wide{matrix_of(10, 300, 990), {0.1}, Activation::relu()};
  EXPECT_TRUE(choose_trained_formats(Network({wide}), options).front().has_dense_forward);
  options.format = FormatName::csr;
  EXPECT_EQ(formats_of({100, 100}, options), (Formats{{false, false}, {false, false}}));
  options.format = FormatName::dense;
  EXPECT_EQ(formats_of({1, 0}, options), (Formats{{true, true}, {false, false}}));
  options.format = FormatName::cones;
  EXPECT_THROW(formats_of({1}, options), UsageError);
}

TEST(TrainingFormats, AreDenseBackwardInWideLayers) {
  TrainingOptions options;
  options.backend = Backend::serial;
  using Backward = std::pair<bool, bool>; // of the first layer and the next one
  auto const backward = [&](std::size_t num_outputs, std::size_t percent) {
    Layer const layer{matrix_of(num_outputs, 10, num_outputs * percent / 10), {0.1}, Activation::relu()};
    Layer const next{
        matrix_of(num_outputs, num_outputs, num_outputs * num_outputs * percent / 100), {0.1}, Activation::relu()};
    auto const formats = choose_trained_formats(Network({layer, next}), options);
    return Backward(formats[0].has_dense_backward, formats[1].has_dense_backward);
  };
  EXPECT_EQ(backward(260, 70), Backward(true, true));
  EXPECT_EQ(backward(260, 69), Backward(true, false));
  EXPECT_EQ(backward(260, 52), Backward(true, false));
  EXPECT_EQ(backward(260, 51), Backward(false, false));
  EXPECT_EQ(backward(200, 100), Backward(true, false));
  EXPECT_EQ(backward(200, 68), Backward(true, false));
  EXPECT_EQ(backward(200, 67), Backward(false, false));
  EXPECT_EQ(backward(30, 100), Backward(false, false));
}

TEST(TrainingFormats, AreDenseInBothPassesOnGpus) {
  TrainingOptions options;
  options.backend = Backend::cuda;
  using Formats = std::vector<TrainedFormat>;
  EXPECT_EQ(formats_of({49, 50, 100}, options), (Formats{{false, false}, {true, true}, {true, true}}));
}

/// The same bits whatever the format.
class TrainingInFormats : public testing::TestWithParam<test::Place> {
protected:
  static TrainingOptions options() { return test::training_at(GetParam(), 300, OptimizerKind::adam); }
  static std::size_t leaf() { return test::leaf_at(GetParam()); }

  /// Hash of all weights, losses, and the state of the optimizer after some steps, one of them from a restored state.
  static auto train(TrainingCase const& given, TrainingOptions const& options) {
    auto training = prepare_training(given.network, options);
    std::vector<double> losses;
    for (int step = 0; step < 4; ++step) {
      if (step == 2) {
        auto next = prepare_training(training->network(), options);
        next->restore(training->state());
        training = std::move(next);
      }
      if (step % 2 == 0) training->add_samples(given.samples, given.labels, "set");
      auto const rows = test::rows_from(0, 300 - static_cast<std::size_t>(step) * 40);
      losses.push_back(training->step(0, rows, 0.05).loss);
    }
    losses.push_back(training->evaluate(0).loss);
    return std::tuple(weights_hash(training->network()), losses, training->state());
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, TrainingInFormats, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(TrainingInFormats, GivesTheSameBits) {
  for (std::size_t const percent : {5U, 40U, 60U, 90U, 100U}) {
    auto given = training_case({{37, 50, 33, 70, 10},
                                300,
                                0.5,
                                {Activation::relu(), Activation::sigmoid(), Activation::leaky_relu(0.125),
                                 Activation::tanh(), Activation::clipped_relu(0.75), Activation::identity()}});
    auto layers = given.network.layers();
    for (auto& layer : layers) {
      std::size_t const places = layer.num_inputs() * layer.num_outputs();
      layer.weights = matrix_of(layer.num_outputs(), layer.num_inputs(), places * percent / 100);
    }
    given.network = Network(layers);
    auto way = options();
    way.format = FormatName::csr;
    auto const expected = train(given, way);
    for (auto const format : {std::optional<FormatName>(FormatName::dense), std::optional<FormatName>()}) {
      for (bool const is_in_parts : {false, true}) {
        SCOPED_TRACE(testing::Message() << percent << " %, " << (format ? "dense" : "auto")
                                        << (is_in_parts ? ", in micro-batches" : ""));
        way.format = format;
        way.micro_batch.reset();
        if (is_in_parts) way.micro_batch = leaf();
        way.keep_every = is_in_parts ? 2 : 1;
        EXPECT_EQ(train(given, way), expected);
        auto const plan = prepare_training(given.network, way)->plan();
        if (format) {
          EXPECT_EQ(plan.num_dense_forward, 4U);
          EXPECT_EQ(plan.num_dense_backward, 4U);
        }
      }
    }
  }
}

} // namespace
} // namespace varve
