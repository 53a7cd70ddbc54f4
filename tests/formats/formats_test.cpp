#include "engine/random_case.hpp"
#include "formats/counted_layer.hpp"
#include "formats/csr.hpp"
#include "formats/decoded.hpp"
#include "formats/dense_blocks.hpp"
#include "formats/sliced_ell.hpp"
#include "formats/staged_blocks.hpp"
#include "kernels/execution_spaces.hpp"
#include "passes/edge_order.hpp"
#include "passes/output_order.hpp"
#include "radixnet/network.hpp"

#include "plan/choose.hpp"
#include "plan/layer_sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace varve::test {

/// Lists what for_each_edges visits: [block][edge] the input, [block][edge][output] the weight, and how many edges.
template <class ExecutionSpace, class Format>
struct ListEdges {
  using Scalar = typename Format::Scalar;

  typename Format::Edges edges;
  int room; ///< edges per block
  DeviceArray<ExecutionSpace, int> inputs;
  DeviceArray<ExecutionSpace, Scalar> weights;
  DeviceArray<ExecutionSpace, int> counts;

  KOKKOS_FUNCTION void operator()(int block) const {
    int count = 0;
    edges.for_each_edges(block, [&](auto const* some_inputs, auto const& weights_of) {
      for (int edge = 0; edge < Format::Edges::edges_at_a_time; ++edge, ++count) {
        if (count >= room) continue;
        int const place = block * room + count;
        auto const block_weights = weights_of(edge);
        inputs(place) = static_cast<int>(some_inputs[edge]);
        for (int output = 0; output < Format::block_outputs; ++output) {
          weights(place * Format::block_outputs + output) = block_weights[output];
        }
      }
    });
    counts(block) = count;
  }
};

/// What a kernel meets when it goes through a layer.
template <class Scalar>
struct Visits {
  std::vector<int> inputs;
  std::vector<Scalar> weights;
  std::vector<int> counts;
};

template <class ExecutionSpace, class Format>
Visits<typename Format::Scalar> visits_of(Format const& format, int room) {
  auto const edges = format.edges();
  auto const blocks = static_cast<std::size_t>(edges.num_blocks());
  auto const places = blocks * static_cast<std::size_t>(room);
  ListEdges<ExecutionSpace, Format> const list{
      edges, room, DeviceArray<ExecutionSpace, int>("inputs", places),
      DeviceArray<ExecutionSpace, typename Format::Scalar>("weights", places * Format::block_outputs),
      DeviceArray<ExecutionSpace, int>("counts", blocks)};
  Kokkos::parallel_for("list_edges", Kokkos::RangePolicy<ExecutionSpace>(0, edges.num_blocks()), list);
  ExecutionSpace().fence("list edges");
  return {download(list.inputs), download(list.weights), download(list.counts)};
}

/// A matrix as it is after its values were rounded to Scalar, with one value per entry.
template <class Scalar>
SparseMatrix rounded(SparseMatrix matrix) {
  std::vector<double> values(matrix.num_entries());
  for (EdgeOffset entry = 0; entry < values.size(); ++entry)
    values[entry] = static_cast<double>(static_cast<Scalar>(matrix.value(entry)));
  matrix.values = std::move(values);
  return matrix;
}

/// Layers of many shapes and degrees, some of whose outputs share input lists.
inline std::vector<Layer> layers_to_store() {
  std::vector<Layer> layers;
  RandomCases random(11);
  struct Shape {
    std::size_t rows, columns, most;
  };
  for (auto const [rows, columns, most] :
       {Shape{1, 1, 1}, Shape{37, 50, 9}, Shape{64, 64, 64}, Shape{130, 33, 5}, Shape{5, 300, 300}, Shape{20, 20, 0}}) {
    Layer layer;
    layer.weights = random.draw_matrix(rows, columns, most, 1.0);
    layer.bias.resize(rows);
    for (auto& bias : layer.bias) bias = random.real(-1.0, 1.0);
    layers.push_back(std::move(layer));
  }
  RadixNet const network(64, 4, 1);
  for (std::size_t number = 0; number < 4; ++number) layers.push_back(network.layer(number));
  Layer empty;
  empty.weights.num_columns = 7;
  layers.push_back(empty);
  return layers;
}

