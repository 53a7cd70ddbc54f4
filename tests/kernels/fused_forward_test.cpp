#include "kernels/fused_forward.hpp"

#include "formats/sliced_ell.hpp"
#include "kernels/host_team.hpp"
#include "passes/edge_order.hpp"
#include "reference/training_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::HostTeamMember;
using Space = Kokkos::Serial;
constexpr int team_size = 8;
constexpr std::size_t widest = 24;

/// The tiles of a GPU, in place, for a team of so few threads that each takes up to three outputs.
template <class Scalar>
struct SmallTeam {
  using Tile = RotatedTileShape<Scalar, 16 / static_cast<int>(sizeof(Scalar)), 1, 4>;
  struct Policy {
    using member_type = HostTeamMember;
  };
  static constexpr bool in_place = true;
  static constexpr bool prefetches = false;
  static constexpr int num_tiles = 1;
  static constexpr int team_size = varve::team_size;
  static constexpr int passes = static_cast<int>(widest) / team_size;
  static constexpr int scratch_level = 0;
};

/// Layers of positive weights and a negative bias: samples without activations die, large ones saturate. If
/// `one_lives`, only the output of the last layer that is stored last is ever more than zero.
std::vector<Layer> make_layers(bool one_lives) {
  std::vector<Layer> layers;
  RandomStream random(3, 1);
  std::size_t const widths[] = {17, 24, 9, 24};
  for (std::size_t number = 0; number + 1 < std::size(widths); ++number) {
    Layer layer;
    layer.weights.num_columns = widths[number];
    layer.weights.num_rows = widths[number + 1];
    for (std::size_t output = 0; output < layer.weights.num_rows; ++output) {
      for (std::size_t input = output % 2; input < widths[number]; input += 2) {
        layer.weights.column_indices.push_back(static_cast<NeuronIndex>(input));
        layer.weights.values.push_back(test::draw_real(random, 0.3, 0.6));
      }
      layer.weights.row_pointers.push_back(layer.weights.num_entries());
    }
    for (std::size_t output = 0; output < layer.weights.num_rows; ++output)
      layer.bias.push_back(test::draw_real(random, -0.3, -0.1));
    layer.activation.cap = 1.0;
    auto const order = balance_edges(layer.weights);
    if (one_lives && number + 2 == std::size(widths)) {
      double const kept = layer.bias[order.back()];
      std::ranges::fill(layer.bias, -100.0);
      layer.bias[order.back()] = kept;
    }
    layers.push_back(layer);
  }
  return layers;
}

template <class Scalar>
std::vector<Scalar> forward(std::vector<Layer> const& layers, std::vector<Scalar> activations) {
  for (auto const& layer : layers) {
    std::vector<Scalar> next;
    for (std::size_t output = 0; output < layer.weights.num_rows; ++output) {
      Scalar sum = 0;
      for (EdgeOffset edge = layer.weights.row_pointers[output]; edge < layer.weights.row_pointers[output + 1]; ++edge)
        sum = std::fma(static_cast<Scalar>(layer.weights.values[edge]), activations[layer.weights.column_indices[edge]],
                       sum);
      auto const x = static_cast<Scalar>(static_cast<double>(sum) + layer.bias[output]);
      next.push_back(std::clamp(x, Scalar(0), Scalar(1)));
    }
    activations = next;
  }
  return activations;
}

/// Every seventh sample is zero, every fifth one large, the others have a few small activations.
template <class Scalar>
std::vector<std::vector<Scalar>> make_samples(std::size_t count, std::size_t width) {
  std::vector<std::vector<Scalar>> samples;
  RandomStream random(5, 1);
  for (std::size_t sample = 0; sample < count; ++sample) {
    samples.emplace_back(width, Scalar(0));
    for (auto& activation : samples.back()) {
      double const draw = test::draw_real(random, -0.2, 0.2);
      if (sample % 7 != 0) activation = static_cast<Scalar>(sample % 5 == 0 ? 0.9 : std::max(draw, 0.0));
    }
  }
  return samples;
}

template <class Scalar>
using Answers = std::map<int, std::vector<Scalar>>; ///< last activations by sample

template <class Scalar>
struct Found {
  Answers<Scalar> kept;
  std::set<int> saturated;
};

