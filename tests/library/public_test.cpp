#include <varve/varve.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

// What users of the library see, with public headers alone.
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Output 0 averages both inputs, output 1 stays below its bias.
varve::Network small_network() {
  varve::CsrMatrix const weights{2, 2, {0, 2, 3}, {0, 1, 1}, {0.5, 0.5, 0.25}};
  return varve::Network({{weights, {0.0, -1.0}, varve::Activation::relu()}});
}

varve::Samples small_samples() {
  std::vector<float> const values{1.0F, 2.0F, 0.0F, 0.0F};
  return varve::Samples::from_dense(values, 2, 2);
}

TEST(PublicNetwork, KeepsWhatItWasBuiltFrom) {
  auto const network = small_network();
  EXPECT_EQ(network.num_layers(), 1U);
  EXPECT_EQ(network.num_inputs(), 2U);
  EXPECT_EQ(network.num_outputs(), 2U);
  EXPECT_EQ(network.num_edges(), 3U);
  auto const layer = network.layer(0);
  EXPECT_EQ(layer.weights, (varve::CsrMatrix{2, 2, {0, 2, 3}, {0, 1, 1}, {0.5, 0.5, 0.25}}));
  EXPECT_THAT(layer.bias, ElementsAre(0.0, -1.0));
  EXPECT_EQ(layer.activation, varve::Activation::relu());
  EXPECT_EQ(varve::Network({layer}).weights_hash(), network.weights_hash());
  EXPECT_THAT([&] { network.layer(1); }, ThrowsMessage<varve::UsageError>(HasSubstr("has no layer 1, only 0 to 0")));
}

TEST(PublicNetwork, OfArraysIsTheSame) {
  std::vector<varve::EdgeOffset> const pointers{0, 2, 3};
  std::vector<varve::NeuronIndex> const columns{0, 1, 1};
  std::vector<double> const values{0.5, 0.5, 0.25};
  std::vector<double> const bias{0.0, -1.0};
  varve::NetworkBuilder builder;
  builder.add_layer({2, 2, pointers, columns, values}, bias, varve::Activation::relu());
  EXPECT_EQ(builder.build("mine").weights_hash(), small_network().weights_hash());
  EXPECT_THROW(builder.build(), varve::InputError) << "the builder is empty afterwards";
}

TEST(PublicNetwork, RefusesWhatIsMalformed) {
  auto layer = small_network().layer(0);
  auto broken = layer;
  broken.weights.column_indices = {0, 2, 1};
  EXPECT_THAT([&] { varve::Network({broken}); }, ThrowsMessage<varve::InputError>(HasSubstr("layer 0")));
  broken = layer;
  broken.weights.row_pointers = {0, 2};
  EXPECT_THROW(varve::Network({broken}), varve::InputError);
  broken = layer;
  broken.weights.row_pointers = {0, std::numeric_limits<varve::EdgeOffset>::max(), 3};
  EXPECT_THROW(varve::Network({broken}), varve::InputError);
  broken = layer;
  broken.activation = varve::Activation::clipped_relu(-1.0);
  EXPECT_THROW(varve::Network({broken}), varve::InputError);
  broken = layer;
  broken.weights = {1, 3, {0, 1}, {2}, {1.0}};
  broken.bias = {0.0};
  EXPECT_THAT([&] { varve::Network({layer, broken}); }, ThrowsMessage<varve::InputError>(HasSubstr("layer 1")));
  EXPECT_THROW(varve::Network({}), varve::InputError);
}

TEST(PublicNetwork, IsReducedAndPruned) {
  varve::CsrMatrix const first{3, 2, {0, 2, 4, 5}, {0, 1, 0, 1, 1}, {0.5, 0.5, 0.5, 0.5, 0.25}};
  varve::CsrMatrix const second{1, 3, {0, 3}, {0, 1, 2}, {1.0, 2.0, 3.0}};
  varve::Network const network({{first, {0.0}, varve::Activation::relu()}, {second, {0.0}, varve::Activation::relu()}});
  EXPECT_EQ(varve::reduced(network).num_edges(), 5U) << "outputs 0 and 1 of the first layer are equal";
  EXPECT_EQ(varve::reduced(network, {false, true, true}).num_edges(), 8U);
  EXPECT_EQ(varve::pruned(network, 0.5).num_edges(), 5U);
  EXPECT_THROW(varve::pruned(network, 0.0), varve::UsageError);
}

