#include "engine/rank_exchange.hpp"
#include "engine/step_shares.hpp"

#include "network/leaf.hpp"
#include "reference/training_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace varve {
namespace {

Network small_network() { return test::training_case({{30, 40, 35, 20, 8}, 1, 0.4}).network; }

TEST(GradientParts, HaveOneBundleIfAsked) {
  auto const network = small_network();
  GradientParts const parts(network, 1, GradientParts::one_bundle);
  ASSERT_EQ(parts.bundles().size(), 1U);
  auto const& bundle = parts.bundles().front();
  EXPECT_EQ(bundle.num_layers, 4U);
  EXPECT_EQ(bundle.num_edges, network.num_edges());
  EXPECT_EQ(bundle.num_outputs, 40U + 35 + 20 + 8);
  auto const part = parts.part(0, 0);
  EXPECT_EQ(part.first_edge, 0U);
  EXPECT_EQ(part.num_edges(), bundle.num_edges);
  EXPECT_EQ(part.num_outputs(), bundle.num_outputs);
}

/// Bundles and parts must hold every layer, edge, output and sum exactly once, in order.
void expect_division(Network const& network, GradientParts const& parts, std::size_t num_ranks) {
  std::size_t layer = 0;
  std::size_t edge = 0;
  std::size_t output = 0;
  std::size_t sum = 0;
  for (std::size_t number = 0; number < parts.bundles().size(); ++number) {
    auto const& bundle = parts.bundles()[number];
    EXPECT_EQ(bundle.first_sum(), sum);
    EXPECT_EQ(bundle.sum_of_edge(bundle.first_edge), bundle.first_sum());
    EXPECT_EQ(bundle.sum_of_output(bundle.first_output), bundle.first_sum() + bundle.num_edges);
    if (bundle.first_layer + 1 == layer && bundle.num_layers == 1) --layer; // another bundle of a large layer
    EXPECT_EQ(bundle.first_layer, layer);
    for (std::size_t i = 0; i < bundle.num_layers; ++i, ++layer) {
      auto const& of_layer = parts.bundle_of(layer);
      EXPECT_EQ(of_layer.first_layer, bundle.first_layer);
      EXPECT_EQ(of_layer.sum_of_edge(bundle.first_edge), bundle.first_sum());
      EXPECT_EQ(&of_layer == &bundle, bundle.num_outputs > 0);
    }
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      auto const part = parts.part(number, rank);
      EXPECT_EQ(part.first_edge, edge);
      EXPECT_EQ(part.first_output, output);
      EXPECT_EQ(part.first_sum, sum);
      EXPECT_TRUE(part.num_outputs() == 0 || part.last_edge == bundle.first_edge + bundle.num_edges);
      edge = part.last_edge;
      output = part.last_output;
      sum += part.num_sums();
    }
    EXPECT_EQ(edge, bundle.first_edge + bundle.num_edges);
    EXPECT_EQ(output, bundle.first_output + bundle.num_outputs);
  }
  EXPECT_EQ(layer, network.num_layers());
  EXPECT_EQ(edge, network.num_edges());
}

TEST(GradientParts, CoverEverythingOnce) {
  auto const network = small_network();
  for (std::size_t const num_ranks : {1U, 2U, 3U, 5U, 40U}) {
    for (std::size_t const least : {1U, 300U, 1000000U}) {
      GradientParts const parts(network, num_ranks, least);
      SCOPED_TRACE(testing::Message() << num_ranks << " ranks, bundles of " << least);
      EXPECT_EQ(parts.bundles().size(), least == 1 ? 4U : least == 300 ? 2U : 1U);
      expect_division(network, parts, num_ranks);
    }
  }
}

TEST(GradientParts, CutLargeLayers) {
  auto const network = small_network();
  std::vector<std::size_t> edges;
  for (auto const& layer : network.layers()) edges.push_back(layer.num_edges());
  for (std::size_t const num_ranks : {1U, 3U}) {
    for (std::size_t const least : {1U, 1000000U}) {
      GradientParts const parts(network, num_ranks, least, edges[1] / 3);
      expect_division(network, parts, num_ranks);
      std::vector<std::size_t> bundles(4, 0);
      for (auto const& bundle : parts.bundles()) {
        EXPECT_LE(bundle.num_edges, edges[1] / 3);
        ++bundles[bundle.first_layer];
      }
      EXPECT_EQ(bundles[1], 4U);
    }
  }
}