/// Runs the kernel by threads of the host, from tiles or from sparse samples.
template <class Scalar>
Found<Scalar> run(std::vector<Layer> const& layers, std::vector<std::vector<Scalar>> const& samples, bool from_tiles,
                  int saturates_from) {
  using Tune = SmallTeam<Scalar>;
  using Tile = typename Tune::Tile;
  using Format = SlicedEll<Space, Scalar, std::uint16_t, 16, 8, 1>;
  using Kernel = FusedForward<Space, Format, Tile, Tune>;
  constexpr std::size_t width = Tile::num_samples;
  std::size_t const num_inputs = layers.front().num_inputs();
  std::size_t const num_outputs = layers.back().num_outputs();
  std::size_t const padded = (samples.size() + width - 1) / width * width;
  std::vector<Format> formats;
  std::vector<typename Format::Edges> edges;
  for (auto const& layer : layers)
    formats.emplace_back(layer, Format::encode(layer.weights, balance_outputs(layer.weights)));
  for (auto const& format : formats) edges.push_back(format.edges());

  struct alignas(64) Aligned {
    Scalar values[64 / sizeof(Scalar)];
  };
  auto const aligned = [](std::size_t count) { return std::vector<Aligned>(count * sizeof(Scalar) / 64 + 1); };
  auto const view_of = [](std::vector<Aligned>& memory) {
    return ArrayView<Scalar>(memory.front().values, memory.size() * std::size(memory.front().values));
  };
  auto source_memory = aligned(padded * num_inputs);
  auto target_memory = aligned(padded * num_outputs);
  auto const source = view_of(source_memory);
  std::vector<EdgeOffset> row_pointers = {0};
  std::vector<NeuronIndex> columns;
  std::vector<Scalar> values;
  std::vector<int> ids;
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    ids.push_back(static_cast<int>(100 + sample));
    for (std::size_t input = 0; input < num_inputs; ++input) {
      source((sample / width * num_inputs + input) * width + sample % width) = samples[sample][input];
      if (samples[sample][input] == Scalar(0)) continue;
      columns.push_back(static_cast<NeuronIndex>(input));
      values.push_back(samples[sample][input]);
    }
    row_pointers.push_back(columns.size());
  }
  DeviceSamples<Space, Scalar> const sparse{
      static_cast<int>(samples.size()),  static_cast<int>(num_inputs),    upload<Space>("row_pointers", row_pointers),
      upload<Space>("columns", columns), upload<Space>("values", values), 1};
  int const num_slots = static_cast<int>(samples.size());
  int num_kept = 0;
  int num_saturated = 0;
  std::vector<int> kept_ids(samples.size());
  std::vector<int> saturated_ids(samples.size());

  Kernel kernel{};
  kernel.layers = ArrayView<typename Format::Edges const>(edges.data(), edges.size());
  kernel.num_layers = static_cast<int>(layers.size());
  kernel.max_neurons = static_cast<int>(widest);
  if (from_tiles) {
    kernel.source = source;
  } else {
    kernel.samples = sparse;
  }
  kernel.num_slots = ArrayView<int const>(&num_slots, 1);
  kernel.hand_over.ids = ArrayView<int const>(ids.data(), ids.size());
  kernel.hand_over.target = view_of(target_memory);
  kernel.hand_over.target_tile_samples = static_cast<int>(width);
  kernel.hand_over.num_kept = ArrayView<int>(&num_kept, 1);
  kernel.hand_over.kept_ids = ArrayView<int>(kept_ids.data(), kept_ids.size());
  kernel.hand_over.saturated = {ArrayView<int>(saturated_ids.data(), saturated_ids.size()),
                                ArrayView<int>(&num_saturated, 1)};
  kernel.hand_over.keeps_dead = false;
  kernel.cap = Scalar(1);
  kernel.saturates_from = saturates_from;
  kernel.stops_when_dead = true;

  auto scratch = aligned(Kernel::scratch_bytes(kernel.max_neurons, 0) / sizeof(Scalar) + 16);
  std::barrier<> barrier(team_size);
  {
    std::vector<std::jthread> team;
    for (int rank = 0; rank < team_size; ++rank)
      team.emplace_back([&, rank] { kernel(HostTeamMember(rank, barrier, scratch.data())); });
  }

  Found<Scalar> found;
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(num_kept); ++slot) {
    auto& activations = found.kept[kept_ids[slot]];
    for (std::size_t output = 0; output < num_outputs; ++output)
      activations.push_back(kernel.hand_over.target((slot / width * num_outputs + output) * width + slot % width));
  }
  found.saturated.insert(saturated_ids.begin(), saturated_ids.begin() + num_saturated);
  EXPECT_EQ(found.saturated.size(), static_cast<std::size_t>(num_saturated));
  return found;
}

template <class Scalar>
class TransposedPacks : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(TransposedPacks, Precisions);

/// Compares samples in tiles and sparse ones with plain loops, with and without a search for saturated samples.
template <class Scalar>
void expect_live_samples(std::vector<Layer> const& layers, std::size_t count, bool some_saturate) {
  auto const samples = make_samples<Scalar>(count, layers.front().num_inputs());
  Answers<Scalar> live;
  std::set<int> saturated;
  for (std::size_t sample = 0; sample < count; ++sample) {
    auto const last = forward(layers, samples[sample]);
    auto const all_are = [&](Scalar value) { return std::ranges::all_of(last, [=](Scalar x) { return x == value; }); };
    int const id = static_cast<int>(100 + sample);
    if (!all_are(0)) live[id] = last;
    if (all_are(1)) saturated.insert(id);
  }
  if (count > 30) {
    EXPECT_FALSE(live.empty());
    EXPECT_LT(live.size(), count) << "some samples die";
    EXPECT_EQ(saturated.empty(), !some_saturate);
    EXPECT_LT(saturated.size(), live.size());
  }
  auto rest = live;
  for (int const id : saturated) rest.erase(id);
  for (bool const from_tiles : {true, false}) {
    constexpr int never = 100;
    auto const all = run(layers, samples, from_tiles, never);
    EXPECT_EQ(all.kept, live) << count << " samples" << (from_tiles ? " in tiles" : "");
    EXPECT_TRUE(all.saturated.empty());
    auto const unsaturated = run(layers, samples, from_tiles, 1);
    EXPECT_EQ(unsaturated.saturated, saturated);
    EXPECT_EQ(unsaturated.kept, rest);
  }
}

TYPED_TEST(TransposedPacks, GiveTheActivationsOfLiveSamples) {
  for (std::size_t const count : {1U, 7U, 8U, 37U, 80U})
    expect_live_samples<TypeParam>(make_layers(false), count, true);
}

TYPED_TEST(TransposedPacks, SeeSamplesThatOneOutputKeepsAlive) {
  for (std::size_t const count : {8U, 37U}) expect_live_samples<TypeParam>(make_layers(true), count, false);
}

} // namespace
} // namespace varve
