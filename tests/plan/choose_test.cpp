#include "plan/choose.hpp"

#include "core/error.hpp"
#include "formats/sliced_ell.hpp"
#include "kernels/stationary_forward.hpp"
#include "passes/edge_order.hpp"
#include "passes/stride_network.hpp"
#include "plan/devices.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Device;

class Choices : public testing::TestWithParam<Device> {
protected:
  LayerChoice choose(Layer const& layer, PlanRequest const& request = {}, std::size_t number = 20) const {
    return LayerChooser(GetParam().traits, request).choose(layer, number).choice;
  }
  bool is_gpu() const { return GetParam().traits.has_stationary; }
};
INSTANTIATE_TEST_SUITE_P(Devices, Choices, testing::ValuesIn(test::all_devices()), [](auto const& info) {
  std::string name = info.param.name;
  for (char& letter : name)
    if (letter == ' ') letter = '_';
  return name;
});

Layer random_layer(std::size_t inputs, std::size_t outputs, double density) {
  RandomNetworkRecipe recipe;
  recipe.widths = {inputs, outputs};
  recipe.density = density;
  recipe.seed = 3;
  return RandomNetwork(recipe).layer(0);
}

/// The last outputs have many times as many edges as the others.
Layer uneven_layer(std::size_t width, double density) {
  Layer layer = random_layer(width, width, density);
  SparseMatrix& matrix = layer.weights;
  for (std::size_t input = 0; input < matrix.num_columns; ++input) {
    matrix.column_indices.push_back(static_cast<NeuronIndex>(input));
    if (matrix.values.size() > 1) matrix.values.push_back(0.5);
  }
  matrix.row_pointers.push_back(matrix.column_indices.size());
  ++matrix.num_rows;
  if (layer.bias.size() > 1) layer.bias.push_back(0.0);
  return layer;
}

TEST_P(Choices, SharedListsMakeBlocks) {
  auto const choice = choose(RadixNet(1024, 4, 1).layer(2));
  EXPECT_EQ(choice.format, FormatName::pattern_blocks);
  EXPECT_EQ(choice.kernel, KernelName::fused);
  EXPECT_EQ(choice.index_bits, 16);
  EXPECT_EQ(choice.num_edges, 1024U * 32);
  EXPECT_EQ(choice.num_stored, 1024U * 32);
  EXPECT_EQ(choice.shape, GetParam().traits.fused_blocks);
}

TEST_P(Choices, RandomListsAreStoredOneByOne) {
  auto const choice = choose(random_layer(1024, 1024, 32.0 / 1024.0));
  EXPECT_EQ(choice.format, FormatName::sliced_ell);
  EXPECT_EQ(choice.kernel, KernelName::fused);
  EXPECT_EQ(choice.fused_tile, FusedTile::small);
  EXPECT_GE(choice.num_stored, choice.num_edges);
}

TEST_P(Choices, RandomListsOfManyEdgesAreInRangesOnHosts) {
  auto const inputs_of_range = [&](std::size_t width, double density) {
    auto const choice = choose(random_layer(width, width, density));
    EXPECT_TRUE(is_gpu() || choice.format == FormatName::sliced_ell);
    return choice.range_inputs;
  };
  auto const& traits = GetParam().traits;
  std::size_t const inputs = traits.range_bytes / traits.direct_tile_samples / traits.scalar_bytes;
  EXPECT_EQ(inputs_of_range(1024, 0.2), is_gpu() ? 0 : inputs);
  EXPECT_EQ(inputs_of_range(1024, 0.01), 0U) << "hardly an edge to each range";
  EXPECT_EQ(inputs_of_range(100, 0.2), 0U) << "all lines fit the L1";
  Layer layer = random_layer(1024, 1024, 0.2);
  balance_edges(layer.weights);
  EXPECT_EQ(choose(layer).range_inputs, 0U) << "edges that do not ascend";
}

TEST_P(Choices, UnevenListsAreRows) {
  PlanRequest request;
  request.kernel = KernelName::direct; // the fused kernel bears padding
  auto const choice = choose(uneven_layer(3000, 0.01), request);
  EXPECT_EQ(choice.format, is_gpu() ? FormatName::csr : FormatName::sliced_ell) << "hosts pad nothing";
  EXPECT_EQ(choice.kernel, KernelName::direct);
  EXPECT_EQ(choice.num_stored, choice.num_edges);
}