TEST(TrainingPasses, AreOneSubtreeWhereTheyCanBe) {
  auto const whole = passes_of(0, 11, 11, 16);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].num_leaves, 11U);
  EXPECT_EQ(whole[0].subtrees.size(), 1U);
  auto const parts = passes_of(0, 11, 11, 4);
  ASSERT_EQ(parts.size(), 3U);
  for (auto const& pass : parts) EXPECT_EQ(pass.subtrees.size(), 1U);
  EXPECT_EQ(parts[1].subtrees[0].merges, 1U);
  EXPECT_EQ(parts[2].subtrees[0].merges, 1U);
  EXPECT_TRUE(passes_of(5, 5, 11, 4).empty());
}

TEST(TrainingPasses, LeaveTheSubtreesOfARun) {
  for (std::size_t const num_leaves : {1U, 7U, 16U, 37U}) {
    for (std::size_t const most : {1U, 2U, 3U, 5U, 16U, 64U}) {
      for (std::size_t first = 0; first <= num_leaves; first += 3) {
        for (std::size_t last = first; last <= num_leaves; last += 2) {
          std::vector<Subtree> stack;
          std::size_t next = first;
          for (auto const& pass : passes_of(first, last, num_leaves, most)) {
            EXPECT_EQ(pass.first_leaf, next);
            EXPECT_LE(pass.num_leaves, most);
            std::size_t in_pass = 0;
            for (auto const& subtree : pass.subtrees) {
              EXPECT_EQ(subtree.first_leaf, in_pass);
              EXPECT_EQ(subtree.place, stack.size());
              EXPECT_TRUE(subtree.merges == 0 || &subtree == &pass.subtrees.back());
              in_pass += subtree.num_leaves;
              stack.push_back({pass.first_leaf + subtree.first_leaf, subtree.num_leaves});
              for (std::size_t merge = 0; merge < subtree.merges; ++merge) {
                auto const upper = stack.back();
                stack.pop_back();
                stack.back().count += upper.count;
              }
            }
            EXPECT_EQ(in_pass, pass.num_leaves);
            next += pass.num_leaves;
          }
          EXPECT_EQ(next, last);
          EXPECT_EQ(stack, subtrees_of(first, last, num_leaves)) << first << " " << last << " of " << num_leaves;
        }
      }
    }
  }
}

/// Gathers what this rank and, in calls before, the lower ones have given.
class GatheredInTurn final : public RankExchange {
public:
  std::vector<double> gather(std::vector<double> const& own) override {
    all_.insert(all_.end(), own.begin(), own.end());
    return all_;
  }

private:
  std::vector<double> all_;
};

TEST(RankLosses, OfRanksAddUpToThoseOfOne) {
  std::vector<double> losses(300);
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] = 1.0 / static_cast<double>(3 * i + 1);
  RankLosses one;
  one.add(losses, 64);
  one.num_right = 17;
  RankLosses lower;
  lower.add({losses.begin(), losses.begin() + 192}, 64);
  lower.num_right = 10;
  RankLosses upper;
  upper.add({losses.begin() + 192, losses.end()}, 64);
  upper.num_right = 7;
  auto const whole = sum_of(one);
  lower.seconds = 2;
  GatheredInTurn exchange;
  std::vector<double> seconds;
  gather(exchange, lower, seconds);
  gather(exchange, RankLosses{}, seconds);
  auto const both = sum_of(gather(exchange, upper, seconds));
  EXPECT_EQ(seconds, (std::vector<double>{2, 0, 0}));
  EXPECT_EQ(both.loss, whole.loss);
  EXPECT_EQ(both.num_samples, 300U);
  EXPECT_EQ(both.num_right, 17U);
  EXPECT_NE(sum_of(lower).loss + sum_of(upper).loss, whole.loss) << "ranks' sums are no subtrees of the tree";
  EXPECT_EQ(sum_of(RankLosses{}).num_samples, 0U);
}

} // namespace
} // namespace varve
