#include "formats/dense_blocks.hpp"
#include "formats/sliced_ell.hpp"
#include "kernels/host_team.hpp"
#include "kernels/split_output_operands.hpp"
#include "reference/training_case.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// A GPU's shapes with small stages, in which a team of threads of the host takes part.
struct SmallStages {
  static constexpr int slice_width = 16;
  static constexpr int chunk_size = 8;
  static constexpr int spread_team_size = 64;
  static constexpr int spread_stage_chunks = 2;
  static constexpr int spread_stages = 3;
  using SpreadBounds = Kokkos::LaunchBounds<>;
};

using test::HostTeamMember;
using Space = Kokkos::Serial;
using Format = SlicedEll<Space, float, std::uint16_t, 16, 8, 1>;

/// Slices of very different lengths, some without edges, so that stages begin and end within slices.
Layer layer_of_uneven_slices() {
  RandomStream random(7, 1);
  Layer layer;
  layer.weights.num_rows = 16 * 9 + 5;
  layer.weights.num_columns = 300;
  for (std::size_t output = 0; output < layer.weights.num_rows; ++output) {
    std::size_t const slice = output / 16;
    std::size_t const most = slice == 2 || slice == 3 ? 0 : slice % 3 == 0 ? 200 : 30 * slice % 50;
    for (std::size_t input = output % 3; input < 300 && layer.weights.num_entries() % 211 < most; input += 2) {
      layer.weights.column_indices.push_back(static_cast<NeuronIndex>(input));
      layer.weights.values.push_back(test::draw_real(random, -1.0, 1.0));
    }
    layer.weights.row_pointers.push_back(layer.weights.num_entries());
  }
  layer.bias = {0.0};
  layer.activation = Activation::relu();
  return layer;
}

/// The operands that a thread got, chunk by chunk, of all slices.
struct Got {
  std::vector<float> weights, values; ///< values: [chunk][edge][sample of the lane]
};

/// Brings the slices [first, last) to num_tiles tiles in a team of threads; returns what each thread with a chain got.
template <class Operands, class Tile>
std::vector<Got> stage(Format const& format, std::vector<float>& tiles, int num_tiles, int first, int last) {
  constexpr int team_size = SmallStages::spread_team_size;
  auto const layer = format.edges();
  std::vector<std::byte> stages(Operands::stages_size + 16);
  auto* const aligned = stages.data() + (16 - reinterpret_cast<std::uintptr_t>(stages.data()) % 16) % 16;
  std::vector<float> values(static_cast<std::size_t>(num_tiles * Operands::values_per_tile));
  SpreadArrays<float> const arrays{ArrayView<std::byte>(aligned, Operands::stages_size),
                                   ArrayView<float>(values.data(), values.size()),
                                   ArrayView<float>(tiles.data(), tiles.size())};
  std::vector<Got> got(static_cast<std::size_t>(num_tiles * 16 * Tile::num_lanes));
  std::barrier<> barrier(team_size);
  auto const first_chunk = layer.chunks_of(first * 16).first;
  auto const work = [&](int rank) {
    HostTeamMember const member(rank, barrier);
    Operands operands(member, layer, first_chunk, layer.chunks_of((last - 1) * 16).second, arrays);
    int const tile = rank / (16 * Tile::num_lanes);
    int const lane = rank % Tile::num_lanes;
    auto const first_byte = static_cast<std::uint32_t>(
        (tile * layer.parameters.num_inputs * Tile::num_samples + Tile::sample_of(lane, 0)) * sizeof(float));
    ChainPlace const place{tile, rank / Tile::num_lanes % 16, lane, first_byte};
    for (int slice = first; slice < last; ++slice) {
      auto const chunks = layer.chunks_of(slice * 16);
      int chunk = static_cast<int>(chunks.first - first_chunk);
      int const end = static_cast<int>(chunks.second - first_chunk);
      while (chunk < end) {
        int const there = operands.stage(member, chunk, end);
        for (; chunk < there; ++chunk) {
          if (static_cast<std::size_t>(rank) >= got.size()) continue;
          ChunkOperands<Format, Tile> loaded;
          int const number = chunk - operands.first_of_part();
          operands.part().load(loaded, place, number, operands.part().inputs_of(place, number));
          auto& own = got[static_cast<std::size_t>(rank)];
          for (int edge = 0; edge < 8; ++edge) {
            own.weights.push_back(loaded.weights[edge]);
            for (float const value : loaded.values[edge][0].lane) own.values.push_back(value);
          }
        }
      }
    }
  };
  std::vector<std::jthread> team;
  for (int rank = 0; rank < team_size; ++rank) team.emplace_back(work, rank);
  team.clear();
  return got;
}