TEST_P(Choices, EarlyLayersOfGpusAreStationary) {
  Layer const layer = RadixNet(1024, 1, 1).layer(0);
  EXPECT_EQ(choose(layer, {}, 8).kernel, is_gpu() ? KernelName::stationary : KernelName::fused);
  EXPECT_EQ(choose(layer, {}, 9).kernel, KernelName::fused);
}

TEST_P(Choices, WideLayersAreNotFused) {
  Layer const layer = RadixNet(16384, 1, 1).layer(0);
  auto const choice = choose(layer);
  EXPECT_EQ(choice.kernel, is_gpu() ? KernelName::stationary : KernelName::direct);
  EXPECT_EQ(choice.format, FormatName::pattern_blocks);
  EXPECT_EQ(choice.shape, GetParam().traits.wide_blocks);
  PlanRequest split;
  split.is_split = true;
  EXPECT_NE(choose(RadixNet(1024, 1, 1).layer(0), split).kernel, KernelName::fused) << "one layer a launch";
}

TEST_P(Choices, NarrowLayersOfGpusHaveLargeTiles) {
  EXPECT_EQ(choose(random_layer(256, 256, 0.1)).fused_tile, is_gpu() ? FusedTile::large : FusedTile::small);
  EXPECT_EQ(choose(random_layer(64, 64, 0.5)).fused_tile, is_gpu() ? FusedTile::with_image : FusedTile::small);
  EXPECT_EQ(choose(random_layer(257, 256, 0.1)).fused_tile, FusedTile::small);
  PlanRequest few;
  few.expected_samples = 500;
  if (is_gpu()) { // a GPU computes all of them at the same time in small tiles
    EXPECT_EQ(choose(random_layer(64, 64, 0.5), few).fused_tile, FusedTile::small);
  }
  LayerChooser const chooser(GetParam().traits, {});
  auto const streamed = chooser.streamed(choose(random_layer(64, 64, 0.5)));
  EXPECT_EQ(streamed.fused_tile, is_gpu() ? FusedTile::large : FusedTile::small) << "images are not streamed";
}

TEST_P(Choices, WideRandomLayersAreFusedWhereTilesHaveRoom) {
  auto const random = [](std::size_t width) { return random_layer(width, width, 8.0 / static_cast<double>(width)); };
  auto const& tiles = GetParam().traits.fused_with(FusedTile::wide);
  if (tiles.max_neurons == 0) {
    EXPECT_NE(choose(random(GetParam().traits.fused_with(FusedTile::small).max_neurons + 1)).kernel, KernelName::fused);
    return;
  }
  auto const choice = choose(random(tiles.max_neurons));
  EXPECT_EQ(choice.kernel, KernelName::fused);
  EXPECT_EQ(choice.fused_tile, FusedTile::wide);
  EXPECT_EQ(choice.tile_samples, tiles.tile_samples);
  EXPECT_NE(choose(random(tiles.max_neurons + 1)).kernel, KernelName::fused);
  EXPECT_EQ(choose(random(1025)).fused_tile, FusedTile::wide);
  EXPECT_EQ(choose(random(1024)).fused_tile, FusedTile::small);
  PlanRequest few;
  few.expected_samples = tiles.tiles_at_a_time * tiles.tile_samples;
  EXPECT_EQ(choose(random(tiles.max_neurons), few).kernel, KernelName::fused);
  --*few.expected_samples;
  EXPECT_NE(choose(random(tiles.max_neurons), few).kernel, KernelName::fused) << "teams would be idle";
  PlanRequest split;
  split.is_split = true;
  EXPECT_NE(choose(random(tiles.max_neurons), split).kernel, KernelName::fused) << "one layer a launch";
}

TEST(WideTiles, AreAsWideAsTheScratchOfATeam) {
  EXPECT_EQ(test::device_of("H200 in float").traits.fused_with(FusedTile::wide).max_neurons, 4096U);
  EXPECT_EQ(test::device_of("A100 in float").traits.fused_with(FusedTile::wide).max_neurons, 4096U);
  EXPECT_EQ(test::device_of("V100 in double").traits.fused_with(FusedTile::wide).max_neurons,
            (98304U - 16384) / (4 * sizeof(double)));
  EXPECT_EQ(test::device_of("half an MI250 in float").traits.fused_with(FusedTile::wide).max_neurons, 0U);
}