TEST(PublicSamples, DropZerosAndRefuseOthers) {
  auto const samples = small_samples();
  EXPECT_EQ(samples.num_samples(), 2U);
  EXPECT_EQ(samples.num_entries(), 2U);
  varve::CsrMatrix const with_zero{2, 2, {0, 2, 3}, {0, 1, 0}, {1.0, 2.0, 0.0}};
  EXPECT_EQ(varve::Samples(with_zero).rows(), samples.rows());
  std::vector<double> const three{1.0, 2.0, 3.0};
  EXPECT_THROW(varve::Samples::from_dense(three, 2, 2), varve::InputError);
  EXPECT_THROW(varve::Samples::from_dense(three, std::numeric_limits<std::size_t>::max(), 3), varve::InputError);
  std::vector<double> const infinite{1.0, std::numeric_limits<double>::infinity()};
  EXPECT_THAT([&] { varve::Samples::from_dense(infinite, 1, 2); },
              ThrowsMessage<varve::InputError>(HasSubstr("sample 0 has the value inf at neuron 1")));
}

TEST(PublicInference, AnswersAndPlans) {
  for (auto const backend : varve::compiled_backends()) {
    varve::InferenceOptions options;
    options.backend = backend;
    varve::PreparedNetwork network(small_network(), options);
    EXPECT_EQ(network.backend(), backend);
    std::size_t num_done = 0;
    auto const result =
        network.infer(small_samples(), {true, true}, [&](std::size_t done, std::size_t) { num_done = done; });
    EXPECT_EQ(num_done, 2U);
    EXPECT_THAT(result.live_samples, ElementsAre(0U));
    EXPECT_EQ(result.activations, (varve::CsrMatrix{2, 2, {0, 1, 1}, {0}, {1.5}}));
    EXPECT_THAT(result.predictions, ElementsAre(0U, 0U));
    EXPECT_FALSE(network.plan_lines(2).empty());
    auto const moved = std::move(network);
    EXPECT_EQ(moved.num_outputs(), 2U);
  }
}

TEST(PublicInference, ThrowsItsOwnErrorsAndThoseOfCallbacks) {
  varve::InferenceOptions options;
  options.reductions = "everything";
  EXPECT_THAT([&] { varve::PreparedNetwork(small_network(), options); },
              ThrowsMessage<varve::UsageError>(HasSubstr("there is no reduction 'everything'")));
  varve::PreparedNetwork network(small_network());
  varve::CsrMatrix const wide{1, 3, {0, 1}, {2}, {1.0}};
  EXPECT_THAT([&] { network.infer(varve::Samples(wide)); },
              ThrowsMessage<varve::InputError>(HasSubstr("have 3 values each, expected 2")));
  EXPECT_THROW(network.infer(small_samples(), {}, [](std::size_t, std::size_t) { throw std::domain_error("enough"); }),
               std::domain_error);
  EXPECT_EQ(network.infer(small_samples()).live_samples.size(), 1U) << "and may be used again";
  try {
    varve::parse_backend("abacus");
    FAIL();
  } catch (varve::Error const& error) {
    EXPECT_EQ(error.kind(), varve::ErrorKind::usage);
  }
}

TEST(PublicFiles, AreWrittenAndRead) {
  auto const folder = std::filesystem::path(testing::TempDir()) / "varve_public_files";
  std::filesystem::create_directories(folder);
  auto const network = small_network();
  varve::save_network(network, folder / "net.safetensors");
  EXPECT_EQ(varve::open_network(folder / "net.safetensors").weights_hash(), network.weights_hash());
  varve::save_samples(small_samples(), folder / "x.safetensors");
  EXPECT_EQ(varve::open_samples(folder / "x.safetensors", 2).rows(), small_samples().rows());
  EXPECT_THROW(varve::open_samples(folder / "x.safetensors", 3), varve::InputError);
  EXPECT_THROW(varve::open_network(folder / "absent.safetensors"), varve::InputError);
  EXPECT_THROW(varve::save_network(network, folder / "net.txt.zip"), varve::UsageError);
  EXPECT_THROW(varve::open_labels(folder / "x.safetensors", small_samples()), varve::InputError);
  std::filesystem::remove_all(folder);
}

