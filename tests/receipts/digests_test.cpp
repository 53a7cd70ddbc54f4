#include "receipts/digests.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
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
            "86addb17720fef88719b32800785cf20689b1e653b82b1c5097ac0a2aaf026fe");
  EXPECT_EQ(to_hex(root_of(input_digests(small_samples()))),
            "cd07edb0be16680da5b60bb9471adf911ba910ae1ffb44621fd83bb24a4a10e7");
  EXPECT_EQ(to_hex(root_of(output_digests({small_activations(), 7}))),
            "608d0e7323860f194b54552936ac0c9ff5b9416d9d218c1c08bf02ad8c524dcd");
  SampleSet const ones{{1, 3, {0, 2}, {0, 2}, {1.0}}, 0};
  EXPECT_EQ(to_hex(input_digests(ones).front()), "d2177027110762a7dbda7f6164d9f680a2860954c1944ca59887395da7ffd40c");
  EXPECT_EQ(root_of(std::vector<Digest>()), sha256({}));
  EXPECT_EQ(to_hex(moment_digests({{{{{0.5, 0.25, 0.0}}, {{0.0, 0.0}}}}, 2}).front()),
            "dcddc4ad3e5b2c488d35c33afb83f7accd4e363625ccce9d057a9590a7941c12");
  EXPECT_EQ(to_hex(answers_digest({{2, 0, 1}, {}}, 7)),
            "81f47f11b903738bd0e80801c0e476f6f68bda4886fdf9ffcdc84abf6a99c5c2");
  EXPECT_EQ(to_hex(answers_digest({{}, small_activations()}, 7)),
            "75c72e1c5b532d06c2e9071435d6d83bd9a25ed459a641620cc2be0fd644176a");
  std::vector<std::uint64_t> const rows = {5, 3};
  EXPECT_EQ(to_hex(order_digest({}, rows)), "fb6d1f5fffe121a613ff1c604cd3295ed03be905bba62f76f0d7880ec65f3ab7");
}

/// Counts how often each layer is read.
class CountingSource final : public NetworkSource {
public:
  explicit CountingSource(std::vector<int>& counts) : counts_(counts) {}
  std::string name() const override { return "counted"; }
  std::size_t num_layers() const override { return 2; }
  Layer layer(std::size_t number) const override {
    ++counts_[number];
    return small_network().layer(number);
  }

private:
  std::vector<int>& counts_;
};

TEST(Digests, OfANetworkThatIsReadAnywayReadNoLayerAgain) {
  std::vector<int> counts(2, 0);
  DigestedNetwork const network(std::make_unique<CountingSource>(counts));
  EXPECT_EQ(network.layer(1), small_network().layer(1));
  EXPECT_EQ(network.layer(1), small_network().layer(1));
  EXPECT_EQ(network.digest(), network_digest(small_network()));
  EXPECT_EQ(counts, (std::vector{1, 2}));
}

/// The definition of RFC 6962.
Digest root_by_definition(std::span<Digest const> leaves) {
  if (leaves.size() == 1) return leaves.front();
  auto const half = std::bit_floor(leaves.size() - 1);
  auto const left = root_by_definition(leaves.first(half));
  auto const right = root_by_definition(leaves.subspan(half));
  std::string text = "\x01";
  text.append(left.begin(), left.end()).append(right.begin(), right.end());
  return sha256(text);
}

TEST(Digests, RootsAndPathsAreThoseOfTheDefinition) {
  std::vector<Digest> leaves;
  for (std::size_t count = 1; count < 40; ++count) {
    leaves.push_back(sha256(std::to_string(count)));
    auto const root = root_by_definition(leaves);
    EXPECT_EQ(root_of(leaves), root) << count;
    for (std::size_t place = 0; place < count; ++place) {
      auto path = path_of(leaves, place);
      ASSERT_EQ(path.size(), path_length(place, count)) << place << " of " << count;
      EXPECT_EQ(root_by(leaves[place], place, count, path), root) << place << " of " << count;
      for (auto& node : path) {
        node[31] ^= 1U;
        EXPECT_NE(root_by(leaves[place], place, count, path), root) << place << " of " << count;
        node[31] ^= 1U;
      }
    }
  }
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
