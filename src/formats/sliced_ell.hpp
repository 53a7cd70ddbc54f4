#pragma once

#include "formats/device_layer.hpp"
#include "passes/edge_order.hpp"
#include "passes/output_order.hpp"
#include "plan/device_traits.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace varve {

/// Sliced ELL of blocks. A block is `BlockOutputs` outputs (one output: plain sliced ELL; several: pattern blocks) with
/// one list of inputs, the union of theirs, so that each input is read once for all of them; an output without an edge
/// to an input of the list has weight 0 there. `SliceWidth` neighbouring blocks form a slice. Their lists are padded to
/// the longest of them, in chunks of `ChunkSize` edges. Within a slice a chunk is stored in pieces of at most 16 bytes,
/// block by block, so that the threads of a slice read adjacent pieces. Padding has weight 0 and the input that a
/// neighbouring block reads in the same step, so it causes no bank conflict. Weights 0 change no sum of finite
/// activations. The edges of an output keep the order of the matrix.
/// In formats for the threads of a host, a list may be cut into ranges of inputs: first come the edges of all outputs
/// to the first range, then those to the next, so that a kernel reads few lines of activations at a time. After
/// Hidayetoglu et al. 2020 (slices, compact indices); blocks and interleaved pieces are new here. Index: std::uint16_t
/// if the inputs fit, else std::uint32_t.
template <class ExecutionSpace, class Scalar_, class Index_, int SliceWidth, int ChunkSize, int BlockOutputs>
struct SlicedEll {
  using Format = SlicedEll;
  using Scalar = Scalar_;
  using Index = Index_;
  static constexpr int slice_width = SliceWidth;
  static constexpr int chunk_size = ChunkSize;
  static constexpr int block_outputs = BlockOutputs;
  static constexpr bool may_have_curve = false; ///< on GPUs
  static constexpr bool may_have_ranges = SliceWidth * ChunkSize * BlockOutputs == 1;

  /// Elements per piece of a chunk that holds `per_chunk` elements of a block.
  template <class Element>
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int piece_size(int per_chunk) {
    constexpr int most = static_cast<int>(16 / sizeof(Element));
    return per_chunk < most ? per_chunk : most;
  }

  /// Index of an element of a block within a slice's chunk, which has `per_chunk` elements of each block.
  template <class Element>
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int place_of(int per_chunk, int block_in_slice, int element) {
    int const per_piece = piece_size<Element>(per_chunk);
    return (element / per_piece * SliceWidth + block_in_slice) * per_piece + element % per_piece;
  }

  /// The layer as a kernel argument: trivially copyable, valid during the lifetime of the format.
  struct Edges {
    static constexpr int edges_at_a_time = std::min(ChunkSize, BlockOutputs == 1 ? 2 : 4);

    LayerParameters<Scalar> parameters;
    ArrayView<std::uint32_t const> slice_chunks; ///< first chunk of each slice, then the number of chunks; in ranges of
                                                 ///< inputs: of slice s in range r at [r * num_blocks() + s]
    ArrayView<Index const> indices;              ///< [chunk][place_of(ChunkSize, block in slice, edge)]
    /// [chunk][place_of(ChunkSize * BlockOutputs, block in slice, edge * BlockOutputs + output)]
    ArrayView<Scalar const> weights;
    int chunks_per_slice; ///< chunks of every slice if all have the same number, else 0

    KOKKOS_FORCEINLINE_FUNCTION int num_blocks() const {
      return (parameters.num_outputs + BlockOutputs - 1) / BlockOutputs;
    }

    /// The ranges of inputs into which the lists are cut.
    KOKKOS_FORCEINLINE_FUNCTION int num_ranges() const {
      static_assert(may_have_ranges);
      return parameters.num_outputs == 0 ? 1 : static_cast<int>(slice_chunks.size() - 1) / parameters.num_outputs;
    }

    /// The inputs of a chunk of the edges of one output, in registers. On GPUs two 16-bit indices stay in one register:
    /// unpacked by the compiler, they would use two, with three instructions for each.
    struct ChunkInputs {
      static constexpr bool has_words = ChunkSize * sizeof(Index) % sizeof(std::uint32_t) == 0;
      using Word = std::conditional_t<has_words, std::uint32_t, Index>;
      static constexpr int per_word = sizeof(Word) / sizeof(Index);
      Word words[ChunkSize / per_word];

