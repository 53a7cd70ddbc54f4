#include "receipts/digests.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace varve {
namespace {

/// Two layers, the first of which shares its weight and its bias.
Network small_network() {
  return Network({{{2, 3, {0, 2, 3}, {0, 2, 1}, {0.5}}, {-0.25}, Activation::clipped_relu(32.0)},
                  {{1, 2, {0, 2}, {0, 1}, {1.0, -2.0}}, {0.125}, Activation::identity()}});
}

SampleSet small_samples() { return {{3, 3, {0, 2, 2, 3}, {0, 2, 1}, {1.0, 0.5, 1.0}}, 7}; }
SparseMatrix small_activations() { return {3, 1, {0, 1, 1, 2}, {0, 0}, {0.75, 2.0}}; }

// The expected digests are those of docs/audit.md, computed by Python's hashlib and struct.
TEST(Digests, AreThoseOfThePage) {
  EXPECT_EQ(to_hex(network_digest(small_network())),
            "f0a92e9d30686557593d09a4f1a341f09b01f420f86d6efd1be1a001b4a13d26");
  auto const leaves = leaves_of(small_samples(), small_activations());
  EXPECT_EQ(to_hex(root_of(leaves, &SampleLeaves::input)),
            "cd07edb0be16680da5b60bb9471adf911ba910ae1ffb44621fd83bb24a4a10e7");
  EXPECT_EQ(to_hex(root_of(leaves, &SampleLeaves::output)),
            "608d0e7323860f194b54552936ac0c9ff5b9416d9d218c1c08bf02ad8c524dcd");
  EXPECT_EQ(to_hex(root_of({}, &SampleLeaves::input)), to_hex(sha256({})));
}

TEST(Digests, DependOnNumbersAndNotOnHowTheyAreStored) {
  auto layers = small_network().layers();
  layers[0].weights.values = {0.5, 0.5, 0.5};
  layers[0].bias = {-0.25, -0.25};
  EXPECT_EQ(network_digest(Network(layers)), network_digest(small_network()));
  auto samples = small_samples();
  samples.matrix = {3, 3, {0, 3, 4, 5}, {0, 1, 2, 0, 1}, {1.0, 0.0, 0.5, 0.0, 1.0}}; // zeros written out
  EXPECT_EQ(input_digests(samples), input_digests(small_samples()));
  SampleSet const ones{{2, 3, {0, 2, 3}, {0, 2, 1}, {1.0}}, 0};
  SampleSet const written{{2, 3, {0, 2, 3}, {0, 2, 1}, {1.0, 1.0, 1.0}}, 0};
  EXPECT_EQ(input_digests(ones), input_digests(written));
}

TEST(Digests, DoNotDependOnBatches) {
  SampleBatch const all(small_samples());
  auto const whole = input_digests(all);
  std::vector<Digest> parts;
  for (std::size_t row = 0; row < 3; ++row) parts.push_back(input_digests(all.part(row, row + 1)).front());
  EXPECT_EQ(parts, whole);
  auto joined = all.part(0, 1);
  joined.append(all.part(1, 3));
  EXPECT_EQ(input_digests(joined), whole);
}

TEST(Digests, FindEveryChange) {
  auto const before = network_digest(small_network());
  auto const expect_change = [&](auto const& change) {
    auto layers = small_network().layers();
    change(layers);
    EXPECT_NE(network_digest(Network(layers)), before);
  };
  expect_change([](auto& layers) { layers[0].weights.values = {0.5, 0.5, 0.50000000000000011}; });
  expect_change([](auto& layers) { layers[0].weights.column_indices = {0, 1, 1}; });
  expect_change([](auto& layers) { layers[1].weights.row_pointers = {0, 2, 2}, layers[1].weights.num_rows = 2; });
  expect_change([](auto& layers) { layers[1].bias = {-0.125}; });
  expect_change([](auto& layers) { layers[0].activation = Activation::clipped_relu(31.0); });
  expect_change([](auto& layers) { layers[1].activation = Activation::relu(); });
  auto const inputs = input_digests(small_samples());
  EXPECT_NE(inputs[0], input_digests(SampleBatch(small_samples()).numbered_from(8))[0]);
  auto activations = small_activations();
  activations.values[0] = 0.5;
  EXPECT_NE(output_digest(activations, 0, 7), output_digest(small_activations(), 0, 7));
  EXPECT_EQ(output_digest(activations, 2, 9), output_digest(small_activations(), 2, 9));
}

TEST(Digests, ARootDependsOnEachLeafAndOnTheirOrder) {
  std::vector<SampleLeaves> leaves;
  for (int sample = 0; sample < 13; ++sample) leaves.push_back({sha256(std::to_string(sample)), {}});
  auto const root = root_of(leaves, &SampleLeaves::input);
  for (std::size_t sample = 0; sample + 1 < leaves.size(); ++sample) {
    auto changed = leaves;
    std::swap(changed[sample], changed[sample + 1]);
    EXPECT_NE(root_of(changed, &SampleLeaves::input), root);
  }
  leaves.pop_back();
  EXPECT_NE(root_of(leaves, &SampleLeaves::input), root);
}

} // namespace
} // namespace varve