/// The union of the input lists of the outputs at these positions.
inline std::vector<NeuronIndex> union_of(SparseMatrix const& weights, std::vector<NeuronIndex> const& order,
                                         std::size_t first, std::size_t last) {
  std::vector<NeuronIndex> inputs;
  for (std::size_t position = first; position < last; ++position) {
    auto const list = weights.row_columns(order[position]);
    std::vector<NeuronIndex> merged;
    std::ranges::set_union(inputs, list, std::back_inserter(merged));
    inputs = merged;
  }
  return inputs;
}

/// The weight of an edge, or 0 if there is none.
inline double weight_of(SparseMatrix const& weights, std::size_t output, NeuronIndex input) {
  auto const list = weights.row_columns(output);
  auto const found = std::ranges::lower_bound(list, input);
  if (found == list.end() || *found != input) return 0.0;
  return weights.value(weights.row_pointers[output] + static_cast<EdgeOffset>(found - list.begin()));
}

/// What a block reads in a step: its own list, ascending; past its end, what the first of its neighbours reads there
/// that has an edge; past the end of all, what was read last. 0 if nobody reads anything.
template <class Format>
NeuronIndex input_at(SparseMatrix const& weights, std::vector<NeuronIndex> const& order, std::size_t block,
                     std::size_t edge) {
  constexpr std::size_t together = std::min(Format::slice_width, 4); // blocks
  std::vector<std::vector<NeuronIndex>> lists;
  std::size_t longest = 0;
  for (std::size_t other = block / together * together; other < (block / together + 1) * together; ++other) {
    std::size_t const first = std::min<std::size_t>(other * Format::block_outputs, weights.num_rows);
    lists.push_back(
        union_of(weights, order, first, std::min<std::size_t>(first + Format::block_outputs, weights.num_rows)));
    longest = std::max(longest, lists.back().size());
  }
  auto const& own = lists[block % together];
  if (edge < own.size()) return own[edge];
  if (longest == 0) return 0;
  std::size_t const step = std::min(edge, longest - 1);
  return (*std::ranges::find_if(lists, [&](auto const& list) { return step < list.size(); }))[step];
}

/// Checks one block: its inputs and its padding; weights in place, zeros elsewhere.
template <class Format>
void expect_block(SparseMatrix const& weights, std::vector<NeuronIndex> const& order, std::size_t block,
                  Visits<typename Format::Scalar> const& visits, std::size_t room) {
  using Scalar = typename Format::Scalar;
  std::size_t const first = block * Format::block_outputs;
  std::size_t const last = std::min(first + Format::block_outputs, weights.num_rows);
  auto const inputs = union_of(weights, order, first, last);
  auto const count = static_cast<std::size_t>(visits.counts[block]);
  ASSERT_GE(count, inputs.size());
  ASSERT_LE(count, room);
  ASSERT_EQ(count % Format::chunk_size, 0U);
  for (std::size_t edge = 0; edge < count; ++edge) {
    std::size_t const place = block * room + edge;
    bool const is_padding = edge >= inputs.size();
    auto const input = input_at<Format>(weights, order, block, edge);
    ASSERT_EQ(visits.inputs[place], static_cast<int>(input));
    for (std::size_t output = 0; output < Format::block_outputs; ++output) {
      bool const is_absent = is_padding || first + output >= last;
      double const weight = is_absent ? 0.0 : weight_of(weights, order[first + output], input);
      ASSERT_EQ(visits.weights[place * Format::block_outputs + output], static_cast<Scalar>(weight));
    }
  }
}

