#include "distribute/communicator.hpp"
#include "distribute/ranks.hpp"

#include "core/runtime.hpp"
#include "engine/hand_made.hpp"
#include "engine/places.hpp"
#include "engine/random_case.hpp"
#include "engine/rank_exchange.hpp"
#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::diagonal_layer;
using test::Place;
using test::ramp_samples;

/// All ranks run each network together, and each compares with what it gets alone and with the reference.
class NeuronSplit : public testing::TestWithParam<Place> {
protected:
  void expect_same(NetworkSource const& network, SampleSet const& samples, InferenceOptions options) const {
    SCOPED_TRACE(test::describe(options));
    auto const alone = test::run_all(network, samples, options).result;
    options.exchange = exchange_between_ranks();
    auto const split = test::run_all(network, samples, options);
    EXPECT_EQ(split.result.activations, alone.activations);
    EXPECT_EQ(split.result.predictions, alone.predictions);
    EXPECT_EQ(split.result.live_samples, alone.live_samples);
    EXPECT_EQ(split.result.activation_hash, alone.activation_hash);
    EXPECT_THAT(split.plan.method, testing::HasSubstr("split over " + std::to_string(ranks_.size()) + " ranks"));
    auto const expected = test::reference_of(network, samples, options.precision);
    EXPECT_EQ(split.result.activations, expected);
  }

  void expect_same(NetworkSource const& network, SampleSet const& samples) const {
    expect_same(network, samples, test::options_at(GetParam()));
  }

  bool is_last() const { return ranks_.rank() + 1 == ranks_.size(); }