TEST_P(Choices, FewSamplesAreNotFused) {
  Layer const layer = random_layer(1024, 1024, 0.03);
  PlanRequest request;
  request.expected_samples = 1;
  auto const one = choose(layer, request);
  EXPECT_EQ(one.kernel, is_gpu() ? KernelName::split_output : KernelName::small_batch);
  EXPECT_LE(one.tile_samples, is_gpu() ? 16U : 1U);
  request.expected_samples = 100000;
  EXPECT_EQ(choose(layer, request).kernel, KernelName::fused);
}

TEST_P(Choices, SingleSamplesOfGpusHaveNoIndicesInLayersOfFewGaps) {
  auto const& traits = GetParam().traits;
  if (!is_gpu() || traits.max_single_spread_samples == 0) return; // the small-batch kernel has a test of its own
  bool const has_blocks = traits.max_stored_in_few_dense > 0.0;
  auto const of = [this](std::size_t samples, double density, std::size_t width = 512) {
    PlanRequest request;
    request.expected_samples = samples;
    return choose(random_layer(width, 512, density), request);
  };
  for (std::size_t const samples : {std::size_t(1), traits.max_single_spread_samples}) {
    for (double const density : {0.3, 1.0}) {
      auto const choice = of(samples, density);
      EXPECT_EQ(choice.kernel, KernelName::split_output);
      EXPECT_EQ(choice.tile_samples, 1U);
      EXPECT_EQ(choice.format, has_blocks ? FormatName::dense : FormatName::sliced_ell);
    }
    EXPECT_EQ(of(samples, 0.2).format, FormatName::sliced_ell) << "more zeros than gain";
    EXPECT_EQ(of(samples, 0.2).kernel, KernelName::split_output);
  }
  PlanRequest only_dense;
  only_dense.expected_samples = 1;
  only_dense.formats = {FormatName::dense};
  EXPECT_EQ(choose(random_layer(512, 512, 0.2), only_dense).kernel,
            has_blocks ? KernelName::split_output : KernelName::dense)
      << "asked for";
  EXPECT_EQ(of(traits.max_single_spread_samples + 1, 1.0).format, FormatName::sliced_ell);
  auto const wide = of(1, 1.0, traits.max_spread_bytes / traits.spread_tile_samples / traits.scalar_bytes + 1);
  EXPECT_NE(wide.kernel, KernelName::split_output) << "inputs that do not fit scratch";
}

TEST_P(Choices, FewSamplesOfHostsHaveOutputsSideBySide) {
  if (is_gpu()) {
    PlanRequest forced;
    forced.kernel = KernelName::small_batch;
    EXPECT_EQ(choose(random_layer(512, 512, 0.05), forced).kernel, KernelName::direct) << "no such kernel there";
    return;
  }
  auto const& traits = GetParam().traits;
  std::size_t const tile = traits.few_tile_samples;
  auto const of = [this](std::size_t samples, double density, std::size_t width = 512) {
    PlanRequest request;
    request.expected_samples = samples;
    return choose(random_layer(512, width, density), request);
  };
  for (std::size_t const samples : {std::size_t(1), traits.max_single_samples, tile, 2 * tile}) {
    EXPECT_EQ(of(samples, 0.05).kernel, KernelName::small_batch);
    EXPECT_EQ(of(samples, 0.05).format, FormatName::sliced_ell);
    EXPECT_EQ(of(samples, 0.6).format, FormatName::dense);
    EXPECT_EQ(of(samples, 0.6).shape.block_outputs, traits.few_outputs);
    EXPECT_EQ(of(samples, 0.05).tile_samples, samples <= traits.max_single_samples ? 1U : tile);
    EXPECT_EQ(of(samples, 0.05, 1).kernel, KernelName::small_batch) << "a narrow layer may be padded";
  }
  EXPECT_NE(of(2 * tile + 1, 0.05).kernel, KernelName::small_batch);
  if (traits.few_samples > 2 * tile + 2) { // several threads
    for (std::size_t const samples : {2 * tile + 1, traits.few_samples - 1})
      for (double const density : {0.05, 0.3, 0.6, 1.0})
        EXPECT_EQ(of(samples, density).kernel, KernelName::direct) << samples << " samples, density " << density;
    EXPECT_EQ(of(traits.few_samples, 0.3).kernel, KernelName::fused);
  }
  auto const one = of(1, 0.1);
  EXPECT_LE(one.num_stored, one.num_edges + one.num_edges / 20) << "a slice holds outputs with about as many edges";
  PlanRequest split;
  split.expected_samples = 1;
  split.is_split = true;
  EXPECT_NE(choose(random_layer(512, 512, 0.05), split).kernel, KernelName::small_batch)
      << "ranks exchange after each layer";
  PlanRequest rows;
  rows.expected_samples = 1;
  rows.formats = {FormatName::csr};
  EXPECT_EQ(choose(random_layer(512, 512, 0.05), rows).kernel, KernelName::direct);
  PlanRequest few;
  few.expected_samples = 1;
  EXPECT_EQ(choose(random_layer(70000, 3, 0.001), few).kernel, KernelName::direct) << "indices have 32 bits";
}