template <class ExecutionSpace, class Scalar, class Index, int SliceWidth, int ChunkSize, int BlockOutputs>
void expect_sliced_ell_holds(Layer const& layer, std::vector<NeuronIndex> const& order) {
  using Format = SlicedEll<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize, BlockOutputs>;
  SCOPED_TRACE(::testing::Message() << layer.num_outputs() << " x " << layer.num_inputs() << ", slices of "
                                    << SliceWidth << ", chunks of " << ChunkSize << ", blocks of " << BlockOutputs
                                    << ", " << sizeof(Index) << "-byte indices, " << sizeof(Scalar) << "-byte weights, "
                                    << (order.empty() ? "in" : "out of") << " order");
  SparseMatrix const& weights = layer.weights;
  auto const encoded = Format::encode(weights, order);
  Format const format(layer, encoded);
  EXPECT_EQ(decoded(format), rounded<Scalar>(weights));
  EXPECT_EQ(format.weights.size(), num_stored(ell_size(weights, order, Format::shape()), Format::shape()));
  EXPECT_EQ(format.indices.size() * BlockOutputs, format.weights.size());
  EXPECT_GE(bytes_on_device(format), format.indices.size() * sizeof(Index) + format.weights.size() * sizeof(Scalar));

  auto positions = order;
  if (positions.empty()) {
    positions.resize(weights.num_rows);
    std::iota(positions.begin(), positions.end(), 0U);
  }
  std::uint32_t chunk_limit = 0;
  for (std::size_t slice = 0; slice + 1 < encoded.slice_chunks.size(); ++slice)
    chunk_limit = std::max(chunk_limit, encoded.slice_chunks[slice + 1] - encoded.slice_chunks[slice]);
  auto const room = static_cast<std::size_t>(chunk_limit) * ChunkSize;
  auto const visits = visits_of<ExecutionSpace>(format, static_cast<int>(room));
  ASSERT_EQ(visits.counts.size(), (weights.num_rows + BlockOutputs - 1) / BlockOutputs);
  for (std::size_t block = 0; block < visits.counts.size(); ++block)
    expect_block<Format>(weights, positions, block, visits, room);

  auto const bias = download(format.frame.bias);
  for (std::size_t position = 0; position < weights.num_rows && layer.bias.size() > 1; ++position)
    EXPECT_EQ(bias[position], layer.bias[positions[position]]);
}

/// In the order of the layer and with equal lists brought together.
template <class ExecutionSpace, class Scalar, class Index, int SliceWidth, int ChunkSize, int BlockOutputs>
void expect_sliced_ell_holds_layers() {
  for (auto const& layer : layers_to_store()) {
    expect_sliced_ell_holds<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize, BlockOutputs>(layer, {});
    auto const order = order_by_input_list(layer.weights, BlockOutputs);
    if (order.empty()) continue;
    expect_sliced_ell_holds<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize, BlockOutputs>(layer, order);
  }
}

/// Stages hold all outputs, whole slices each but the last, and never more inputs than allowed.
template <class ExecutionSpace, class Scalar, int SliceWidth, int ChunkSize, int BlockOutputs>
void expect_staged_blocks_hold_layers() {
  using Format = StagedBlocks<ExecutionSpace, Scalar, SliceWidth, ChunkSize, BlockOutputs>;
  int num_encoded = 0;
  for (auto const& layer : layers_to_store()) {
    for (std::size_t const max_inputs : {16U, 40U, 1000U}) {
      auto stages = find_stages(layer.weights, SliceWidth * BlockOutputs, max_inputs, 32, 0.0);
      if (!stages) continue;
      ++num_encoded;
      auto const encoded = Format::encode(layer.weights, std::move(*stages));
      Format const format(layer, encoded);
      EXPECT_EQ(decoded(format), rounded<Scalar>(layer.weights));
      EXPECT_LE(format.max_inputs, static_cast<int>(max_inputs));
      EXPECT_EQ(encoded.block_pointers.size(), encoded.input_pointers.size());
      EXPECT_EQ(encoded.block_pointers.back(), format.edges().blocks.num_blocks());
      for (std::size_t stage = 0; stage + 1 < encoded.block_pointers.size(); ++stage) {
        EXPECT_EQ(encoded.block_pointers[stage] % SliceWidth, 0);
        auto const first = encoded.inputs.begin() + encoded.input_pointers[stage];
        auto const last = encoded.inputs.begin() + encoded.input_pointers[stage + 1];
        EXPECT_TRUE(std::ranges::is_sorted(first, last, std::ranges::less_equal())); // no input twice
      }
      EXPECT_GE(bytes_on_device(format), encoded.bytes());
    }
  }
  EXPECT_GT(num_encoded, 8);
}

