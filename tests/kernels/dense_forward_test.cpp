#include "engine/random_case.hpp"
#include "formats/dense_blocks.hpp"
#include "formats/sliced_ell.hpp"
#include "kernels/dense_forward.hpp"
#include "kernels/direct_forward.hpp"
#include "kernels/execution_spaces.hpp"
#include "plan/layer_sizes.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace varve::test {

/// What a kernel wrote: activations [slot][output], and whether a slot was stamped.
template <class Scalar>
struct Written {
  std::vector<Scalar> activations;
  std::vector<bool> is_live;
};

constexpr int kStamp = 7;

/// The activation of an output for one sample: the chain over the edges alone, as docs/numerics.md has it.
template <class Scalar>
Scalar expected_activation(Layer const& layer, std::size_t output, std::vector<Scalar> const& inputs,
                           std::size_t first_input) {
  Scalar sum = 0;
  for (EdgeOffset edge = layer.weights.row_pointers[output]; edge < layer.weights.row_pointers[output + 1]; ++edge) {
    auto const weight = static_cast<Scalar>(layer.weights.value(edge));
    sum = std::fma(weight, inputs[first_input + layer.weights.column_indices[edge]], sum);
  }
  auto const bounds = bounds_of<Scalar>(layer.activation);
  double z = static_cast<double>(sum) + layer.bias_of(output);
  if (z < 0.0) z *= bounds.slope;
  return std::fmin(std::fmax(static_cast<Scalar>(z), bounds.lower), bounds.upper) + Scalar(0);
}

/// Runs `launch(space, pass)` on samples [slot][input], which it brings into tiles of this shape.
template <class ExecutionSpace, class Tile, class Launch>
Written<typename Tile::Scalar> run_on_tiles(Layer const& layer, std::vector<typename Tile::Scalar> const& samples,
                                            std::size_t num_samples, Launch const& launch) {
  using Scalar = typename Tile::Scalar;
  constexpr std::size_t tile_samples = Tile::num_samples;
  std::size_t const num_inputs = layer.num_inputs();
  std::size_t const num_outputs = layer.num_outputs();
  std::size_t const slots = (num_samples + 63) / 64 * 64;
  auto const place = [](std::size_t slot, std::size_t neuron, std::size_t num_neurons) {
    return (slot / tile_samples * num_neurons + neuron) * tile_samples + slot % tile_samples;
  };
  std::vector<Scalar> tiles(slots * num_inputs, Scalar(0));
  for (std::size_t slot = 0; slot < num_samples; ++slot) {
    for (std::size_t input = 0; input < num_inputs; ++input)
      tiles[place(slot, input, num_inputs)] = samples[slot * num_inputs + input];
  }
  ExecutionSpace const space;
  auto const previous = upload<ExecutionSpace>("previous", tiles);
  auto const next = upload<ExecutionSpace>("next", std::vector<Scalar>(slots * num_outputs, Scalar(-99)));
  auto const stamps = upload<ExecutionSpace>("stamps", std::vector<int>(slots, 0));
  auto const count = upload<ExecutionSpace>("count", std::vector<int>{static_cast<int>(num_samples)});
  launch(space, LayerPass<Scalar>{
                    previous, Tile::num_samples, {}, next, count, static_cast<int>(num_samples), stamps, kStamp});
  space.fence("dense layer");
  auto const next_h = download(next);
  auto const stamps_h = download(stamps);
  Written<Scalar> written;
  for (std::size_t slot = 0; slot < num_samples; ++slot) {
    for (std::size_t output = 0; output < num_outputs; ++output)
      written.activations.push_back(next_h[place(slot, output, num_outputs)]);
    written.is_live.push_back(stamps_h[slot] == kStamp);
  }
  return written;
}

/// Expects the bits of the chains over the edges alone, and stamps where an activation is not zero.
template <class Scalar>
void expect_chains(Layer const& layer, std::vector<Scalar> const& samples, Written<Scalar> const& written) {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
  std::size_t const num_outputs = layer.num_outputs();
  for (std::size_t slot = 0; slot < written.is_live.size(); ++slot) {
    bool is_live = false;
    for (std::size_t output = 0; output < num_outputs; ++output) {
      Scalar const expected = expected_activation(layer, output, samples, slot * layer.num_inputs());
      ASSERT_EQ(std::bit_cast<Bits>(written.activations[slot * num_outputs + output]), std::bit_cast<Bits>(expected))
          << "sample " << slot << ", output " << output << ": " << expected;
      is_live = is_live || expected != Scalar(0);
    }
    ASSERT_EQ(written.is_live[slot], is_live) << "sample " << slot;
  }
}