      KOKKOS_FORCEINLINE_FUNCTION std::uint32_t of(int edge) const {
        if constexpr (per_word == 1) return words[edge];
        return edge % 2 == 0 ? words[edge / 2] & 0xffffU : words[edge / 2] >> 16U;
      }
    };

    /// The chunks [first, second) of a block.
    KOKKOS_FORCEINLINE_FUNCTION Kokkos::pair<std::uint32_t, std::uint32_t> chunks_of(int block) const {
      auto const slice = static_cast<std::uint32_t>(block / SliceWidth);
      auto const uniform = static_cast<std::uint32_t>(chunks_per_slice);
      if (uniform > 0) return {slice * uniform, slice * uniform + uniform};
      return {slice_chunks(slice), slice_chunks(slice + 1)};
    }

    /// Loads the inputs, or the weights, of chunk `number` of an output; only in formats of single outputs.
    KOKKOS_FORCEINLINE_FUNCTION ChunkInputs inputs_of(int output, std::uint32_t number) const {
      static_assert(BlockOutputs == 1);
      ChunkInputs inputs;
      auto const* const chunk = elements_of(indices, place_of_chunk(number), SliceWidth * ChunkSize);
      load_pieces(inputs.words, reinterpret_cast<typename ChunkInputs::Word const*>(chunk), output % SliceWidth);
      return inputs;
    }
    KOKKOS_FORCEINLINE_FUNCTION void load_weights(Scalar (&loaded)[ChunkSize], int output, std::uint32_t number) const {
      load_chunk(loaded, weights, output, number);
    }

    /// Loads, or stores, the numbers of chunk `number` of an output in an array with one number per edge, like
    /// `weights`.
    KOKKOS_FORCEINLINE_FUNCTION static void
    load_chunk(Scalar (&loaded)[ChunkSize], ArrayView<Scalar const> const& array, int output, std::uint32_t number) {
      static_assert(BlockOutputs == 1);
      load_pieces(loaded, elements_of(array, place_of_chunk(number), SliceWidth * ChunkSize), output % SliceWidth);
    }
    KOKKOS_FORCEINLINE_FUNCTION static void
    store_chunk(ArrayView<Scalar> const& array, Scalar const (&numbers)[ChunkSize], int output, std::uint32_t number) {
      static_assert(BlockOutputs == 1);
      constexpr int per_piece = piece_size<Scalar>(ChunkSize);
      auto* const chunk = elements_of(array, place_of_chunk(number), SliceWidth * ChunkSize);
      auto* const pieces = reinterpret_cast<Piece<Scalar, per_piece>*>(chunk) + output % SliceWidth;
      VARVE_UNROLL
      for (int piece = 0; piece < ChunkSize / per_piece; ++piece) {
        Piece<Scalar, per_piece> stored;
        VARVE_UNROLL
        for (int i = 0; i < per_piece; ++i) stored.at[i] = numbers[piece * per_piece + i];
        pieces[piece * SliceWidth] = stored;
      }
    }

    /// Calls visit(inputs, weights_of) for every edges_at_a_time edges of a block, in order, padding included:
    /// inputs[e] is the input of edge e, weights_of(e)[output] its weight for an output of the block.
    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION void for_each_edges(int block, Visit const& visit) const {
      int const block_in_slice = block % SliceWidth;
      auto const chunks = chunks_of(block);
      for (std::uint32_t chunk = chunks.first; chunk < chunks.second; ++chunk) {
        std::size_t const place = static_cast<std::size_t>(chunk) * SliceWidth * ChunkSize;
        visit_chunk(elements_of(indices, place, SliceWidth * ChunkSize),
                    elements_of(weights, place * BlockOutputs, SliceWidth * ChunkSize * BlockOutputs), block_in_slice,
                    visit);
      }
    }

  private:
    KOKKOS_FORCEINLINE_FUNCTION static std::size_t place_of_chunk(std::uint32_t number) {
      return static_cast<std::size_t>(number) * SliceWidth * ChunkSize;
    }

    template <class Element, int Size>
    struct alignas(sizeof(Element) * Size) Piece {
      Element at[Size];
    };
    struct BlockWeights {
      Scalar at[BlockOutputs];
      KOKKOS_FORCEINLINE_FUNCTION Scalar operator[](int output) const { return at[output]; }
    };