TEST(PublicEvaluation, CountsRightAnswers) {
  varve::CsrMatrix const activations{3, 2, {0, 1, 2, 2}, {0, 1}, {1.5, 2.0}};
  auto const evaluation = varve::evaluate(activations, {{0, 1, 1}, {}}, "cross-entropy", 2);
  EXPECT_EQ(evaluation.num_samples, 3U);
  EXPECT_EQ(evaluation.num_right, 2U);
  EXPECT_EQ(evaluation.num_in_top, 3U);
  EXPECT_EQ((evaluation.confusion.at({1, 0})), 1U);
  EXPECT_THROW(varve::evaluate(activations, {{0, 1}, {}}), varve::InputError);
  EXPECT_THROW(varve::evaluate(activations, {{0, 1, 2}, {}}), varve::InputError);
  EXPECT_THROW(varve::evaluate(activations, {{0, 1, 1}, {}}, "regret"), varve::UsageError);
  EXPECT_DOUBLE_EQ(varve::evaluate(activations, {{0, 1, 1}, {}}, "huber", 2, 0.5).loss, (0.125 + 0.375 + 0.375) / 6);
  EXPECT_THROW(varve::evaluate(activations, {{0, 1, 1}, {}}, "huber", 2, 0.0), varve::UsageError);
  EXPECT_THROW(varve::evaluate(activations, {{0, 1, 1}, {}, {1.0, 1.0, 1.0}}), varve::UsageError);
}

TEST(PublicTraining, RefusesRecipesAndAnswersThatDoNotFit) {
  varve::Recipe recipe;
  recipe.optimizer = "guess";
  EXPECT_THROW(varve::train(small_network(), small_samples(), {{0, 1}, {}}, recipe), varve::UsageError);
  EXPECT_THROW(varve::train(small_network(), small_samples(), {{0}, {}}), varve::InputError);
  EXPECT_THROW(varve::train(small_network(), small_samples(), {{0, 1}, {}, {1.0}}), varve::InputError);
  EXPECT_THROW(varve::train(small_network(), small_samples(), {{0, 1}, {}, {1.0, -1.0}}), varve::InputError);
}

TEST(PublicGenerators, MakeNetworksThatRun) {
  auto const network = varve::radixnet(64, 12);
  auto const images = varve::digit_images(64, 30);
  EXPECT_EQ(network.num_layers(), 12U);
  EXPECT_EQ(images.num_samples(), 30U);
  varve::RandomRecipe recipe;
  recipe.widths = {64, 32, 10};
  recipe.degree = 8;
  auto const initial = varve::initial_network(varve::random_network(recipe), "he", varve::Activation::relu());
  EXPECT_EQ(initial.num_outputs(), 10U);
  varve::PreparedNetwork prepared(initial);
  EXPECT_EQ(prepared.infer(varve::random_samples(64, 7, 0.5)).activations.num_rows, 7U);
  EXPECT_THROW(varve::radixnet(63, 1), varve::UsageError);
}

TEST(PublicRuntime, LeavesARunningKokkosAndLivesOnce) {
  {
    varve::Runtime const runtime;
    EXPECT_EQ(runtime.num_ranks(), 1);
    EXPECT_THROW(varve::Runtime(), varve::UsageError);
  }
  EXPECT_NO_THROW(varve::Runtime());
  varve::PreparedNetwork network(small_network()); // Kokkos runs on
  EXPECT_EQ(network.num_inputs(), 2U);
}

TEST(PublicVersion, IsThatOfTheLibrary) {
  auto const stated = std::to_string(VARVE_VERSION_MAJOR) + "." + std::to_string(VARVE_VERSION_MINOR) + "." +
                      std::to_string(VARVE_VERSION_PATCH);
  EXPECT_EQ(varve::build_description().version, stated);
}

} // namespace