/// By the register-tiled kernel, with TeamOutputs / ThreadOutputs * lanes of the tile threads in a team.
template <class ExecutionSpace, class Tile, int BlockOutputs, int ChunkSize, int TeamOutputs = BlockOutputs,
          int ThreadOutputs = 8, int ChunkInputs = ChunkSize, int NumStages = 3>
void expect_of_dense_kernel(Layer const& layer, std::vector<typename Tile::Scalar> const& samples,
                            std::size_t num_samples) {
  SCOPED_TRACE(testing::Message() << "dense kernel, blocks of " << BlockOutputs << ", chunks of " << ChunkSize
                                  << ", teams of " << TeamOutputs << " outputs");
  using Format = DenseBlocks<ExecutionSpace, typename Tile::Scalar, BlockOutputs, ChunkSize>;
  using Team = DenseTeam<TeamOutputs, ThreadOutputs, ChunkInputs, NumStages>;
  using Kernel = DenseForward<ExecutionSpace, Format, Tile, Team, Kokkos::LaunchBounds<>>;
  Format const format(layer, Format::encode(layer.weights));
  auto const written = run_on_tiles<ExecutionSpace, Tile>(layer, samples, num_samples,
                                                          [&](ExecutionSpace const& space, auto const& pass) {
                                                            dense_forward_by(space, Kernel{format.edges(), pass}, 3);
                                                          });
  expect_chains(layer, samples, written);
}

/// By the direct kernel.
template <class ExecutionSpace, class Format, class Scalar>
void expect_of_direct_kernel(Layer const& layer, typename Format::Encoded const& encoded,
                             std::vector<Scalar> const& samples, std::size_t num_samples) {
  SCOPED_TRACE("direct kernel");
  using Tile = typename Tuning<ExecutionSpace, Scalar>::Tile;
  Format const format(layer, encoded);
  auto const written = run_on_tiles<ExecutionSpace, Tile>(
      layer, samples, num_samples,
      [&](ExecutionSpace const& space, auto const& pass) { direct_forward<Tile>(space, format, pass); });
  expect_chains(layer, samples, written);
}

template <class ExecutionSpace, class Scalar>
void expect_all(Layer const& layer, std::vector<Scalar> const& samples, std::size_t num_samples) {
  SCOPED_TRACE(testing::Message() << layer.num_inputs() << " inputs, " << layer.num_outputs() << " outputs, "
                                  << num_samples << " samples, " << sizeof(Scalar) << " bytes");
  constexpr int pack = 16 / static_cast<int>(sizeof(Scalar));
  using Blocks = DenseBlocks<ExecutionSpace, Scalar, 6, 1>;
  expect_of_direct_kernel<ExecutionSpace, Blocks>(layer, Blocks::encode(layer.weights), samples, num_samples);
  if constexpr (kOnHost<ExecutionSpace>) {
    using Singles = SlicedEll<ExecutionSpace, Scalar, std::uint16_t, 1, 1, 1>;
    auto const by_size = order_by_size(layer.weights);
    for (std::size_t const inputs : {1U, 3U, 16U, 200U}) {
      SCOPED_TRACE(testing::Message() << "in ranges of " << inputs << " inputs");
      expect_of_direct_kernel<ExecutionSpace, Singles>(layer, Singles::encode_ranges(layer.weights, by_size, inputs),
                                                       samples, num_samples);
    }
  }
  expect_of_dense_kernel<ExecutionSpace, TileShape<Scalar, pack, 2, 1>, 8, 4>(layer, samples, num_samples);
  expect_of_dense_kernel<ExecutionSpace, TileShape<Scalar, pack, 2, 1>, 16, 4, 4, 4, 8>(layer, samples, num_samples);
  if (ExecutionSpace().concurrency() >= 2) { // teams of two threads: two groups of outputs, or two lanes
    expect_of_dense_kernel<ExecutionSpace, TileShape<Scalar, pack, 2, 1>, 16, 8>(layer, samples, num_samples);
    expect_of_dense_kernel<ExecutionSpace, TileShape<Scalar, pack, 2, 2>, 8, 8>(layer, samples, num_samples);
  }
  if (!kOnHost<ExecutionSpace>) {
    using Tile = TileShape<Scalar, pack, 2, 32 / pack>;
    expect_of_dense_kernel<ExecutionSpace, Tile, 128, 8, 128, 8, 2 * pack>(layer, samples, num_samples);
    expect_of_dense_kernel<ExecutionSpace, Tile, 128, 8, 64, 4, 8 * pack, 2>(layer, samples, num_samples);
  }
}