    /// Loads a block's elements of a chunk, piece by piece.
    template <class Element, int Count>
    KOKKOS_FORCEINLINE_FUNCTION static void load_pieces(Element (&elements)[Count], Element const* chunk,
                                                        int block_in_slice) {
      constexpr int per_piece = piece_size<Element>(Count);
      auto const* const pieces = reinterpret_cast<Piece<Element, per_piece> const*>(chunk) + block_in_slice;
      VARVE_UNROLL
      for (int piece = 0; piece < Count / per_piece; ++piece) {
        auto const loaded = pieces[piece * SliceWidth];
        VARVE_UNROLL
        for (int i = 0; i < per_piece; ++i) elements[piece * per_piece + i] = loaded.at[i];
      }
    }

    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION static void visit_chunk(Index const* index_chunk, Scalar const* weight_chunk,
                                                        int block_in_slice, Visit const& visit) {
      if constexpr (ChunkSize * SliceWidth == 1) { // the weights of an edge are contiguous: no copy into registers
        visit(index_chunk, [&](int) { return weight_chunk; });
      } else {
        Index inputs[ChunkSize];
        load_pieces(inputs, index_chunk, block_in_slice);
        if constexpr (BlockOutputs == 1) { // all at once: otherwise nvcc would load the numbers of a piece one by one
          Scalar loaded[ChunkSize];
          load_pieces(loaded, weight_chunk, block_in_slice);
          VARVE_UNROLL
          for (int first = 0; first < ChunkSize; first += edges_at_a_time)
            visit(inputs + first, [&](int edge) { return loaded + first + edge; });
        } else {
          VARVE_UNROLL
          for (int first = 0; first < ChunkSize; first += edges_at_a_time)
            visit(inputs + first,
                  [&](int edge) { return weights_of_edge(weight_chunk, block_in_slice, first + edge); });
        }
      }
    }

    /// Loads the weights of one edge of a block. (Several edges may share a piece, which the compiler loads once.)
    KOKKOS_FORCEINLINE_FUNCTION static BlockWeights weights_of_edge(Scalar const* weight_chunk, int block_in_slice,
                                                                    int edge) {
      constexpr int per_piece = piece_size<Scalar>(ChunkSize * BlockOutputs);
      auto const* const pieces = reinterpret_cast<Piece<Scalar, per_piece> const*>(weight_chunk) + block_in_slice;
      BlockWeights loaded;
      VARVE_UNROLL
      for (int output = 0; output < BlockOutputs; output += per_piece < BlockOutputs ? per_piece : BlockOutputs) {
        int const element = edge * BlockOutputs + output;
        auto const piece = pieces[element / per_piece * SliceWidth];
        VARVE_UNROLL
        for (int i = 0; i < (per_piece < BlockOutputs ? per_piece : BlockOutputs); ++i) {
          loaded.at[output + i] = piece.at[element % per_piece + i];
        }
      }
      return loaded;
    }
  };

  Edges edges() const { return {frame.parameters(), slice_chunks, indices, weights, chunks_per_slice}; }

  static auto arrays_of(auto& format) {
    return std::tie(format.frame.bias, format.frame.neurons, format.slice_chunks, format.indices, format.weights);
  }

  LayerFrame<ExecutionSpace, Scalar> frame;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> slice_chunks;
  ConstDeviceArray<ExecutionSpace, Index> indices;
  ConstDeviceArray<ExecutionSpace, Scalar> weights;
  int chunks_per_slice = 0; ///< chunks of every slice if all have the same number, else 0
  int max_chunks = 0;       ///< chunks of the longest slice

  int num_outputs() const { return frame.num_outputs; }

  /// A layer in this format on the host. Several threads encode layers; one copies them to the device, one by one.
  struct Encoded {
    using Format = SlicedEll;
    std::vector<NeuronIndex> order; ///< position -> output; empty: position j holds output j
    std::vector<std::uint32_t> slice_chunks;
    std::vector<Index> indices;
    std::vector<Scalar> weights;
    int max_chunks = 0;     ///< chunks of the longest slice
    bool is_uniform = true; ///< all slices have the same number of chunks