/// Every block visits every input once, ascending, with zeros where there is no edge.
template <class ExecutionSpace, class Scalar, int BlockOutputs, int ChunkSize>
void expect_dense_blocks_hold_layers() {
  using Format = DenseBlocks<ExecutionSpace, Scalar, BlockOutputs, ChunkSize>;
  for (auto const& layer : layers_to_store()) {
    SparseMatrix const& weights = layer.weights;
    SCOPED_TRACE(::testing::Message() << layer.num_outputs() << " x " << layer.num_inputs());
    auto const encoded = Format::encode(weights);
    Format const format(layer, encoded);
    EXPECT_EQ(decoded(format), rounded<Scalar>(weights));
    EXPECT_EQ(format.weights.size(), num_stored_densely(weights, Format::shape()));
    EXPECT_EQ(encoded.bytes(), format.weights.size() * sizeof(Scalar));
    EXPECT_GT(format.frame.neurons.size() + 1, format.edges().num_blocks() * std::size_t(BlockOutputs));
    auto const visits = visits_of<ExecutionSpace>(format, static_cast<int>(weights.num_columns));
    for (std::size_t block = 0; block < visits.counts.size(); ++block) {
      ASSERT_EQ(visits.counts[block], static_cast<int>(weights.num_columns));
      for (std::size_t input = 0; input < weights.num_columns; ++input) {
        std::size_t const place = block * weights.num_columns + input;
        ASSERT_EQ(visits.inputs[place], static_cast<int>(input));
        for (std::size_t output = 0; output < BlockOutputs; ++output) {
          std::size_t const row = block * BlockOutputs + output;
          double const weight = row < weights.num_rows ? weight_of(weights, row, static_cast<NeuronIndex>(input)) : 0.0;
          ASSERT_EQ(visits.weights[place * BlockOutputs + output], static_cast<Scalar>(weight));
        }
      }
    }
  }
}

/// An output's weights for neighbouring inputs lie side by side, `PieceInputs` of them.
template <class ExecutionSpace, class Scalar, int BlockOutputs, int ChunkSize, int PieceInputs>
void expect_dense_pieces_hold_layers() {
  using Format = DenseBlocks<ExecutionSpace, Scalar, BlockOutputs, ChunkSize, PieceInputs>;
  for (auto const& layer : layers_to_store()) {
    SparseMatrix const& weights = layer.weights;
    SCOPED_TRACE(::testing::Message() << layer.num_outputs() << " x " << layer.num_inputs());
    auto const encoded = Format::encode(weights);
    EXPECT_EQ(decoded(Format(layer, encoded)), rounded<Scalar>(weights));
    ASSERT_EQ(encoded.weights.size(), num_stored_densely(weights, Format::shape()));
    std::size_t const block_size = Format::padded_inputs(weights.num_columns) * BlockOutputs;
    for (std::size_t place = 0; place < encoded.weights.size(); ++place) {
      std::size_t const piece = place % block_size / PieceInputs;
      std::size_t const output = place / block_size * BlockOutputs + piece % BlockOutputs;
      std::size_t const input = piece / BlockOutputs * PieceInputs + place % PieceInputs;
      bool const is_there = output < weights.num_rows && input < weights.num_columns;
      double const weight = is_there ? weight_of(weights, output, static_cast<NeuronIndex>(input)) : 0.0;
      ASSERT_EQ(encoded.weights[place], static_cast<Scalar>(weight)) << "output " << output << ", input " << input;
    }
  }
}

/// A format gives each output's edges back in the order that they have in the layer, ascending or not.
template <class Format>
void expect_order_is_kept(std::vector<NeuronIndex> (*order_of)(SparseMatrix const&)) {
  for (auto layer : layers_to_store()) {
    balance_edges(layer.weights);
    auto const encoded = Format::encode(layer.weights, order_of(layer.weights));
    EXPECT_EQ(decoded(Format(layer, encoded)), rounded<typename Format::Scalar>(layer.weights))
        << layer.num_outputs() << " x " << layer.num_inputs();
  }
}

