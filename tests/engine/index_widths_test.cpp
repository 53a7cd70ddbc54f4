#include "engine/draw.hpp"
#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace varve {
namespace {

using test::Place;
using test::RandomCases;
using test::Sharing;

Layer layer_of(Sharing sharing, bool has_one_weight, std::size_t inputs, std::size_t outputs) {
  RandomCases random(inputs + outputs);
  auto layer = random.draw_shared(sharing, outputs, inputs);
  layer.weights.values.resize(has_one_weight ? 1 : layer.weights.num_entries());
  for (auto& value : layer.weights.values) value = random.real(-0.2, 0.5);
  layer.bias = {random.real(-0.1, 0.0)};
  layer.activation = Activation::clipped_relu(4.0);
  return layer;
}

/// A network whose first layer has this many inputs.
Network network_of_inputs(Sharing sharing, bool has_one_weight, std::size_t width) {
  std::size_t const narrow = sharing == Sharing::all ? 3 : 100; // dense layers of few weights
  return Network({layer_of(sharing, has_one_weight, width, narrow), layer_of(Sharing::all, false, narrow, 100),
                  layer_of(Sharing::all, false, 100, 7)});
}

/// A network whose first layer has this many outputs, and the second as many inputs.
Network network_of_outputs(Sharing sharing, std::size_t width) {
  return Network({layer_of(sharing, false, 100, width), layer_of(Sharing::nothing, false, width, 40)});
}

/// Samples that read neurons of both halves of the range, the first and the last included.
SampleSet samples_of_width(std::size_t width, bool has_one_value) {
  RandomCases random(width + 1);
  SampleSet samples;
  samples.matrix.num_rows = 37;
  samples.matrix.num_columns = width;
  for (std::size_t row = 0; row < samples.matrix.num_rows; ++row) {
    for (std::size_t neuron = row % 3; neuron < width; neuron += 1 + random.below(29))
      samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
    if (samples.matrix.column_indices.back() + 1 != width)
      samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(width - 1));
    samples.matrix.row_pointers.push_back(samples.matrix.column_indices.size());
  }
  samples.matrix.values.assign(has_one_value ? 1 : samples.matrix.num_entries(), 0.37);
  if (has_one_value) return samples;
  for (auto& value : samples.matrix.values) value = random.real(0.1, 1.0);
  return samples;
}

/// How a step reads its layer.
using Reading = std::tuple<KernelName, FormatName, int>;

class IndexWidths : public testing::TestWithParam<Place> {
protected:
  /// Runs both kinds of samples through the network in these ways, and notes how layers were read.
  void run_everywhere(Network const& network, std::vector<InferenceOptions> const& choices) {
    auto const width = network.num_inputs();
    auto const precision = GetParam().precision;
    std::vector<SampleSet> const sets = {samples_of_width(width, true), samples_of_width(width, false)};
    std::vector<SampleSet> expected;
    for (auto const& set : sets) expected.push_back(test::reference_of(network, set, precision));
    static_cast<void>(draw_.next()); // so that a share holds other ways of the next network
    for (auto const& options : choices) {
      if (!draw_.next()) continue;
      SCOPED_TRACE(test::describe(options));
      auto const inference = prepare(network, options);
      for (std::size_t i = 0; i < sets.size(); ++i) {
        auto const plan = inference->plan(shape_of(sets[i]));
        ASSERT_GE(plan.batch, sets[i].num_samples());
        auto const result = inference->infer(sets[i], {true, false});
        ASSERT_EQ(result.activations, expected[i]) << to_text(plan).front() << (i == 0 ? ", one value" : "");
        for (auto const& step : plan.steps) {
          if (step.first_layer == 0) expect_width(step, network.layers().front().num_inputs());
          seen_.emplace(step.kernel, step.choice.format, step.choice.index_bits);
        }
      }
    }
  }

  static void expect_width(Step const& step, std::size_t inputs) {
    bool const is_local = step.choice.format == FormatName::staged_blocks || step.kernel == KernelName::counts;
    EXPECT_EQ(step.choice.index_bits, is_local || inputs <= 65536 ? 16 : 32) << to_string(step.kernel);
  }

  void expect_seen(KernelName kernel, FormatName format, std::vector<int> const& widths) const {
    for (int const bits : widths)
      EXPECT_TRUE(seen_.contains({kernel, format, bits}))
          << to_string(kernel) << ", " << to_string(format) << ", " << bits << " bits";
  }

  test::Draw draw_;
  std::set<Reading> seen_;
};
INSTANTIATE_TEST_SUITE_P(Everywhere, IndexWidths, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(IndexWidths, AroundTwoToThe16EveryEncodingHasItsOwn) {
  auto const choices = test::all_choices(GetParam());
  std::vector<InferenceOptions> by_format = {choices.front()};
  for (auto const& options : choices)
    if (options.kernel == KernelName::direct && !options.expected_samples) by_format.push_back(options);
  for (std::size_t const width : {65535U, 65536U, 65537U}) {
    for (auto const sharing : test::all_sharings) {
      SCOPED_TRACE(testing::Message() << width << " neurons, sharing " << static_cast<int>(sharing));
      run_everywhere(network_of_inputs(sharing, sharing == Sharing::nothing, width),
                     width == 65537U ? choices : by_format);
      if (sharing != Sharing::all && sharing != Sharing::nothing)
        run_everywhere(network_of_outputs(sharing, width), by_format);
      if (HasFatalFailure()) return;
    }
  }
  if (test::Draw::count(choices.size()) < choices.size()) return; // a share does not see all of them
  expect_seen(KernelName::direct, FormatName::csr, {16, 32});
  expect_seen(KernelName::direct, FormatName::sliced_ell, {16, 32});
  expect_seen(KernelName::staged, FormatName::staged_blocks, {16});
  expect_seen(KernelName::bits, FormatName::sliced_ell, {16, 32});
  expect_seen(KernelName::counts, FormatName::csr, {16});
  expect_seen(KernelName::fused, FormatName::sliced_ell, {16});
  if (has_own_memory(GetParam().backend)) {
    expect_seen(KernelName::stationary, FormatName::pattern_blocks, {16, 32});
    expect_seen(KernelName::dense, FormatName::dense, {16, 32});
    return;
  }
  expect_seen(KernelName::direct, FormatName::pattern_blocks, {16, 32});
  expect_seen(KernelName::direct, FormatName::dense, {16, 32});
  expect_seen(KernelName::small_batch, FormatName::sliced_ell, {16});
  expect_seen(KernelName::small_batch, FormatName::dense, {16});
}

} // namespace
} // namespace varve