    std::size_t bytes() const { return indices.size() * sizeof(Index) + weights.size() * sizeof(Scalar); }
  };

  static constexpr EllShape shape() {
    return {static_cast<std::size_t>(SliceWidth), static_cast<std::size_t>(ChunkSize),
            static_cast<std::size_t>(BlockOutputs)};
  }

  /// Encodes a valid layer. Throws InputError if an input exceeds Index, or if there are more than chunk_limit chunks.
  static Encoded encode(SparseMatrix const& matrix, std::vector<NeuronIndex> order,
                        EdgeOffset chunk_limit = std::numeric_limits<std::uint32_t>::max()) {
    Encoded encoded;
    encoded.order = std::move(order);
    std::size_t const blocks = count_blocks(matrix, BlockOutputs);
    std::size_t const slices = (blocks + SliceWidth - 1) / SliceWidth;
    std::vector<NeuronIndex> inputs;
    encoded.slice_chunks.assign(slices + 1, 0);
    for (std::size_t slice = 0; slice < slices; ++slice) {
      auto const chunks = chunks_of_slice(matrix, encoded.order, slice * SliceWidth, inputs);
      encoded.slice_chunks[slice + 1] =
          narrowed<std::uint32_t>(encoded.slice_chunks[slice] + chunks, chunks_name, chunk_limit);
      encoded.is_uniform = encoded.is_uniform && chunks == encoded.slice_chunks[1];
      encoded.max_chunks = std::max(encoded.max_chunks, narrowed<int>(chunks, "chunks of a slice"));
    }
    std::size_t const stored = static_cast<std::size_t>(encoded.slice_chunks.back()) * SliceWidth * ChunkSize;
    encoded.indices.assign(stored, Index(0));
    encoded.weights.assign(stored * BlockOutputs, Scalar(0));
    std::vector<std::size_t> lengths(blocks);
    for (std::size_t block = 0; block < blocks; ++block) lengths[block] = encode_block(matrix, block, encoded, inputs);
    for (std::size_t first = 0; first < blocks; first += blocks_at_a_time)
      pad_blocks(first, std::span(lengths).subspan(first, std::min(blocks_at_a_time, blocks - first)), encoded);
    return encoded;
  }

  /// Encodes a valid layer whose edges ascend, in ranges of so many inputs. Throws as encode() does.
  static Encoded encode_ranges(SparseMatrix const& matrix, std::vector<NeuronIndex> order, std::size_t range_inputs) {
    static_assert(may_have_ranges);
    VARVE_REQUIRE(is_ascending(matrix), "ranges of inputs are read in ascending order");
    Encoded encoded;
    encoded.order = std::move(order);
    std::size_t const num_ranges = (matrix.num_columns + range_inputs - 1) / range_inputs;
    std::vector<EdgeOffset> next(matrix.row_pointers.begin(), matrix.row_pointers.end() - 1); // by output
    encoded.slice_chunks.assign(1, 0);
    encoded.indices.reserve(matrix.num_entries());
    encoded.weights.reserve(matrix.num_entries());
    for (std::size_t range = 0; range < num_ranges; ++range) {
      for (std::size_t position = 0; position < matrix.num_rows; ++position) {
        std::size_t const output = output_at(encoded.order, position);
        for (auto& edge = next[output];
             edge < matrix.row_pointers[output + 1] && matrix.column_indices[edge] < (range + 1) * range_inputs;
             ++edge) {
          encoded.indices.push_back(narrowed<Index>(matrix.column_indices[edge], "input of an edge in sliced ELL"));
          encoded.weights.push_back(static_cast<Scalar>(matrix.value(edge)));
        }
        encoded.slice_chunks.push_back(narrowed<std::uint32_t>(encoded.indices.size(), chunks_name));
        auto const length = encoded.slice_chunks.back() - encoded.slice_chunks[encoded.slice_chunks.size() - 2];
        encoded.max_chunks = std::max(encoded.max_chunks, static_cast<int>(length));
      }
    }
    encoded.is_uniform = false;
    return encoded;
  }

