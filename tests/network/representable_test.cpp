#include "network/network.hpp"

#include "core/error.hpp"
#include "engine/hand_made.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

namespace varve {
namespace {

using test::diagonal_layer;
using testing::HasSubstr;
using testing::StartsWith;

constexpr double kLargestFloat = std::numeric_limits<float>::max();
/// The least double that rounds to infinity: half a step beyond the largest float.
double const kFirstTooLarge = kLargestFloat + std::ldexp(1.0, 103);

std::string sentence_of(std::function<void()> const& work) {
  try {
    work();
  } catch (InputError const& error) {
    return error.what();
  }
  return "nothing was thrown";
}

Layer layer_with_weight(double weight) {
  auto layer = diagonal_layer(4, 1.0, {0.0}, Activation::relu());
  layer.weights.values = {1.0, -2.0, weight, 3.0};
  return layer;
}

SampleBatch samples_with_value(double value) {
  SampleSet samples;
  samples.matrix = {3, 5, {0, 2, 2, 4}, {0, 3, 1, 4}, {1.0, 2.0, 3.0, value}};
  samples.first_sample = 100;
  return samples;
}

TEST(Representable, TellsWhichWeightOrBiasIsTooLarge) {
  auto const check = [](Layer const& layer) {
    return sentence_of([&] { require_representable(layer, 7, Precision::single_precision, "net.safetensors"); });
  };
  EXPECT_EQ(check(layer_with_weight(1e39)), "net.safetensors: layer 7: the weight from input 2 to output 2 is 1e+39, "
                                            "beyond 3.40282347e+38, the largest number of "
                                            "single precision; --precision double can hold it");
  EXPECT_THAT(check(layer_with_weight(-kFirstTooLarge)), HasSubstr("from input 2 to output 2 is -3.40282356"));
  EXPECT_EQ(check(layer_with_weight(std::nextafter(kFirstTooLarge, 0.0))), "nothing was thrown");
  EXPECT_EQ(check(layer_with_weight(1e-300)), "nothing was thrown") << "it rounds to 0, which is a number";
  EXPECT_THAT(check(diagonal_layer(4, 1.0, {0, 0, 0, 4e38}, Activation::relu())),
              StartsWith("net.safetensors: layer 7: the bias of output 3 is 4e+38, beyond"));
  EXPECT_THAT(check(diagonal_layer(4, 1e300, {0.0}, Activation::relu())), HasSubstr("from input 0 to output 0"));
  EXPECT_EQ(check(diagonal_layer(0, 1e300, {0.0}, Activation::relu())), "nothing was thrown") << "no edge has it";
}

TEST(Representable, TellsWhichSampleIsTooLarge) {
  auto const check = [](SampleBatch const& samples) {
    return sentence_of([&] { require_representable(samples, Precision::single_precision, "img.safetensors"); });
  };
  EXPECT_THAT(check(samples_with_value(1e39)),
              StartsWith("img.safetensors: sample 103: the value of neuron 5 is 1e+39, beyond 3.40282347e+38"));
  EXPECT_THAT(check(samples_with_value(1e39).part(2, 3)),
              StartsWith("img.safetensors: sample 103: the value of neuron 5"));
  EXPECT_EQ(check(samples_with_value(1e39).part(0, 2)), "nothing was thrown");
  EXPECT_EQ(check(samples_with_value(1e38)), "nothing was thrown");
  auto const ramp = test::ramp_samples(3, 2);
  auto with_one_value = ramp;
  with_one_value.matrix.values = {-5e38};
  EXPECT_THAT(check(with_one_value), StartsWith("img.safetensors: sample 2: the value of neuron 1 is -5e+38"));
  EXPECT_EQ(check(SampleBatch(with_one_value).part(0, 1)), "nothing was thrown") << "the first sample is empty";
}

TEST(Representable, DoublePrecisionHoldsEveryDouble) {
  EXPECT_NO_THROW(require_representable(layer_with_weight(1e308), 0, Precision::double_precision, "net.safetensors"));
  EXPECT_NO_THROW(require_representable(samples_with_value(-1e308), Precision::double_precision, "img.safetensors"));
}

TEST(Representable, NetworksAreCheckedLayerByLayer) {
  Network const network({layer_with_weight(1.0), layer_with_weight(1e39)}, "deep.safetensors");
  RepresentableNetwork const checked(network, Precision::single_precision);
  EXPECT_EQ(checked.num_layers(), 2U);
  EXPECT_EQ(checked.layer(0), network.layer(0));
  EXPECT_THAT(sentence_of([&] { checked.layer(1); }), StartsWith("deep.safetensors: layer 1: the weight"));
  EXPECT_EQ(RepresentableNetwork(network, Precision::double_precision).layer(1), network.layer(1));
}

} // namespace
} // namespace varve