/// The edges of each list are those to one range of inputs, and all lists together are the layer.
template <class ExecutionSpace, class Scalar, class Index>
void expect_ranges_hold_layers() {
  using Format = SlicedEll<ExecutionSpace, Scalar, Index, 1, 1, 1>;
  for (auto const& layer : layers_to_store()) {
    auto const& weights = layer.weights;
    for (std::size_t const range_inputs : {std::size_t{1}, std::size_t{5}, std::size_t{64}, weights.num_columns}) {
      auto const encoded = Format::encode_ranges(weights, order_by_input_list(weights, 1), range_inputs);
      auto const num_ranges = (weights.num_columns + range_inputs - 1) / range_inputs;
      ASSERT_EQ(encoded.slice_chunks.size(), num_ranges * weights.num_rows + 1);
      for (std::size_t list = 0; list + 1 < encoded.slice_chunks.size(); ++list) {
        for (std::size_t edge = encoded.slice_chunks[list]; edge < encoded.slice_chunks[list + 1]; ++edge)
          ASSERT_EQ(encoded.indices[edge] / range_inputs, list / weights.num_rows) << "edge " << edge;
      }
      Format const format(layer, encoded);
      EXPECT_EQ(format.edges().num_ranges(), weights.num_rows == 0 ? 1 : static_cast<int>(num_ranges));
      EXPECT_EQ(decoded(format), rounded<Scalar>(weights)) << "ranges of " << range_inputs << " inputs";
    }
  }
}

template <class ExecutionSpace>
void expect_every_format_keeps_order() {
  auto const as_they_are = [](SparseMatrix const&) { return std::vector<NeuronIndex>(); };
  expect_order_is_kept<SlicedEll<ExecutionSpace, float, std::uint16_t, 16, 8, 1>>(balance_outputs);
  expect_order_is_kept<SlicedEll<ExecutionSpace, double, std::uint32_t, 1, 1, 1>>(as_they_are);
  expect_order_is_kept<SlicedEll<ExecutionSpace, float, std::uint16_t, 1, 1, 4>>(balance_outputs);
  expect_order_is_kept<SlicedEll<ExecutionSpace, double, std::uint32_t, 16, 8, 8>>(as_they_are);
  int num_changed = 0;
  for (auto layer : layers_to_store()) {
    auto const before = layer.weights;
    balance_edges(layer.weights);
    num_changed += layer.weights == before ? 0 : 1;
    auto const expected = rounded<float>(layer.weights);
    EXPECT_EQ((decoded(Csr<ExecutionSpace, float, std::uint16_t>(layer))), expected);
    using Staged = StagedBlocks<ExecutionSpace, float, 8, 8, 1>;
    auto stages = find_stages(layer.weights, 8, 1000, 32, 0.0);
    ASSERT_TRUE(stages);
    EXPECT_EQ(decoded(Staged(layer, Staged::encode(layer.weights, std::move(*stages)))), expected);
  }
  EXPECT_GE(num_changed, 6);
}

template <class ExecutionSpace, class Scalar, class Index>
void expect_csr_holds_layers() {
  using Format = Csr<ExecutionSpace, Scalar, Index>;
  for (auto const& layer : layers_to_store()) {
    SparseMatrix const& weights = layer.weights;
    Format const format(layer);
    EXPECT_EQ(decoded(format), rounded<Scalar>(weights));
    std::size_t most = 0;
    for (std::size_t output = 0; output < weights.num_rows; ++output)
      most = std::max<std::size_t>(most, weights.row_size(output));
    auto const visits = visits_of<ExecutionSpace>(format, static_cast<int>(most));
    for (std::size_t output = 0; output < weights.num_rows; ++output) {
      auto const inputs = weights.row_columns(output);
      ASSERT_EQ(visits.counts[output], static_cast<int>(inputs.size()));
      for (std::size_t edge = 0; edge < inputs.size(); ++edge) {
        ASSERT_EQ(visits.inputs[output * most + edge], static_cast<int>(inputs[edge]));
        auto const weight = static_cast<Scalar>(weights.value(weights.row_pointers[output] + edge));
        ASSERT_EQ(visits.weights[output * most + edge], weight);
      }
    }
  }
}

} // namespace varve::test