TEST_P(Choices, TakeWhatIsAskedFor) {
  Layer const layer = RadixNet(1024, 1, 1).layer(0);
  for (auto const& format : all_formats) {
    if (format.format == FormatName::cones) continue;
    for (auto const& kernel : all_kernels) {
      if (!kernel.can_be_asked_for) continue;
      PlanRequest request;
      request.formats = {format.format};
      request.kernel = kernel.kernel;
      auto const choice = choose(layer, request);
      bool const gives_way = format.format == FormatName::staged_blocks && choice.format == FormatName::sliced_ell;
      EXPECT_TRUE(choice.format == format.format || gives_way) << format.name << " " << kernel.name;
    }
  }
  PlanRequest fused;
  fused.kernel = KernelName::fused;
  EXPECT_EQ(choose(layer, fused, 0).kernel, KernelName::fused);
}

TEST_P(Choices, LayersWithMostEdgesAreDense) {
  auto const format_of = [this](std::size_t width, double density, PlanRequest const& request = {}) {
    return choose(random_layer(width, width, density), request).format;
  };
  auto const& traits = GetParam().traits;
  double const from = traits.range_bytes > 0 ? 0.62 : std::max(0.45, 1.25 / traits.max_stored_in_dense);
  EXPECT_EQ(format_of(512, from), FormatName::dense);
  EXPECT_EQ(format_of(1024, 1.0), FormatName::dense);
  EXPECT_NE(format_of(1024, 0.1), FormatName::dense);
  auto const choice = choose(random_layer(512, 500, 0.6));
  EXPECT_EQ(choice.kernel, is_gpu() ? KernelName::dense : KernelName::fused);
  EXPECT_EQ(choice.shape, traits.dense_shape);
  auto const outputs = choice.shape.block_outputs;
  EXPECT_EQ(choice.num_stored, 512U * ((500U + outputs - 1) / outputs * outputs)) << "zeros and whole blocks";
  EXPECT_EQ(choice.tile_samples, is_gpu() ? 64U : traits.direct_tile_samples);
  EXPECT_EQ(format_of(is_gpu() ? 128 : 256, 1.0), FormatName::dense);
  EXPECT_NE(format_of(is_gpu() ? 64 : 128, 1.0), FormatName::dense) << "launches of narrow layers are long";
  if (is_gpu()) {
    EXPECT_NE(format_of(120, 0.45), FormatName::dense) << "so few edges has a layer of a merged network, too";
  }
  PlanRequest request;
  request.expected_samples = 5;
  EXPECT_EQ(format_of(1024, 1.0, request) == FormatName::dense, !is_gpu())
      << "few samples share a weight, but on a host dense weights spare the loads of inputs one by one";
  request.expected_samples.reset();
  request.kernel = KernelName::direct;
  EXPECT_EQ(format_of(512, 0.8, request), is_gpu() ? FormatName::pattern_blocks : FormatName::dense);
  request.kernel = KernelName::dense;
  EXPECT_EQ(format_of(64, 0.1, request), FormatName::dense) << "asked for";
}