template <class Operands, class Tile>
void expect_what_indices_name(int num_tiles) {
  Layer const layer = layer_of_uneven_slices();
  Format const format(layer, Format::encode(layer.weights, {}));
  auto const edges = format.edges();
  std::vector<float> tiles(static_cast<std::size_t>(num_tiles) * 300 * Tile::num_samples);
  for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = static_cast<float>(i) + 1.0F;
  for (auto const& [first, last] : std::vector<std::pair<int, int>>{{0, 10}, {1, 4}, {2, 4}, {3, 10}, {9, 10}}) {
    SCOPED_TRACE(testing::Message() << num_tiles << " tiles, slices " << first << " to " << last);
    auto const got = stage<Operands, Tile>(format, tiles, num_tiles, first, last);
    for (std::size_t rank = 0; rank < got.size(); ++rank) {
      std::size_t const lane = rank % Tile::num_lanes;
      auto const output = static_cast<int>(rank / Tile::num_lanes % 16);
      std::size_t const tile = rank / (16 * Tile::num_lanes);
      Got expected;
      auto const end = edges.chunks_of((last - 1) * 16).second;
      for (auto chunk = edges.chunks_of(first * 16).first; chunk < end; ++chunk) {
        float weights[8];
        edges.load_weights(weights, output, chunk);
        auto const inputs = edges.inputs_of(output, chunk);
        for (int edge = 0; edge < 8; ++edge) {
          expected.weights.push_back(weights[edge]);
          for (std::size_t i = 0; i < Tile::pack_width; ++i)
            expected.values.push_back(
                tiles[(tile * 300 + inputs.of(edge)) * Tile::num_samples + lane * Tile::pack_width + i]);
        }
      }
      ASSERT_EQ(got[rank].weights, expected.weights) << "thread " << rank;
      ASSERT_EQ(got[rank].values, expected.values) << "thread " << rank;
    }
  }
}

TEST(SpreadOperands, ComeInStages) {
  using Tile = TileShape<float, 4, 1, 2>;
  using Operands = OperandsInStages<Space, Format, Tile, SmallStages>;
  for (int const num_tiles : {1, Operands::max_tiles}) expect_what_indices_name<Operands, Tile>(num_tiles);
}

TEST(SpreadOperands, AreGatheredForOneAndTwoSamples) {
  using Tile = TileShape<float, 1, 1, 1>;
  using Operands = GatheredOperands<Space, Format, Tile, SmallStages>;
  EXPECT_EQ(Operands::max_tiles, 2);
  for (int const num_tiles : {1, 2}) expect_what_indices_name<Operands, Tile>(num_tiles);
}

/// A layer with gaps whose outputs fill no whole number of blocks.
template <class Scalar>
Layer layer_with_gaps(std::size_t num_inputs) {
  RandomStream random(3, 1);
  Layer layer;
  layer.weights.num_rows = 21;
  layer.weights.num_columns = num_inputs;
  for (std::size_t output = 0; output < layer.weights.num_rows; ++output) {
    for (std::size_t input = 0; input < num_inputs; ++input) {
      if ((output * 7 + input * 3) % 5 == 0) continue;
      layer.weights.column_indices.push_back(static_cast<NeuronIndex>(input));
      layer.weights.values.push_back(static_cast<Scalar>(test::draw_real(random, -1.0, 1.0)));
    }
    layer.weights.row_pointers.push_back(layer.weights.num_entries());
  }
  layer.bias = {0.25};
  layer.activation = Activation::identity();
  return layer;
}