  SlicedEll() = default;
  SlicedEll(Layer const& layer, Encoded const& encoded, LayerArrays<ExecutionSpace> const& arrays = {})
      : frame(layer, encoded.order, arrays),
        slice_chunks(arrays.put("varve::slice_chunks", encoded.slice_chunks)),
        indices(arrays.put("varve::indices", encoded.indices)),
        weights(arrays.put("varve::weights", encoded.weights)),
        chunks_per_slice(encoded.is_uniform ? encoded.max_chunks : 0),
        max_chunks(encoded.max_chunks) {}

private:
  static constexpr char const* chunks_name = "chunks of a layer in sliced ELL (the format csr has none)";

  template <class Element>
  static std::size_t place_in(std::size_t chunk, int per_chunk, int block_in_slice, int element) {
    return chunk * static_cast<std::size_t>(SliceWidth * per_chunk) +
           static_cast<std::size_t>(place_of<Element>(per_chunk, block_in_slice, element));
  }

  /// The number of chunks of the slice that begins with this block.
  static EdgeOffset chunks_of_slice(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order,
                                    std::size_t first_block, std::vector<NeuronIndex>& inputs) {
    return (longest_list(matrix, order, BlockOutputs, first_block, SliceWidth, inputs) + ChunkSize - 1) / ChunkSize;
  }

  /// Writes the indices and weights of a block; returns the length of its list of inputs.
  static std::size_t encode_block(SparseMatrix const& matrix, std::size_t block, Encoded& encoded,
                                  std::vector<NeuronIndex>& inputs) {
    std::size_t const slice = block / SliceWidth;
    int const block_in_slice = static_cast<int>(block % SliceWidth);
    std::size_t const first_chunk = encoded.slice_chunks[slice];
    list_inputs(matrix, encoded.order, BlockOutputs, block, inputs);
    for (std::size_t edge = 0; edge < inputs.size(); ++edge)
      index_at(encoded, block, edge) = narrowed<Index>(inputs[edge], "input of an edge in sliced ELL");
    std::size_t const last = std::min((block + 1) * BlockOutputs, matrix.num_rows);
    for (std::size_t position = block * BlockOutputs; position < last; ++position) {
      std::size_t const output = output_at(encoded.order, position);
      std::size_t edge = 0; // index in the block's list, which contains all inputs of the output
      for (EdgeOffset entry = matrix.row_pointers[output]; entry < matrix.row_pointers[output + 1]; ++entry, ++edge) {
        while (inputs[edge] != matrix.column_indices[entry]) ++edge;
        int const element = static_cast<int>(edge % ChunkSize * BlockOutputs + position % BlockOutputs);
        encoded.weights[place_in<Scalar>(first_chunk + edge / ChunkSize, ChunkSize * BlockOutputs, block_in_slice,
                                         element)] = static_cast<Scalar>(matrix.value(entry));
      }
    }
    return inputs.size();
  }

  /// Number of blocks of a slice that read scratch at the same time.
  static constexpr std::size_t blocks_at_a_time = std::min<std::size_t>(SliceWidth, kOutputsAtATime);

  static Index& index_at(Encoded& encoded, std::size_t block, std::size_t edge) {
    std::size_t const first_chunk = encoded.slice_chunks[block / SliceWidth];
    return encoded.indices[place_in<Index>(first_chunk + edge / ChunkSize, ChunkSize,
                                           static_cast<int>(block % SliceWidth), static_cast<int>(edge % ChunkSize))];
  }

  /// Sets the inputs of the padding of these blocks, which belong to one slice: the input that the first block with an
  /// edge in this step reads; past the end of all blocks, the last such input.
  static void pad_blocks(std::size_t first_block, std::span<std::size_t const> lengths, Encoded& encoded) {
    std::size_t const slice = first_block / SliceWidth;
    std::size_t const padded = (encoded.slice_chunks[slice + 1] - encoded.slice_chunks[slice]) * ChunkSize;
    std::size_t const shortest = std::ranges::min(lengths);
    Index input = 0;
    for (std::size_t edge = shortest > 0 ? shortest - 1 : 0; edge < padded; ++edge) {
      auto const reader = std::ranges::find_if(lengths, [&](std::size_t length) { return edge < length; });
      if (reader != lengths.end())
        input = index_at(encoded, first_block + static_cast<std::size_t>(reader - lengths.begin()), edge);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i] <= edge) index_at(encoded, first_block + i, edge) = input;
      }
    }
  }
};

} // namespace varve
