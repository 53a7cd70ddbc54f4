#include "engine/leaf_levels.hpp"

#include "core/execution.hpp"
#include "radixnet/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace varve {
namespace {

/// What LayerStrips and LeafLevels read of a layer.
struct OutlinedLayer : TrainedShape {
  struct Rows {
    std::vector<std::uint32_t> row_pointers;
  };
  struct Edges {
    Rows by_output, by_input;
  };
  Edges edges;
};

/// A layer whose inputs have between none and all of the outputs, in one of three shares.
OutlinedLayer draw_layer(RandomStream& random, bool is_dense) {
  OutlinedLayer layer;
  layer.num_inputs = 1 + random.below(700);
  layer.num_outputs = 1 + random.below(400);
  layer.format.has_dense_backward = is_dense;
  std::array<std::uint64_t, 3> const most = {1, 30, layer.num_outputs};
  auto const max_of_row = std::min(most[random.below(3)], most[2]);
  auto& by_input = layer.edges.by_input.row_pointers;
  by_input = {0};
  for (std::size_t input = 0; input < layer.num_inputs; ++input)
    by_input.push_back(by_input.back() + static_cast<std::uint32_t>(random.below(max_of_row + 1)));
  layer.num_edges = by_input.back();
  layer.edges.by_output.row_pointers.assign(layer.num_outputs + 1, 0);
  layer.edges.by_output.row_pointers.back() = by_input.back();
  return layer;
}

/// The kernels of the fastest backend.
template <class Scalar>
std::unique_ptr<TrainingKernels<Scalar>> kernels_of_device() {
  return training_kernels<Scalar>(compiled_backends().front());
}

template <class Scalar>
void expect_bounded(TrainingKernels<Scalar> const& kernels) {
  RandomStream random(11, 5);
  double largest_ratio = 0.0;
  for (int trial = 0; trial < 60; ++trial) {
    auto const layer = draw_layer(random, trial % 2 == 0);
    std::size_t const inputs = layer.num_inputs;
    std::size_t const outputs = layer.num_outputs;
    std::size_t const leaves = 1 + random.below(70);
    for (auto const size : {kWholeLayers, strip_size_of_row(outputs), strip_size_of_row(outputs) + 3000}) {
      LayerStrips const strips(std::vector{layer}, size);
      auto const used = LeafLevels<Scalar>(kernels, std::vector{layer}, strips, leaves).bytes();
      auto const most = LeafLevels<Scalar>::max_bytes(kernels, layer, size, leaves);
      EXPECT_LE(used, most) << inputs << " x " << outputs << ", strips of " << size << ", " << leaves << " leaves";
      largest_ratio = std::max(largest_ratio, static_cast<double>(used) / static_cast<double>(most));
    }
  }
  EXPECT_GT(largest_ratio, 0.8) << "the bound is near what some layers take";
}

TEST(LeafLevels, TakeNoMoreMemoryThanPlanned) {
  expect_bounded(*kernels_of_device<float>());
  expect_bounded(*kernels_of_device<double>());
  expect_bounded(*training_kernels<float>(Backend::serial));
}

TEST(LeafLevels, TakeNoMoreMemoryForSeriesThanPlanned) {
  RandomStream random(12, 5);
  auto const layer = draw_layer(random, false);
  LayerStrips const strips(std::vector{layer}, kWholeLayers);
  using Levels = LeafLevels<float>;
  auto const kernels = training_kernels<float>(Backend::serial);
  std::size_t const series_sums = 40'000;
  for (std::size_t const leaves : {1U, 2U, 7U, 64U}) {
    auto const without = Levels(*kernels, std::vector{layer}, strips, leaves).bytes();
    auto const with = Levels(*kernels, std::vector{layer}, strips, leaves, series_sums);
    auto const more = Levels::max_bytes_of_series(*kernels, series_sums, leaves);
    EXPECT_GE(with.bytes(), more);
    EXPECT_LE(with.bytes(), without + more);
    for (std::size_t few = 1; few <= leaves; ++few) {
      auto const levels = with.of_series(30'000, 10'000, few);
      EXPECT_LE(size_of_levels(30'000, levels.weights.num_leaves, levels.weights.leaves_per_run),
                levels.weights.sums.size());
      EXPECT_LE(size_of_levels(10'000, levels.bias.num_leaves, levels.bias.leaves_per_run), levels.bias.sums.size());
    }
  }
}

TEST(LeafLevels, TakeNoMoreMemoryForGroupsThanPlanned) {
  using Levels = LeafLevels<float>;
  auto const kernels = kernels_of_device<float>();
  bool const is_host = kernels->memory().is_host();
  RandomStream random(13, 5);
  for (int trial = 0; trial < 20; ++trial) {
    auto const layer = draw_layer(random, trial % 2 == 0);
    LayerStrips const strips(std::vector{layer}, kWholeLayers);
    auto const& whole = strips.of(0, LayerUse::Direction::backward).front();
    std::size_t const leaves = 1 + random.below(70);
    auto const of_layer = Levels::max_bytes(*kernels, layer, kWholeLayers, leaves);
    for (std::size_t const max_layers : {1U, 3U, 500U}) {
      Levels const all(*kernels, std::vector{layer}, strips, leaves, 0, max_layers);
      EXPECT_LE(all.bytes(), Levels::max_bytes_of_groups(*kernels, max_layers, of_layer));
      EXPECT_LE(all.group_layers(), max_layers);
      EXPECT_TRUE(!is_host || all.group_layers() == 1U);
      if (!is_host && of_layer < (1U << 20U)) {
        EXPECT_GE(all.group_layers(), std::min(max_layers, std::size_t(32)));
      }
      for (std::size_t few = 1; few <= leaves; ++few) {
        std::size_t const num_sums = all.of(layer, whole, few).weights.num_sums;
        auto levels = all.of(layer, whole, few);
        levels.weights.num_sums = all.group_layers() * num_sums;
        levels.bias.num_sums = all.group_layers() * layer.num_outputs;
        EXPECT_LE(size_of_levels(levels.weights.num_sums, levels.weights.num_leaves, levels.weights.leaves_per_run),
                  levels.weights.sums.size());
        EXPECT_LE(size_of_levels(levels.bias.num_sums, levels.bias.num_leaves, levels.bias.leaves_per_run),
                  levels.bias.sums.size());
      }
    }
  }
}

} // namespace
} // namespace varve