namespace varve {
namespace {

template <class ExecutionSpace>
class Formats : public testing::Test {};
TYPED_TEST_SUITE(Formats, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(Formats, CsrHoldsALayer) {
  test::expect_csr_holds_layers<TypeParam, float, std::uint16_t>();
  test::expect_csr_holds_layers<TypeParam, float, std::uint32_t>();
  test::expect_csr_holds_layers<TypeParam, double, std::uint16_t>();
  test::expect_csr_holds_layers<TypeParam, double, std::uint32_t>();
}

TYPED_TEST(Formats, SlicedEllHoldsALayerForOneThreadPerSlice) {
  test::expect_sliced_ell_holds_layers<TypeParam, float, std::uint16_t, 1, 1, 1>();
  test::expect_sliced_ell_holds_layers<TypeParam, float, std::uint32_t, 1, 8, 1>();
  test::expect_sliced_ell_holds_layers<TypeParam, double, std::uint16_t, 1, 4, 1>();
  test::expect_sliced_ell_holds_layers<TypeParam, double, std::uint32_t, 1, 1, 1>();
}

TYPED_TEST(Formats, SlicedEllHoldsALayerInRangesOfInputs) {
  test::expect_ranges_hold_layers<TypeParam, float, std::uint16_t>();
  test::expect_ranges_hold_layers<TypeParam, double, std::uint32_t>();
}

TYPED_TEST(Formats, SlicedEllHoldsALayerInWideSlices) {
  test::expect_sliced_ell_holds_layers<TypeParam, float, std::uint16_t, 16, 8, 1>();
  test::expect_sliced_ell_holds_layers<TypeParam, float, std::uint32_t, 4, 8, 1>();
  test::expect_sliced_ell_holds_layers<TypeParam, double, std::uint16_t, 2, 8, 1>();
  test::expect_sliced_ell_holds_layers<TypeParam, double, std::uint32_t, 32, 4, 1>();
}

TYPED_TEST(Formats, PatternBlocksHoldALayer) {
  test::expect_sliced_ell_holds_layers<TypeParam, float, std::uint16_t, 1, 1, 4>();
  test::expect_sliced_ell_holds_layers<TypeParam, float, std::uint16_t, 16, 8, 8>();
  test::expect_sliced_ell_holds_layers<TypeParam, float, std::uint32_t, 1, 8, 16>();
  test::expect_sliced_ell_holds_layers<TypeParam, float, std::uint32_t, 4, 8, 2>();
  test::expect_sliced_ell_holds_layers<TypeParam, double, std::uint16_t, 16, 8, 8>();
  test::expect_sliced_ell_holds_layers<TypeParam, double, std::uint32_t, 1, 1, 4>();
}

TYPED_TEST(Formats, StagedBlocksHoldALayer) {
  test::expect_staged_blocks_hold_layers<TypeParam, float, 1, 1, 1>();
  test::expect_staged_blocks_hold_layers<TypeParam, float, 8, 8, 1>();
  test::expect_staged_blocks_hold_layers<TypeParam, double, 1, 1, 4>();
}

TYPED_TEST(Formats, DenseBlocksHoldALayer) {
  test::expect_dense_blocks_hold_layers<TypeParam, float, 6, 1>();
  test::expect_dense_blocks_hold_layers<TypeParam, double, 8, 4>();
  test::expect_dense_blocks_hold_layers<TypeParam, float, 128, 8>();
  test::expect_dense_pieces_hold_layers<TypeParam, float, 8, 8, 4>();
  test::expect_dense_pieces_hold_layers<TypeParam, double, 8, 8, 2>();
}

TYPED_TEST(Formats, KeepTheOrderOfEdges) { test::expect_every_format_keeps_order<TypeParam>(); }

TEST(BoundsOfActivations, AreThoseOfTheFunctions) {
  constexpr float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(bounds_of<float>(Activation::identity()).lower, -largest);
  EXPECT_EQ(bounds_of<float>(Activation::identity()).upper, largest);
  EXPECT_EQ(bounds_of<float>(Activation::relu()).lower, 0.0F);
  EXPECT_EQ(bounds_of<float>(Activation::relu()).upper, largest);
  EXPECT_EQ(bounds_of<float>(Activation::clipped_relu(0.1)).lower, 0.0F);
  EXPECT_EQ(bounds_of<float>(Activation::clipped_relu(0.1)).upper, 0.1F);
  EXPECT_EQ(bounds_of<double>(Activation::clipped_relu(0.1)).upper, 0.1);
  EXPECT_EQ(bounds_of<float>(Activation::clipped_relu(1e39)).upper, largest);
  EXPECT_EQ(bounds_of<double>(Activation::clipped_relu(1e39)).upper, 1e39);
}

/// The sentence of the error that encoding ends with.
std::string sentence_of(std::function<void()> const& encode) {
  try {
    encode();
    return "no error";
  } catch (InputError const& error) {
    return error.what();
  }
}

TEST(CountsOfFormats, AreCheckedWhereLayersAreEncoded) { // with limits that small layers reach
  using Space = Kokkos::DefaultHostExecutionSpace;
  using Ell = SlicedEll<Space, float, std::uint16_t, 1, 1, 1>;
  using Staged = StagedBlocks<Space, float, 1, 1, 1>;
  SparseMatrix const matrix{3, 2, {0, 2, 4, 6}, {0, 1, 0, 1, 0, 1}, {1, 2, 3, 4, 5, 6}};
  OutputStages const stages{{0, 1, 2}, {0, 2, 3}};
  EXPECT_EQ(sentence_of([&] { Ell::encode(matrix, {}, 6); }), "no error");
  EXPECT_EQ(sentence_of([&] { Ell::encode(matrix, {}, 5); }),
            "chunks of a layer in sliced ELL (the format csr has none): found 6, expected at most 5");
  EXPECT_EQ(sentence_of([&] { Staged::encode(matrix, stages, 4); }), "no error");
  EXPECT_EQ(sentence_of([&] { Staged::encode(matrix, stages, 3); }),
            "inputs of all stages of a layer (the format csr has none): found 4, expected at most 3");
}

TEST(CountsOfFormats, InputsThatAnIndexCannotHoldAreRefused) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  using Narrow = SlicedEll<Space, float, std::uint16_t, 2, 4, 1>;
  using Blocks = SlicedEll<Space, float, std::uint16_t, 1, 1, 4>;
  using Wide = SlicedEll<Space, float, std::uint32_t, 2, 4, 1>;
  using Staged = StagedBlocks<Space, float, 1, 1, 1>;
  Layer layer;
  layer.bias = {0.0};
  layer.weights = {1, 65537, {0, 2}, {3, 65535}, {1.0, 2.0}};
  EXPECT_EQ(sentence_of([&] { Narrow::encode(layer.weights, {}); }), "no error") << "65535 fits";
  EXPECT_EQ(sentence_of([&] { Csr<Space, float, std::uint16_t>{layer}; }), "no error");
  layer.weights.column_indices[1] = 65536;
  std::string const in_ell = "input of an edge in sliced ELL: found 65536, expected at most 65535";
  EXPECT_EQ(sentence_of([&] { Narrow::encode(layer.weights, {}); }), in_ell);
  EXPECT_EQ(sentence_of([&] { Blocks::encode(layer.weights, {}); }), in_ell);
  EXPECT_EQ(sentence_of([&] { Wide::encode(layer.weights, {}); }), "no error");
  EXPECT_EQ(sentence_of([&] { Csr<Space, float, std::uint16_t>{layer}; }),
            "input of an edge in CSR: found 65536, expected at most 65535");
  EXPECT_EQ(sentence_of([&] { Csr<Space, float, std::uint32_t>{layer}; }), "no error");
  SparseMatrix full{1, 65537, {0, 65537}, {}, {1.0}};
  for (NeuronIndex input = 0; input < 65537; ++input) full.column_indices.push_back(input);
  EXPECT_EQ(sentence_of([&] { Staged::encode(full, {{0}, {0, 1}}); }), in_ell) << "a stage with too many inputs";
}

TEST(CountsOfFormats, DegreesThatAByteCannotCountAreRefused) {
  using Counted = CountedLayer<Kokkos::DefaultHostExecutionSpace, float>;
  Layer layer;
  layer.bias = {0.0};
  layer.weights = {1, 300, {0, 255}, {}, {1.0}};
  for (NeuronIndex input = 0; input < 255; ++input) layer.weights.column_indices.push_back(input);
  EXPECT_EQ(sentence_of([&] { Counted{layer}; }), "no error");
  layer.weights.column_indices.push_back(255);
  layer.weights.row_pointers[1] = 256;
  EXPECT_EQ(sentence_of([&] { Counted{layer}; }),
            "edges of an output that are counted in a byte: found 256, expected at most 255");
}

} // namespace
} // namespace varve
