#include "engine/places.hpp"

#include "plan/plan.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <Kokkos_Core.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Place;

/// Labels of the kernels that take samples through layers, in the order in which Kokkos tells a tool of their launches
/// while an object of this class lives.
class Trace {
public:
  Trace() {
    labels().clear();
    Kokkos::Tools::Experimental::set_begin_parallel_for_callback(&begin_kernel);
  }
  ~Trace() { Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr); }
  Trace(Trace const&) = delete;
  Trace& operator=(Trace const&) = delete;

  static std::vector<std::string>& labels() {
    static std::vector<std::string> all;
    return all;
  }

private:
  static void begin_kernel(char const* name, std::uint32_t, std::uint64_t*) {
    std::string const label = name;
    if (label.find("_forward") != std::string::npos) labels().push_back(label);
  }
};

/// One launch for each step, by the kernel that the step names.
void expect_as_planned(std::vector<std::string> const& labels, Plan const& plan) {
  ASSERT_EQ(labels.size(), plan.steps.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Step const& step = plan.steps[i];
    EXPECT_TRUE(labels[i].starts_with(entry_of(step.kernel).label)) << "step " << i << ": " << labels[i];
    EXPECT_EQ(labels[i].ends_with("_bits"), step.reads_bits) << "step " << i << ": " << labels[i];
  }
}

class PlanTrace : public testing::TestWithParam<Place> {
protected:
  /// Two batches by the plan for their shape; the second may have been planned anew.
  void run(NetworkSource const& network, SampleSet const& samples, InferenceOptions const& options) {
    auto const inference = prepare(network, options);
    inference->plan(shape_of(samples));
    for (int batch = 0; batch < 2; ++batch) {
      Plan const plan = inference->plan();
      Trace const trace;
      inference->infer(samples, {});
      expect_as_planned(Trace::labels(), plan);
      ++num_runs_;
    }
  }
  int num_runs_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Everywhere, PlanTrace, testing::ValuesIn(test::all_places()), test::name_of);

std::vector<std::unique_ptr<NetworkSource>> networks() {
  std::vector<std::unique_ptr<NetworkSource>> all;
  all.push_back(std::make_unique<RadixNet>(64, 9, 3, -0.1));
  all.push_back(std::make_unique<RadixNet>(1024, 5, 3, -0.2));
  for (std::vector<std::size_t> const& widths :
       {std::vector<std::size_t>{64, 64, 64, 64}, {100, 257, 33, 64}, {64, 2000, 60}}) {
    RandomNetworkRecipe recipe;
    recipe.widths = widths;
    recipe.density = 0.2;
    recipe.seed = 5;
    all.push_back(std::make_unique<RandomNetwork>(recipe));
  }
  return all;
}

TEST_P(PlanTrace, EqualsThePlan) {
  for (auto const& network : networks()) {
    std::size_t const width = network->layer(0).num_inputs();
    SCOPED_TRACE(testing::Message() << width << " inputs");
    auto const values = random_samples(width, 60, 0.5, 3);
    auto ones = values;
    ones.matrix.values = {1.0};
    for (SampleSet const* const samples : {&values, static_cast<SampleSet const*>(&ones)}) {
      run(*network, *samples, test::options_at(GetParam()));
      auto few = test::options_at(GetParam());
      few.expected_samples = 1;
      run(*network, *samples, few);
      auto reduced = test::options_at(GetParam());
      reduced.reductions = parse_reductions("auto");
      run(*network, *samples, reduced);
    }
  }
  EXPECT_GE(num_runs_, 20);
}

TEST_P(PlanTrace, EqualsTheNewPlanWhenSamplesAreNotAsExpected) {
  RadixNet const network(64, 6, 3, -0.1);
  auto values = random_samples(64, 40, 0.5, 3);
  auto ones = values;
  ones.matrix.values = {1.0};
  auto const inference = prepare(network, test::options_at(GetParam()));
  auto const first = inference->plan(shape_of(ones)).steps.front();
  EXPECT_TRUE(first.reads_bits || first.kernel == KernelName::bits || first.kernel == KernelName::counts);
  Trace const trace;
  inference->infer(values, {});
  expect_as_planned(Trace::labels(), inference->plan());
  auto const now = inference->plan().steps.front();
  EXPECT_FALSE(now.reads_bits || now.kernel == KernelName::bits || now.kernel == KernelName::counts);
}

TEST_P(PlanTrace, OfLayersInStripsIsWhatThePlanSays) {
  RandomNetworkRecipe recipe;
  recipe.widths = {300, 400, 350, 410};
  recipe.density = 0.3;
  RandomNetwork const network(recipe);
  auto options = test::options_at(GetParam());
  options.formats = {FormatName::csr};
  options.device_memory_limit = std::size_t(64) << 20U;
  options.memory_limit = std::size_t(128) << 20U;
  options.device_weight_limit = 60000;
  auto const samples = random_samples(300, 60, 0.5, 3);
  auto const plan = prepare(network, options)->plan(shape_of(samples));
  EXPECT_GE(plan.steps.size(), 20U);
  run(network, samples, options);
}

TEST_P(PlanTrace, OfWhatIsForcedIsWhatThePlanSays) {
  RadixNet const network(256, 4, 1);
  auto const samples = digit_images(256, 30, 2);
  for (auto const& options : test::all_choices(GetParam())) {
    SCOPED_TRACE(test::describe(options));
    run(network, samples, options);
  }
}

} // namespace
} // namespace varve