TEST_P(Choices, LayersWithSharedListsAreNotDense) {
  Layer layer = random_layer(512, 512, 1.0); // half of the outputs read the lower inputs, the others the upper ones
  SparseMatrix halves;
  halves.num_rows = halves.num_columns = 512;
  for (std::size_t output = 0; output < 512; ++output) {
    for (std::size_t input = 0; input < 256; ++input) {
      halves.column_indices.push_back(static_cast<NeuronIndex>(input + (output % 2 == 0 ? 0 : 256)));
      halves.values.push_back(0.25 + static_cast<double>(input));
    }
    halves.row_pointers.push_back(halves.column_indices.size());
  }
  layer.weights = halves;
  EXPECT_EQ(choose(layer).format, FormatName::pattern_blocks) << "blocks store half as many weights";
  std::swap(layer.weights.column_indices.front(), layer.weights.column_indices[1]);
  PlanRequest request;
  request.formats = {FormatName::dense};
  EXPECT_EQ(choose(layer, request).format, FormatName::sliced_ell) << "an output has another order of edges";
}

TEST_P(Choices, OfTheFirstLayer) {
  LayerChooser const chooser(GetParam().traits, {});
  auto const way_of = [&](Layer const& layer, std::size_t number) {
    return chooser.choose_first(layer, chooser.choose(layer, number).choice).way;
  };
  EXPECT_EQ(way_of(RadixNet(1024, 1, 1).layer(0), 0), is_gpu() ? FirstLayerInput::own_bits : FirstLayerInput::bits);
  EXPECT_EQ(way_of(random_layer(1024, 1024, 0.03), 0), FirstLayerInput::bits);
  EXPECT_EQ(way_of(uneven_layer(3000, 0.001), 0), is_gpu() ? FirstLayerInput::tiles : FirstLayerInput::bits)
      << "on a GPU a second copy would be padded too much";
  Layer counted = random_layer(1024, 512, 0.002);
  counted.weights.values = {0.5};
  counted.bias = {-0.25};
  EXPECT_EQ(way_of(counted, 0), FirstLayerInput::counts);
  PlanRequest forced;
  forced.kernel = KernelName::fused;
  LayerChooser const other(GetParam().traits, forced);
  EXPECT_EQ(other.choose_first(counted, other.choose(counted, 0).choice).way, FirstLayerInput::tiles);
}

TEST_P(Choices, OfACopyForSamplesWithFewEntries) {
  LayerChooser const chooser(GetParam().traits, {});
  auto const has_copy = [](LayerChooser const& chooser, Layer const& layer) {
    return chooser.choose_entries(layer, chooser.choose(layer, 0).choice).has_value();
  };
  auto const layer = random_layer(4096, 512, 0.002);
  EXPECT_TRUE(has_copy(chooser, layer));
  EXPECT_TRUE(has_copy(chooser, random_layer(4096, 8, 1.0))) << "of a dense layer, too";
  EXPECT_FALSE(has_copy(chooser, random_layer(4096, 513, 0.002))) << "inputs are not eight times as many as outputs";
  EXPECT_FALSE(has_copy(chooser, random_layer(4095, 100, 0.002))) << "inputs are few";
  auto const worth = [&](Layer const& of) {
    return chooser.choose_entries(of, chooser.choose(of, 0).choice)->min_samples;
  };
  EXPECT_GT(worth(layer), 1U);
  EXPECT_LT(worth(layer), worth(random_layer(4096, 512, 0.02))) << "more edges to copy, beside equally many inputs";
  auto other = layer;
  std::swap(other.weights.column_indices[0], other.weights.column_indices[1]);
  EXPECT_FALSE(has_copy(chooser, other)) << "sums in another order";
  PlanRequest in_ell;
  in_ell.formats = {FormatName::sliced_ell};
  EXPECT_FALSE(has_copy(LayerChooser(GetParam().traits, in_ell), layer)) << "a format is asked for";
  PlanRequest direct;
  direct.kernel = KernelName::direct;
  EXPECT_FALSE(has_copy(LayerChooser(GetParam().traits, direct), layer));
}

TEST(StationaryBytes, AreThoseOfTheKernel) {
  using Host = Kokkos::DefaultHostExecutionSpace;
  using Format = SlicedEll<Host, float, std::uint16_t, 1, 1, 16>;
  using Tune = Tuning<Host, float>;
  using Kernel = StationaryForward<Host, Format, typename Tune::StationaryTile, SamplesInOrder>;
  for (int const chunks : {1, 7, 100}) {
    EXPECT_EQ(Kernel::scratch_bytes(chunks),
              stationary_bytes(Format::shape(), static_cast<std::size_t>(Tune::stationary_blocks),
                               static_cast<std::size_t>(chunks), sizeof(float), sizeof(std::uint16_t)));
  }
}

} // namespace
} // namespace varve
