#include "plan/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace varve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Step step_of(std::size_t first, std::size_t last, KernelName kernel, FormatName format) {
  Step step;
  step.first_layer = first;
  step.last_layer = last;
  step.kernel = step.choice.kernel = kernel;
  step.choice.format = format;
  step.choice.shape = {1, 1, 4};
  step.choice.index_bits = 16;
  step.choice.num_edges = step.choice.num_stored = 100;
  step.choice.num_layers = last - first + 1;
  return step;
}

TEST(PlanText, JoinsStepsThatDifferInTheirLayersOnly) {
  Plan plan;
  plan.steps = {step_of(0, 0, KernelName::counts, FormatName::sliced_ell),
                step_of(1, 3, KernelName::fused, FormatName::pattern_blocks),
                step_of(4, 9, KernelName::fused, FormatName::pattern_blocks),
                step_of(10, 10, KernelName::direct, FormatName::csr)};
  EXPECT_THAT(to_text(plan),
              ElementsAre("layer 0: counts kernel, edges by input, 1 launch",
                          "layers 1-9: fused kernel, pattern blocks of 4 outputs, 16-bit indices, 2 launches",
                          "layer 10: direct kernel, CSR, 16-bit indices, 1 launch"));
  plan.method = "neurons split";
  plan.stream = StreamSummary{24, 0, 0, 2, 64U << 20U, 0};
  EXPECT_THAT(to_text(plan)[3], "neurons split");
  EXPECT_THAT(to_text(plan)[4], "weights streamed: 24 segments through 2 buffers of 64.0 MiB");
  auto const json = to_json(plan);
  ASSERT_EQ(json["steps"].size(), 3U);
  EXPECT_EQ(json["steps"][1]["first_layer"], 1);
  EXPECT_EQ(json["steps"][1]["last_layer"], 9);
  EXPECT_EQ(json["steps"][1]["launches"], 2);
  EXPECT_EQ(json["steps"][1]["edges"], 200);
  EXPECT_EQ(json["stream"]["segments"], 24);
}

TEST(PlanText, SaysThatLayersGoInStrips) {
  Plan plan;
  plan.steps.push_back(step_of(0, 0, KernelName::direct, FormatName::csr));
  for (std::size_t layer = 1; layer < 3; ++layer) {
    for (std::size_t strip = 0; strip < 4 * layer; ++strip) {
      plan.steps.push_back(step_of(layer, layer, KernelName::direct, FormatName::csr));
      plan.steps.back().strip = strip;
      plan.steps.back().num_strips = 4 * layer;
    }
  }
  plan.steps.push_back(step_of(3, 3, KernelName::direct, FormatName::csr));
  EXPECT_THAT(to_text(plan),
              ElementsAre("layer 0: direct kernel, CSR, 16-bit indices, 1 launch",
                          "layer 1: direct kernel, CSR, 16-bit indices, 4 launches; in 4 strips of outputs",
                          "layer 2: direct kernel, CSR, 16-bit indices, 8 launches; in 8 strips of outputs",
                          "layer 3: direct kernel, CSR, 16-bit indices, 1 launch"));
  auto const runs = runs_of(plan.steps);
  EXPECT_THAT(explain(runs[1]), AllOf(HasSubstr("do not fit the device"), HasSubstr("in 4 strips")));
  EXPECT_THAT(explain(runs[0]), Not(HasSubstr("strips")));
  auto const json = to_json(plan);
  EXPECT_EQ(json["steps"][2]["strips"], 8);
  EXPECT_EQ(json["steps"][2]["edges"], 800);
  EXPECT_FALSE(json["steps"][0].contains("strips"));
}

TEST(PlanText, SaysHowTheFirstLayerTakesSamples) {
  auto stationary = step_of(0, 0, KernelName::stationary, FormatName::pattern_blocks);
  EXPECT_THAT(to_text(runs_of({stationary}).front()), Not(HasSubstr("bits;")));
  stationary.reads_bits = true;
  EXPECT_THAT(to_text(runs_of({stationary}).front()), HasSubstr("1 launch; samples read as bits"));
  EXPECT_THAT(explain(runs_of({stationary}).front()), HasSubstr("never as numbers"));
  auto const bits = step_of(0, 0, KernelName::bits, FormatName::sliced_ell);
  EXPECT_THAT(to_text(runs_of({bits}).front()), HasSubstr("bits kernel, sliced ELL"));
  EXPECT_THAT(explain(runs_of({bits}).front()), HasSubstr("where bits of samples are set"));
}

TEST(PlanText, ExplainsBlocksByWhatTheyStore) {
  auto step = step_of(0, 3, KernelName::fused, FormatName::pattern_blocks);
  auto const why = [&](EdgeOffset stored) {
    step.choice.num_stored = stored;
    return explain(runs_of({step}).front());
  };
  EXPECT_THAT(why(100), HasSubstr("share whole input lists"));
  EXPECT_THAT(why(170), HasSubstr("store 1.70 weights per edge"));
  EXPECT_THAT(why(400), HasSubstr("zeros included"));
  EXPECT_THAT(why(100), HasSubstr("; tiles stay in team scratch for 4.0 layers a launch"));
  step.choice.fused_tile = FusedTile::wide;
  step.choice.tile_samples = 8;
  EXPECT_THAT(why(100), HasSubstr("; tiles of 8 samples take more than 48 KiB, which the device gives to kernels that "
                                  "ask for it, and stay in team scratch for 4.0 layers a launch"));
  step = step_of(0, 0, KernelName::dense, FormatName::dense);
  EXPECT_THAT(why(167), AllOf(HasSubstr("1.67 weights are stored per edge"), HasSubstr("pass through team scratch")));
  EXPECT_THAT(to_text(runs_of({step}).front()), "layer 0: dense kernel, dense blocks of 4 outputs, 1 launch");
  step = step_of(0, 0, KernelName::direct, FormatName::csr);
  EXPECT_THAT(why(100), HasSubstr("rows are stored without padding"));
}

} // namespace
} // namespace varve