/// Computes the layer for `max_samples` samples, of which `num_samples` are in use, by teams of threads of the host.
template <class Scalar>
void expect_chains_over_all_inputs(std::size_t num_inputs, int max_samples, int num_samples) {
  using Tile = TileShape<Scalar, 1, 1, 1>;
  using Dense = DenseBlocks<Space, Scalar, 8, 8, 16 / static_cast<int>(sizeof(Scalar))>;
  using Kernel = SpreadDense<Space, Dense, Tile, SmallStages>;
  SCOPED_TRACE(testing::Message() << num_inputs << " inputs, " << num_samples << " of " << max_samples << " samples");
  Layer const layer = layer_with_gaps<Scalar>(num_inputs);
  Dense const format(layer, Dense::encode(layer.weights));
  auto const samples = static_cast<std::size_t>(max_samples);
  std::size_t const num_outputs = layer.weights.num_rows;
  RandomStream random(4, 1);
  std::vector<Scalar> previous(samples * num_inputs);
  for (auto& number : previous) number = static_cast<Scalar>(test::draw_real(random, -1.0, 1.0));
  constexpr Scalar untouched = -77;
  std::vector<Scalar> next(samples * num_outputs, untouched);
  std::vector<int> stamps(samples, 0);
  LayerPass<Scalar> pass{};
  pass.previous = ArrayView<Scalar const>(previous.data(), previous.size());
  pass.next = ArrayView<Scalar>(next.data(), next.size());
  pass.num_samples = ArrayView<int const>(&num_samples, 1);
  pass.max_samples = max_samples;
  pass.live_stamps = ArrayView<int>(stamps.data(), stamps.size());
  pass.stamp = 5;
  Kernel const kernel(format.edges(), pass);
  auto const size = static_cast<std::size_t>(kernel.scratch_size());
  std::vector<Pack<Scalar, 16 / sizeof(Scalar)>> memory(size * sizeof(Scalar) / 16 + 1);
  ArrayView<Scalar> const scratch(reinterpret_cast<Scalar*>(memory.data()), size);
  std::barrier<> barrier(SmallStages::spread_team_size);
  for (int block = 0; block < format.edges().num_blocks(); ++block) {
    std::vector<std::jthread> team;
    for (int rank = 0; rank < SmallStages::spread_team_size; ++rank)
      team.emplace_back([&, rank] { kernel.compute(HostTeamMember(rank, barrier), block, scratch); });
  }
  for (std::size_t s = 0; s < samples; ++s) {
    bool const is_in_use = static_cast<int>(s) < num_samples;
    EXPECT_EQ(stamps[s], is_in_use ? 5 : 0);
    for (std::size_t output = 0; output < num_outputs; ++output) {
      Scalar sum = 0;
      for (EdgeOffset edge = layer.weights.row_pointers[output]; edge < layer.weights.row_pointers[output + 1]; ++edge)
        sum = std::fma(static_cast<Scalar>(layer.weights.values[edge]),
                       previous[s * num_inputs + layer.weights.column_indices[edge]], sum);
      Scalar const expected = is_in_use ? static_cast<Scalar>(static_cast<double>(sum) + 0.25) : untouched;
      ASSERT_EQ(next[s * num_outputs + output], expected) << "sample " << s << ", output " << output;
    }
  }
}

TEST(SpreadDense, AddsAllInputsInOrderWhateverTheChunks) {
  for (std::size_t const num_inputs : {1U, 8U, 12U, 250U, 256U, 261U, 1100U}) {
    expect_chains_over_all_inputs<float>(num_inputs, 1, 1);
    expect_chains_over_all_inputs<float>(num_inputs, 2, 1);
  }
  expect_chains_over_all_inputs<float>(300, 7, 6);
  expect_chains_over_all_inputs<double>(300, 2, 2);
  expect_chains_over_all_inputs<double>(517, 5, 5);
}

} // namespace
} // namespace varve
