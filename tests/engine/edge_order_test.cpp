#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "network/sample_set.hpp"
#include "passes/edge_order.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;

/// The network as the plain loops must see it.
OrderedNetwork ordered(NetworkSource const& network, EdgeOrder order) {
  return {std::shared_ptr<NetworkSource const>(std::shared_ptr<void>(), &network), order};
}

/// Layers of uneven degrees that gain from another order, and at the end some that do not.
RandomNetwork network_that_gains() {
  RandomNetworkRecipe recipe;
  recipe.widths = {310, 310, 290, 310, 310, 400, 300, 130, 37};
  recipe.density = 0.08;
  recipe.lowest_bias = -0.6;
  recipe.highest_bias = 0.05;
  recipe.seed = 3;
  return RandomNetwork(recipe);
}

class EdgeOrders : public testing::TestWithParam<Place> {
protected:
  static InferenceOptions ordered_options(EdgeOrder order) {
    auto options = test::options_at(GetParam());
    options.edge_order = order;
    return options;
  }

  static SampleSet expected_of(NetworkSource const& network, SampleSet const& samples, EdgeOrder order) {
    return test::reference_of(ordered(network, order), samples, GetParam().precision);
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, EdgeOrders, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(EdgeOrders, EveryFormatAndKernelKeepsThemForRandomNetworks) {
  auto const choices = test::all_choices(GetParam());
  int num_told_apart = 0; // networks whose last bits show the order
  for (std::uint64_t seed = 2000; seed < 2150; ++seed) {
    auto options = choices.at(seed % choices.size());
    options.edge_order = EdgeOrder::forced;
    if (seed % 5 == 4) options.batch = 1 + seed % 40;
    SCOPED_TRACE(testing::Message() << "seed " << seed << " on " << test::describe(options));
    auto const [network, samples] = test::random_case(seed);
    auto const expected = expected_of(network, samples, EdgeOrder::forced);
    auto const result = test::run_all(network, samples, options).result;
    ASSERT_EQ(result.activations, expected);
    ASSERT_EQ(result.activation_hash, hash(expected, GetParam().precision));
    num_told_apart += expected == test::reference_of(network, samples, GetParam().precision) ? 0 : 1;
  }
  EXPECT_GE(num_told_apart, 40);
}

TEST_P(EdgeOrders, EveryFormatKernelAndBatchKeepsThemWhereLayersGain) {
  auto const network = network_that_gains();
  auto const samples = random_samples(310, 70, 0.3, 4);
  auto const expected = expected_of(network, samples, EdgeOrder::balanced);
  ASSERT_NE(expected, test::reference_of(network, samples, GetParam().precision)) << "the order shows in last bits";
  for (auto options : test::all_choices(GetParam())) {
    options.edge_order = EdgeOrder::balanced;
    for (std::size_t const batch : {1U, 33U, 70U}) {
      options.batch = batch;
      SCOPED_TRACE(test::describe(options));
      EXPECT_EQ(test::run_all(network, samples, options).result.activations, expected);
    }
  }
}

TEST_P(EdgeOrders, SamplesOfOneValueAreTakenInTheSameOrder) {
  auto const network = network_that_gains();
  auto samples = random_samples(310, 90, 0.3, 5);
  samples.matrix.values = {0.7};
  auto const expected = expected_of(network, samples, EdgeOrder::balanced);
  auto const outcome = test::run_all(network, samples, ordered_options(EdgeOrder::balanced));
  EXPECT_EQ(outcome.result.activations, expected);
  ASSERT_NE(expected, test::reference_of(network, samples, GetParam().precision));
}

TEST_P(EdgeOrders, TheReferenceEngineTakesThemToo) {
  auto const network = network_that_gains();
  auto const samples = random_samples(310, 20, 0.3, 6);
  for (EdgeOrder const order : {EdgeOrder::ascending, EdgeOrder::balanced, EdgeOrder::forced}) {
    auto options = ordered_options(order);
    options.engine = Engine::reference;
    EXPECT_EQ(test::run_all(network, samples, options).result.activations, expected_of(network, samples, order));
  }
}

TEST_P(EdgeOrders, FewSamplesAndReducedNetworksKeepThem) {
  auto const network = network_that_gains();
  auto const samples = random_samples(310, 9, 0.3, 7);
  auto const expected = expected_of(network, samples, EdgeOrder::balanced);
  auto options = ordered_options(EdgeOrder::balanced);
  options.expected_samples = 9;
  EXPECT_EQ(test::run_all(network, samples, options).result.activations, expected);
  options.reductions = parse_reductions("auto"); // nothing is equal here
  EXPECT_EQ(test::run_all(network, samples, options).result.activations, expected);
}

TEST_P(EdgeOrders, StreamedWeightsKeepThem) {
  auto const network = network_that_gains();
  auto const samples = random_samples(310, 40, 0.3, 8);
  auto const expected = expected_of(network, samples, EdgeOrder::balanced);
  auto options = ordered_options(EdgeOrder::balanced);
  auto const weights = test::run_all(network, samples, options).plan.weight_bytes;
  constexpr std::size_t room = std::size_t(64) << 20U;
  options.device_memory_limit = room;
  options.device_weight_limit = weights / 2;
  for (std::size_t const host_weights : {room, std::size_t(0)}) { // kept, or read and ordered each time
    options.memory_limit = host_weights + (has_own_memory(GetParam().backend) ? 0 : room);
    auto const outcome = test::run_all(network, samples, options);
    ASSERT_TRUE(outcome.plan.stream.has_value());
    EXPECT_EQ(outcome.plan.stream->num_remade > 0, host_weights == 0);
    EXPECT_EQ(outcome.result.activations, expected);
  }
}

/// Layers that keep a sample saturated if sums are taken in ascending order, just so; in another order some are less.
template <class Scalar>
Network network_that_barely_saturates() {
  test::RandomCases random(31);
  std::vector<Layer> layers(6);
  for (std::size_t number = 0; number < layers.size(); ++number) {
    RandomNetworkRecipe recipe;
    recipe.widths.assign(2, 300);
    recipe.degree = 12;
    recipe.seed = number;
    auto& layer = layers[number];
    layer = RandomNetwork(recipe).layer(0);
    layer.bias.assign(300, 0.0);
    for (auto& weight : layer.weights.values) weight = random.real(0.05, 0.08);
    for (std::size_t output = 0; output < 300; ++output) {
      Scalar sum = 0;
      for (std::size_t edge = output * 12; edge < output * 12 + 12; ++edge)
        sum += static_cast<Scalar>(layer.weights.values[edge]); // times 1
      layer.bias[output] = 1.0 - static_cast<double>(sum);
    }
    layer.activation = Activation::clipped_relu(1.0);
  }
  return Network(std::move(layers));
}

TEST_P(EdgeOrders, SaturationIsSoughtInTheOrderOfTheSums) {
  auto const network = GetParam().precision == Precision::double_precision ? network_that_barely_saturates<double>()
                                                                           : network_that_barely_saturates<float>();
  SampleSet samples = random_samples(300, 40, 1.0, 1);
  samples.matrix.values = {1.0}; // saturated from the start
  for (EdgeOrder const order : {EdgeOrder::ascending, EdgeOrder::balanced}) {
    auto options = ordered_options(order);
    options.reductions.saturation = true;
    auto const outcome = test::run_all(network, samples, options);
    EXPECT_EQ(outcome.plan.saturates_from.has_value(), order == EdgeOrder::ascending);
    EXPECT_EQ(outcome.result.activations, expected_of(network, samples, order));
  }
}

TEST_P(EdgeOrders, ThePlanSaysWhatIsGained) {
  auto const network = network_that_gains();
  auto const plan_with = [&](EdgeOrder order) { return prepare(network, ordered_options(order))->plan({10, 100}); };
  EXPECT_FALSE(plan_with(EdgeOrder::ascending).edge_order.has_value());
  auto const gained = plan_with(EdgeOrder::balanced).edge_order;
  ASSERT_TRUE(gained.has_value());
  EXPECT_EQ(gained->num_layers, 7U);
  EXPECT_GT(gained->ascending.wavefronts_per_step(), 1.8);
  EXPECT_LT(gained->chosen.wavefronts_per_step(), 1.1);
  EXPECT_THAT(to_text(*gained), testing::HasSubstr("edges of 7 layers ordered against bank conflicts: 1.0"));
  EXPECT_EQ(plan_with(EdgeOrder::forced).edge_order->num_layers, 8U);
}

/// The network without the edges that read every fifth neuron of a layer: these neurons are unread.
Network with_unread_neurons(NetworkSource const& source) {
  std::vector<Layer> layers = load(source).layers();
  for (std::size_t number = 1; number < layers.size(); ++number) {
    auto const all = std::exchange(layers[number].weights, {});
    auto& kept = layers[number].weights;
    kept.num_columns = all.num_columns;
    kept.num_rows = all.num_rows;
    for (std::size_t row = 0; row < all.num_rows; ++row) {
      for (auto edge = all.row_pointers[row]; edge < all.row_pointers[row + 1]; ++edge) {
        if (all.column_indices[edge] % 5 == 3) continue;
        kept.column_indices.push_back(all.column_indices[edge]);
        kept.values.push_back(all.value(edge));
      }
      kept.row_pointers.push_back(kept.column_indices.size());
    }
  }
  return Network(std::move(layers));
}

TEST_P(EdgeOrders, DroppedNeuronsKeepTheBitsOfAscendingEdgesOnly) { // as docs/numerics.md says
  auto const network = with_unread_neurons(network_that_gains());
  auto const samples = random_samples(network.num_inputs(), 40, 0.3, 7);
  for (auto const order : {EdgeOrder::ascending, EdgeOrder::balanced, EdgeOrder::forced}) {
    auto options = ordered_options(order);
    auto const whole = test::run_all(network, samples, options).result.activations;
    options.reductions.drop_unread = true;
    auto const outcome = test::run_all(network, samples, options);
    ASSERT_GT(outcome.plan.reduction->unread_neurons, 100U);
    EXPECT_EQ(outcome.result.activations == whole, order == EdgeOrder::ascending) << to_string(order);
  }
}

} // namespace
} // namespace varve
