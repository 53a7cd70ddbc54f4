#include "engine/hand_made.hpp"
#include "engine/places.hpp"

#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::diagonal_layer;
using test::Place;
using test::ramp_samples;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// The sentence of the error that `work` must throw, of this type.
template <class ErrorType, class Work>
std::string sentence_of(Work const& work) {
  try {
    work();
  } catch (ErrorType const& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

class Limits : public testing::TestWithParam<Place> {
protected:
  static InferenceOptions options() { return test::options_at(GetParam()); }

  /// How much the engine says that it needs for a batch of this many of the samples.
  Plan plan_of(std::size_t batch) const {
    auto some = options();
    some.batch = batch;
    return prepare(network_, some)->plan(shape_of(samples_));
  }

  /// Bytes beside the weights for this many samples.
  std::size_t room_for(std::size_t samples) const {
    auto const plan = plan_of(samples);
    return plan.panel_bytes + plan.sample_bytes;
  }

  RadixNet network_{128, 10, 1, -0.3};
  SampleSet samples_ = digit_images(128, 333, 1);
};
INSTANTIATE_TEST_SUITE_P(Everywhere, Limits, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(Limits, TooLittleMemoryForTheWeights) {
  auto tight = options();
  tight.device_memory_limit = plan_of(1).weight_bytes / 10;
  auto const sentence = sentence_of<ResourceError>([&] { prepare(network_, tight); });
  EXPECT_THAT(sentence, AllOf(HasSubstr("weights"), ContainsRegex("[0-9.]+ GiB may be used")));
  EXPECT_THAT(sentence, HasSubstr("--memory host"));
  tight.device_memory_limit = 1;
  EXPECT_THAT(sentence_of<ResourceError>([&] { prepare(network_, tight); }), HasSubstr("weights"));
}

TEST_P(Limits, TooLittleMemoryForOneSample) {
  auto tight = options();
  tight.device_memory_limit = room_for(1);
  auto const sentence = sentence_of<ResourceError>([&] { prepare(network_, tight); });
  EXPECT_THAT(sentence, AllOf(ContainsRegex("[0-9]\\.[0-9]+ GiB"), HasSubstr("weights"), HasSubstr("--memory host")));
}

TEST_P(Limits, WithoutADeviceOfItsOwnTheMemoryLimitIsForEverything) {
  if (has_own_memory(GetParam().backend)) {
    auto const plan = [&] {
      auto tight = options();
      tight.memory_limit = 1;
      return prepare(network_, tight)->plan(shape_of(samples_));
    }();
    EXPECT_FALSE(plan.stream.has_value());
    return;
  }
  auto tight = options();
  tight.memory_limit = plan_of(1).weight_bytes + room_for(150);
  auto const plan = prepare(network_, tight)->plan(shape_of(samples_));
  EXPECT_LE(plan.weight_bytes + plan.panel_bytes + plan.sample_bytes, *tight.memory_limit);
  tight.memory_limit = plan_of(1).weight_bytes / 10;
  EXPECT_THAT(sentence_of<ResourceError>([&] { prepare(network_, tight); }), HasSubstr("weights"));
}

TEST_P(Limits, TooLittleMemoryForTheBatch) {
  auto tight = options();
  tight.device_memory_limit = plan_of(1).weight_bytes + room_for(150);
  tight.batch = 300;
  auto const inference = prepare(network_, tight);
  auto const sentence = sentence_of<ResourceError>([&] { inference->plan(shape_of(samples_)); });
  EXPECT_THAT(sentence, AllOf(HasSubstr("300 samples"), ContainsRegex("[0-9]\\.[0-9]+ GiB"), HasSubstr("--batch")));
}

TEST_P(Limits, ALimitMakesBatchesAndKeepsTheAnswer) {
  auto tight = options();
  tight.device_memory_limit = plan_of(1).weight_bytes + room_for(150);
  auto const several = test::run_all(network_, samples_, tight);
  auto const& plan = several.plan;
  EXPECT_GE(several.num_batches, 2U);
  EXPECT_LE(plan.weight_bytes + plan.panel_bytes + plan.sample_bytes, *tight.device_memory_limit);
  auto const whole = test::run_all(network_, samples_, options());
  EXPECT_EQ(whole.num_batches, 1U);
  EXPECT_EQ(several.result.activation_hash, whole.result.activation_hash);
  EXPECT_EQ(several.result.activations, whole.result.activations);
  EXPECT_EQ(several.result.predictions, whole.result.predictions);
  EXPECT_EQ(several.result.live_samples, whole.result.live_samples);
}

TEST_P(Limits, ThePlanSaysWhatWasDecided) {
  auto const plan = plan_of(333);
  EXPECT_EQ(plan.engine, "varve");
  EXPECT_FALSE(plan.device.empty());
  ASSERT_FALSE(plan.steps.empty());
  EXPECT_THAT(to_text(plan).front(), HasSubstr("layer"));
  EXPECT_GE(plan.weight_bytes, 10U * 128 * 32 * sizeof(std::uint16_t));
  EXPECT_GE(plan.panel_bytes, 333U * 128 * sizeof(float));
  EXPECT_GT(plan.sample_bytes, 0U);
}

TEST_P(Limits, NoSamples) {
  auto const outcome = test::run_all(network_, samples_of(samples_, 0, 0), options());
  EXPECT_EQ(outcome.result.activation_hash, 0U);
  EXPECT_EQ(outcome.result.live_edges, 0.0);
  EXPECT_TRUE(outcome.result.live_samples.empty());
}

TEST_P(Limits, LayersThatDoNotFit) {
  /// Layers as a broken file would give them, one by one.
  class Misfits final : public NetworkSource {
  public:
    std::string name() const override { return "misfits"; }
    std::size_t num_layers() const override { return 3; }
    Layer layer(std::size_t number) const override {
      return diagonal_layer(number == 2 ? 41 : 40, 1.0, {0.0}, Activation::relu());
    }
  };
  EXPECT_EQ(sentence_of<InputError>([] { prepare(Misfits(), options()); }),
            "layer 2 takes 41 inputs, but layer 1 has 40 outputs");
}

TEST_P(Limits, SamplesOfAnotherWidthAreACallersMistake) {
  auto const inference = prepare(network_, options());
  inference->plan({10, 100});
  EXPECT_THROW(inference->infer(ramp_samples(10, 129), {}), std::logic_error);
  EXPECT_THROW(inference->infer(samples_of(samples_, 0, 11), {}), std::logic_error);
}

TEST_P(Limits, WrongOptions) {
  auto wrong = options();
  wrong.batch = 0;
  EXPECT_THROW(prepare(network_, wrong), UsageError);
  wrong = options();
  wrong.repeat = 0;
  EXPECT_THROW(prepare(network_, wrong), UsageError);
}

TEST_P(Limits, AFormatThatWasAskedForIsRefusedBeforeItTakesMemory) {
  Network const sparse(
      {diagonal_layer(4500, 1.0, {0.0}, Activation::relu()), diagonal_layer(4500, 1.0, {0.0}, Activation::relu())});
  auto dense = options();
  dense.formats = {FormatName::dense};
  dense.memory_limit = std::size_t(16) << 20U; // a dense layer takes 77 MiB or 154 MiB, its edges 54 kB
  auto const sentence = sentence_of<ResourceError>([&] { prepare(sparse, dense); });
  // Layers on their way to a device of its own memory may take 64 MiB of the host's.
  std::string const allowed = has_own_memory(GetParam().backend) ? "0.0625" : "0.0156";
  EXPECT_THAT(sentence,
              AllOf(HasSubstr("layer 0 needs 0."),
                    HasSubstr("the format that was asked for, dense, but only " + allowed + " GiB may be used"),
                    HasSubstr("leave formats and kernel of --tuning out, or raise --memory host to 0.")));
  dense.formats = {};
  auto const samples = ramp_samples(20, 4500);
  EXPECT_EQ(test::run_all(sparse, samples, dense).result.activations,
            test::reference_of(sparse, samples, GetParam().precision));
  dense.formats = {FormatName::dense};
  dense.memory_limit = std::size_t(200) << 20U; // for one layer at a time; of which CPUs cannot hold both
  if (!has_own_memory(GetParam().backend)) return;
  EXPECT_EQ(test::run_all(sparse, samples, dense).result.activations,
            test::reference_of(sparse, samples, GetParam().precision));
}

} // namespace
} // namespace varve