/// Samples [slot][input], some of whose values are zero, and one in five of which is zero altogether.
template <class Scalar>
std::vector<Scalar> draw_samples(RandomCases& random, std::size_t num_samples, std::size_t num_inputs) {
  std::vector<Scalar> samples(num_samples * num_inputs);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] =
        i / num_inputs % 5 == 3 || random.below(4) == 0 ? Scalar(0) : static_cast<Scalar>(random.real(-1.0, 2.0));
  return samples;
}

template <class ExecutionSpace, class Scalar>
void expect_random_layers() {
  struct Shape {
    std::size_t inputs, outputs, samples;
  };
  RandomCases random(5);
  for (auto const [inputs, outputs, num_samples] : {Shape{1, 1, 1}, Shape{7, 5, 3}, Shape{8, 8, 8}, Shape{33, 17, 64},
                                                    Shape{64, 129, 65}, Shape{130, 40, 130}, Shape{16, 257, 1}}) {
    for (auto const& activation :
         {Activation::clipped_relu(1.5), Activation::identity(), Activation::leaky_relu(0.25), Activation::relu()}) {
      Layer layer;
      layer.weights = random.draw_matrix(outputs, inputs, inputs, 0.5);
      layer.bias.resize(random.below(2) == 0 ? 1 : outputs);
      for (double& bias : layer.bias) bias = random.below(3) == 0 ? 0.0 : random.real(-0.4, 0.1);
      layer.activation = activation;
      expect_all<ExecutionSpace>(layer, draw_samples<Scalar>(random, num_samples, inputs), num_samples);
    }
  }
}

/// A sum that a tiny product below zero makes -0; then comes an input that only a dense layer reads, then other edges.
template <class ExecutionSpace, class Scalar>
void expect_negative_zeros() {
  auto const tiny = static_cast<double>(std::numeric_limits<Scalar>::min());
  auto const as_scalar = static_cast<Scalar>(tiny);
  Scalar const sparse = std::fma(-as_scalar, as_scalar, Scalar(0));
  ASSERT_TRUE(std::signbit(sparse)) << "the chain over the edges alone holds -0";
  ASSERT_FALSE(std::signbit(std::fma(Scalar(0), Scalar(1), sparse))) << "the chain with a zero holds +0";
  for (auto const& activation :
       {Activation::identity(), Activation::relu(), Activation::leaky_relu(0.5), Activation::clipped_relu(1.0)}) {
    for (double const bias : {0.0, -0.0, tiny, -tiny}) {
      Layer layer;
      layer.activation = activation;
      layer.bias = {bias};
      layer.weights.num_columns = 4;
      for (double const last : {0.0, tiny, -tiny, 1.0}) { // outputs that read inputs 0 and 3, not 1 and 2
        layer.weights.column_indices.insert(layer.weights.column_indices.end(), {0, 3});
        layer.weights.values.insert(layer.weights.values.end(), {-tiny, last});
        layer.weights.row_pointers.push_back(layer.weights.column_indices.size());
        ++layer.weights.num_rows;
      }
      std::vector<Scalar> samples;
      for (Scalar const other : {Scalar(1), Scalar(-1), Scalar(0)}) {
        for (Scalar const end : {as_scalar, -as_scalar, Scalar(0), Scalar(-2)})
          samples.insert(samples.end(), {as_scalar, other, -other, end});
      }
      expect_all<ExecutionSpace>(layer, samples, samples.size() / 4);
    }
  }
}

} // namespace varve::test

namespace varve {
namespace {

template <class ExecutionSpace>
class DenseLayers : public testing::Test {};
TYPED_TEST_SUITE(DenseLayers, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(DenseLayers, HaveTheBitsOfChainsOverTheirEdges) {
  test::expect_random_layers<TypeParam, float>();
  test::expect_random_layers<TypeParam, double>();
}

TYPED_TEST(DenseLayers, HaveTheSameBitsWhereSumsAreNegativeZero) {
  test::expect_negative_zeros<TypeParam, float>();
  test::expect_negative_zeros<TypeParam, double>();
}

} // namespace
} // namespace varve
