#include "network/network.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <functional>
#include <limits>
#include <string>

namespace varve {
namespace {

/// A layer whose output j reads input j, for as many as there are of both.
Layer diagonal_layer(std::size_t outputs, std::size_t inputs) {
  Layer layer;
  layer.weights.num_rows = outputs;
  layer.weights.num_columns = inputs;
  layer.weights.row_pointers.resize(outputs + 1);
  for (std::size_t output = 0; output < outputs; ++output) {
    if (output < inputs) layer.weights.column_indices.push_back(static_cast<NeuronIndex>(output));
    layer.weights.row_pointers[output + 1] = layer.weights.column_indices.size();
  }
  layer.weights.values.assign(layer.weights.column_indices.size(), 2.0);
  return layer;
}

std::string complaint_of(std::function<void()> const& work) {
  try {
    work();
  } catch (InputError const& error) {
    return error.what();
  }
  return "";
}

TEST(Network, KnowsItsShape) {
  Network const network({diagonal_layer(3, 5), diagonal_layer(4, 3)}, "two layers");
  EXPECT_EQ(network.name(), "two layers");
  EXPECT_EQ(network.num_layers(), 2U);
  EXPECT_EQ(network.num_inputs(), 5U);
  EXPECT_EQ(network.num_outputs(), 4U);
  EXPECT_EQ(network.num_edges(), 6U);
  EXPECT_EQ(network.layer(1), diagonal_layer(4, 3));
}

TEST(Network, LoadsAnySource) {
  Network const network({diagonal_layer(3, 5), diagonal_layer(4, 3)}, "source");
  auto const copy = load(network);
  EXPECT_EQ(copy.layers(), network.layers());
  EXPECT_EQ(copy.name(), "source");
}

TEST(Network, RefusesLayersThatDoNotFit) {
  EXPECT_EQ(complaint_of([] {
              Network({diagonal_layer(3, 5), diagonal_layer(4, 4)});
            }),
            "layer 1 takes 4 inputs, but layer 0 has 3 outputs");
}

TEST(Network, RefusesToBeEmpty) {
  EXPECT_EQ(complaint_of([] { Network({}, "nothing"); }), "nothing: a network needs at least one layer");
}

TEST(Network, NamesTheLayerThatIsWrong) {
  auto const complaint_after = [](std::function<void(Layer&)> const& change) {
    auto layer = diagonal_layer(3, 3);
    change(layer);
    return complaint_of([&] { Network({diagonal_layer(3, 3), layer}); });
  };
  EXPECT_EQ(complaint_after([](Layer& layer) {
              layer.bias = {1.0, 2.0};
            }),
            "layer 1: 2 biases for 3 outputs (expected one each, or one for all)");
  EXPECT_EQ(complaint_after([](Layer& layer) {
              layer.bias = {0.0, 0.0, std::numeric_limits<double>::infinity()};
            }),
            "layer 1: the bias of output 2 is inf, expected a finite number");
  EXPECT_EQ(complaint_after([](Layer& layer) { layer.activation = Activation::clipped_relu(0.0); }),
            "layer 1: the cap is 0, expected a positive finite number");
  EXPECT_EQ(complaint_after([](Layer& layer) { layer.weights.column_indices[0] = 3; }),
            "layer 1: row 0 has column index 3, expected 0 to 2");
  EXPECT_EQ(complaint_after([](Layer& layer) { layer.bias = {1.0, -2.0, 0.0}; }), "");
}

TEST(Network, KnowsWhichLayersKeepZero) {
  auto layer = diagonal_layer(2, 2);
  layer.bias = {-1.0, 0.0};
  EXPECT_TRUE(keeps_zero(layer));
  layer.bias = {-1.0, 1e-300};
  EXPECT_FALSE(keeps_zero(layer));
  layer.activation = Activation::identity();
  layer.bias = {0.0, -1e-300};
  EXPECT_FALSE(keeps_zero(layer));
  layer.bias = {0.0};
  EXPECT_TRUE(keeps_zero(layer));
}

TEST(Challenge, HasABiasForItsFourWidthsOnly) {
  EXPECT_EQ(challenge_bias(1024), -0.30);
  EXPECT_EQ(challenge_bias(4096), -0.35);
  EXPECT_EQ(challenge_bias(16384), -0.40);
  EXPECT_EQ(challenge_bias(65536), -0.45);
  EXPECT_EQ(challenge_bias(2048), std::nullopt);
}

TEST(Activations, AreWhatTheirFormulasSay) {
  EXPECT_EQ(activated<float>(Activation::identity(), -2.0), -2.0F);
  EXPECT_EQ(activated<float>(Activation::relu(), -2.0), 0.0F);
  EXPECT_FALSE(std::signbit(activated<float>(Activation::relu(), -0.0)));
  EXPECT_FALSE(std::signbit(activated<float>(Activation::leaky_relu(0.5), -0.0)));
  EXPECT_EQ(activated<float>(Activation::clipped_relu(3.0), 5.0), 3.0F);
  EXPECT_EQ(activated<float>(Activation::leaky_relu(0.25), -2.0), -0.5F);
  EXPECT_EQ(activated<float>(Activation::leaky_relu(0.25), 2.0), 2.0F);
  EXPECT_EQ(activated<float>(Activation::sigmoid(), 0.0), 0.5F);
  EXPECT_EQ(activated<float>(Activation::sigmoid(), 1.0), 0.731058578630F);
  EXPECT_EQ(activated<float>(Activation::sigmoid(), -1e39), 0.0F);
  EXPECT_EQ(activated<double>(Activation::tanh(), -1e300), -1.0);
  EXPECT_NEAR(activated<double>(Activation::tanh(), 0.5), 0.46211715726000975, 2e-16);
  EXPECT_FALSE(std::signbit(activated<float>(Activation::tanh(), -0.0)));
  constexpr float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(activated<float>(Activation::leaky_relu(0.5), -1e39), -largest);
  EXPECT_EQ(activated<float>(Activation::relu(), 1e39), largest);
}

TEST(Activations, HaveParametersWithinTheirRange) {
  for (double const slope : {0.0, 1.0, -0.5, 1.5, std::nan("")})
    EXPECT_THROW(require_valid(Activation::leaky_relu(slope), "layer 3"), InputError) << slope;
  EXPECT_NO_THROW(require_valid(Activation::leaky_relu(0.01), "layer 3"));
  EXPECT_NO_THROW(require_valid(Activation::relu(), "layer 3"));
  EXPECT_TRUE(Activation::leaky_relu(0.5).keeps_zero(0.0));
  EXPECT_FALSE(Activation::leaky_relu(0.5).keeps_zero(-0.5)) << "which stays below zero, and is not zero";
  EXPECT_TRUE(Activation::relu().keeps_zero(-0.5));
  EXPECT_FALSE(Activation::sigmoid().keeps_zero(0.0)) << "which becomes 0.5";
  EXPECT_TRUE(Activation::tanh().keeps_zero(0.0));
  EXPECT_FALSE(Activation::tanh().keeps_zero(-0.5));
  EXPECT_FALSE(Activation::softplus().keeps_zero(0.0));
}

} // namespace
} // namespace varve