  Communicator const ranks_;
};
INSTANTIATE_TEST_SUITE_P(Everywhere, NeuronSplit, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(NeuronSplit, RandomNetworks) {
  for (std::uint64_t seed = 500; seed < 530; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto const [network, samples] = test::random_case(seed);
    expect_same(network, samples);
  }
}

TEST_P(NeuronSplit, EveryFormatAndKernel) {
  RadixNet const radixnet(128, 8, 3, -0.15);
  auto const images = digit_images(128, 70, 5);
  auto const [network, samples] = test::random_case(1003);
  for (auto const& options : test::all_choices(GetParam())) {
    expect_same(radixnet, images, options);
    expect_same(network, samples, options);
  }
}

TEST_P(NeuronSplit, EveryRankSeesTheSameOrderOfEdges) {
  RandomNetworkRecipe recipe;
  recipe.widths = {300, 301, 290, 310};
  recipe.density = 0.08;
  RandomNetwork const network(recipe);
  auto const samples = random_samples(300, 40, 0.4, 2);
  auto options = test::options_at(GetParam());
  options.edge_order = EdgeOrder::balanced;
  auto const alone = test::run_all(network, samples, options).result;
  EXPECT_NE(alone.activations, test::reference_of(network, samples, options.precision)) << "which is ascending";
  options.exchange = exchange_between_ranks();
  EXPECT_EQ(test::run_all(network, samples, options).result.activations, alone.activations);
}

TEST_P(NeuronSplit, EachRankMayHaveAnotherFormatTileAndBatch) {
  RadixNet const network(256, 10, 3, -0.15);
  auto const samples = digit_images(256, 150, 5);
  auto options = test::options_at(GetParam());
  bool const is_odd = ranks_.rank() % 2 == 1;
  options.formats = {is_odd ? FormatName::csr : FormatName::pattern_blocks};
  if (is_odd) options.expected_samples = 1; // small tiles, where the backend has some
  options.kernel = is_odd ? KernelName::direct : KernelName::stationary;
  for (std::size_t const batch : {1U, 13U, 64U, 65U, 150U}) {
    options.batch = batch;
    expect_same(network, samples, options);
  }
}

TEST_P(NeuronSplit, RewrittenNetworksAndRepetitions) {
  RadixNet const network(256, 20, 3, -0.15);
  auto const samples = digit_images(256, 90, 6);
  auto options = test::options_at(GetParam());
  options.reductions = parse_reductions("auto");
  auto const alone = test::run_all(network, samples, options).result;
  options.exchange = exchange_between_ranks();
  options.repeat = 3;
  auto const split = test::run_all(network, samples, options);
  EXPECT_TRUE(split.plan.reduction.has_value());
  EXPECT_FALSE(split.plan.saturates_from.has_value());
  EXPECT_EQ(split.result.activations, alone.activations);
  EXPECT_EQ(split.result.predictions, alone.predictions);
  EXPECT_EQ(split.result.activation_hash, alone.activation_hash);
}

TEST_P(NeuronSplit, DeadSamplesLeaveInCrowds) {
  // Several tiles of samples become one, then none.
  std::vector<Layer> const layers(60, diagonal_layer(37, 1.0, {-0.35}, Activation::relu()));
  expect_same(Network(layers), ramp_samples(200, 37));
  std::vector<Layer> const few(30, diagonal_layer(37, 1.0, {-0.35}, Activation::relu()));
  expect_same(Network(few), ramp_samples(200, 37));
}

TEST_P(NeuronSplit, DeadSamplesAreRevivedByANeuronOfTheLastRank) {
  std::vector<double> bias(37, -1.0);
  bias.back() = 0.25;
  std::vector<Layer> layers(20, diagonal_layer(37, 1.0, {-0.35}, Activation::relu()));
  layers.push_back(diagonal_layer(37, 1.0, bias, Activation::relu()));
  layers.push_back(diagonal_layer(37, 1.0, {-0.125}, Activation::relu()));
  expect_same(Network(layers), ramp_samples(130, 37));
}

TEST_P(NeuronSplit, SamplesThatLiveOnOneRankOnlyLiveOnAll) {
  // One neuron, the first or the last, is alone with an activation.
  for (std::size_t const neuron : {std::size_t(0), std::size_t(36)}) {
    std::vector<double> bias(37, -1000.0);
    bias[neuron] = 0.0;
    std::vector<Layer> const layers(8, diagonal_layer(37, 1.0, bias, Activation::relu()));
    expect_same(Network(layers), ramp_samples(100, 37));
  }
}

TEST_P(NeuronSplit, FewerOutputsThanRanks) {
  test::RandomCases random(21);
  auto const full_layer = [&](std::size_t outputs, std::size_t inputs) {
    Layer layer;
    layer.weights = random.draw_matrix(outputs, inputs, inputs, 1.0);
    layer.bias.assign(outputs, 0.1);
    return layer;
  };
  Network const network({full_layer(1, 50), full_layer(2, 1), full_layer(70, 2), full_layer(3, 70), full_layer(1, 3)});
  expect_same(network, {random.draw_matrix(40, 50, 20, 1.0), 0});
}

TEST_P(NeuronSplit, LayersWithoutEdges) {
  Layer empty;
  empty.weights.num_rows = 33;
  empty.weights.num_columns = 37;
  empty.weights.row_pointers.assign(34, 0);
  empty.bias.assign(33, -1.0);
  empty.bias[20] = 0.5;
  Layer back = diagonal_layer(33, 1.0, {-0.25}, Activation::relu());
  Layer const first = diagonal_layer(37, 1.0, {-0.35}, Activation::relu());
  expect_same(Network({first, empty, back, back}), ramp_samples(70, 37));
  empty.bias = {-1.0};
  expect_same(Network({first, empty, back, back}), ramp_samples(70, 37));
}

TEST_P(NeuronSplit, SamplesAsBitsAndOthers) {
  // The plan expects samples of one value, which the first layer reads as bits; then come others.
  RadixNet const network(128, 6, 3, -0.15);
  auto const images = digit_images(128, 70, 5);
  auto options = test::options_at(GetParam());
  options.exchange = exchange_between_ranks();
  auto const inference = prepare(network, options);
  auto const plan = inference->plan(shape_of(images));
  EXPECT_TRUE(plan.steps.front().reads_bits || plan.steps.front().kernel == KernelName::bits);
  EXPECT_EQ(inference->infer(images, {true, false}).activations,
            test::reference_of(network, images, options.precision));
  auto const values = ramp_samples(50, 128);
  EXPECT_EQ(inference->infer(values, {true, false}).activations,
            test::reference_of(network, values, options.precision));
}

TEST_P(NeuronSplit, NoSamples) {
  expect_same(Network({diagonal_layer(37, 1.0, {-0.35}, Activation::relu())}), ramp_samples(0, 37));
}

TEST_P(NeuronSplit, EachRankHoldsItsShareAndHearsOfTheRest) {
  RadixNet const network(256, 12, 3, 0.0);
  auto const samples = digit_images(256, 64, 5);
  auto options = test::options_at(GetParam());
  options.formats = {FormatName::csr};
  options.kernel = KernelName::direct;
  auto const whole = prepare(network, options)->plan(shape_of(samples)).weight_bytes;
  options.exchange = exchange_between_ranks();
  auto const inference = prepare(network, options);
  auto const part = inference->plan(shape_of(samples)).weight_bytes;
  auto const num_ranks = static_cast<std::size_t>(ranks_.size());
  EXPECT_LT(part, whole / num_ranks + whole / 10);
  auto const result = inference->infer(samples, {});
  EXPECT_EQ(inference->num_edges(), 12U * 256 * 32);
  EXPECT_DOUBLE_EQ(result.live_edges, 12.0 * 256 * 32 * 64) << "nobody dies";
  std::size_t const scalar = GetParam().precision == Precision::double_precision ? 8 : 4;
  double const activations = 12.0 * 256 * 64 * static_cast<double>(scalar);
  double const others = activations * static_cast<double>(num_ranks - 1) / static_cast<double>(num_ranks);
  EXPECT_GE(result.exchange_bytes, others);
  EXPECT_LE(result.exchange_bytes, others * 1.1);
  EXPECT_GT(result.exchange_seconds, 0.0);
}

TEST_P(NeuronSplit, RunsWhatIsTooLargeForOneRank) {
  RadixNet const network(1024, 24, 3, -0.15);
  auto const samples = digit_images(1024, 30, 5);
  auto options = test::options_at(GetParam());
  options.formats = {FormatName::csr};
  auto const weights = prepare(network, options)->plan(shape_of(samples)).weight_bytes;
  options.device_weight_limit = weights / 24 * 3 / 2; // not two layers: one rank has to cut each of them into strips
  if (ranks_.size() > 1) options.exchange = exchange_between_ranks();
  options.batch = 8;
  auto const split = test::run_all(network, samples, options).result;
  EXPECT_EQ(split.activations, test::reference_of(network, samples, options.precision));
}

TEST_P(NeuronSplit, IsNotForOtherEngines) {
  auto options = test::options_at(GetParam());
  options.exchange = exchange_between_ranks();
  options.engine = Engine::reference;
  EXPECT_THROW(prepare(RadixNet(64, 2, 1), options), UsageError);
}

TEST(RankExchange, GathersNumbersAndParts) {
  Communicator const ranks;
  auto const exchange = exchange_between_ranks(true);
  EXPECT_EQ(exchange->rank(), static_cast<std::size_t>(ranks.rank()));
  EXPECT_EQ(exchange->num_ranks(), static_cast<std::size_t>(ranks.size()));
  EXPECT_FALSE(exchange->reaches_memory_of(Backend::cuda));
  auto const own = static_cast<std::uint64_t>(ranks.rank());
  auto const numbers = exchange->gather(std::vector<std::uint64_t>{own, 10 * own});
  std::vector<std::size_t> sizes;
  std::size_t own_place = 0;
  std::size_t end = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks.size()); ++rank) {
    EXPECT_EQ(numbers.at(2 * rank), rank);
    EXPECT_EQ(numbers.at(2 * rank + 1), 10 * rank);
    if (rank == own) own_place = end;
    sizes.push_back((3 - rank % 3) % 3 * RankExchange::granularity); // 0, 2 or 1
    end += sizes.back();
  }
  std::vector<std::byte> parts(end);
  std::fill_n(parts.begin() + static_cast<std::ptrdiff_t>(own_place), sizes[own], static_cast<std::byte>(own + 1));
  exchange->gather_parts(parts.data(), sizes);
  std::size_t place = 0;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    for (std::size_t i = 0; i < sizes[rank]; ++i, ++place)
      ASSERT_EQ(parts[place], static_cast<std::byte>(rank + 1)) << place;
  }
}

} // namespace
} // namespace varve
