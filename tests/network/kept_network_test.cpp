#include "network/layer_memory.hpp"

#include "engine/hand_made.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace varve {
namespace {

/// Layers of which each has a weight of its own; counts how often each was read.
class CountingSource final : public NetworkSource {
public:
  std::string name() const override { return "counting"; }
  std::size_t num_layers() const override { return counts_.size(); }
  Layer layer(std::size_t number) const override {
    ++counts_[number];
    return test::diagonal_layer(4, 1.0 + static_cast<double>(number), {0.0}, Activation::relu());
  }
  std::vector<int> counts() const { return {counts_.begin(), counts_.end()}; }

private:
  mutable std::vector<std::atomic<int>> counts_ = std::vector<std::atomic<int>>(3);
};

TEST(KeptNetwork, ReadsWhatItKeepsOnce) {
  constexpr std::size_t bytes_of_layer = 4 * 4 + 8 + 5 * 8 + 8;
  for (std::size_t const num_kept : {0U, 2U, 3U}) {
    CountingSource const source;
    KeptNetwork const network(source, num_kept * bytes_of_layer + bytes_of_layer - 1);
    EXPECT_EQ(network.name(), "counting");
    ASSERT_EQ(network.num_layers(), 3U);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t number = 0; number < 3; ++number)
        EXPECT_EQ(network.layer(number).weights.values, std::vector<double>{1.0 + static_cast<double>(number)});
    }
    std::vector<int> expected(3, 3);
    for (std::size_t number = 0; number < num_kept; ++number) expected[number] = 1;
    EXPECT_EQ(source.counts(), expected);
  }
}

} // namespace
} // namespace varve
