#pragma once

#include "formats/device_layer.hpp"
#include "passes/edge_order.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace varve {

/// Sliced ELL of blocks. A block is `BlockOutputs` outputs (one output: plain sliced ELL; several: pattern blocks) with
/// one list of inputs, the union of theirs, so that each input is read once for all of them; an edge that an output
/// lacks has weight 0 there. `SliceWidth` neighbouring blocks form a slice; their lists are padded to the longest of
/// them, in chunks of `ChunkSize` edges. Within a slice a chunk is stored in pieces of at most 16 bytes, block by
/// block, so that the threads that work on a slice read adjacent pieces. Padding has weight 0, and reads what a block
/// beside it reads in the same step, which costs nothing where banks can conflict. Weights 0 change no sum of finite
/// activations. Order of edges within an output: as they are in the matrix.
/// After Hidayetoglu et al. 2020 (slices, compact indices); blocks and interleaved pieces are ours.
/// Index: std::uint16_t where the inputs fit, else std::uint32_t.
template <class ExecutionSpace, class Scalar_, class Index_, int SliceWidth, int ChunkSize, int BlockOutputs>
struct SlicedEll {
  using Format = SlicedEll;
  using Scalar = Scalar_;
  using Index = Index_;
  static constexpr int slice_width = SliceWidth;
  static constexpr int chunk_size = ChunkSize;
  static constexpr int block_outputs = BlockOutputs;

  /// Elements per piece of a chunk that holds `per_chunk` elements of a block.
  template <class Element>
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int piece_size(int per_chunk) {
    constexpr int most = static_cast<int>(16 / sizeof(Element));
    return per_chunk < most ? per_chunk : most;
  }

  /// Place of an element of a block within the chunk of a slice that holds `per_chunk` elements of each block.
  template <class Element>
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int place_of(int per_chunk, int block_in_slice, int element) {
    int const per_piece = piece_size<Element>(per_chunk);
    return (element / per_piece * SliceWidth + block_in_slice) * per_piece + element % per_piece;
  }

  /// What a kernel needs of the layer: trivial to copy, valid as long as the format it is from.
  struct Edges {
    static constexpr int edges_at_a_time = std::min(ChunkSize, BlockOutputs == 1 ? 2 : 4);

    LayerParameters<Scalar> parameters;
    std::uint32_t const* slice_chunks; ///< first chunk of each slice, and the end
    Index const* indices;              ///< [chunk][place_of(ChunkSize, block in slice, edge)]
    Scalar const*
        weights;          ///< [chunk][place_of(ChunkSize * BlockOutputs, block in slice, edge * BlockOutputs + output)]
    int chunks_per_slice; ///< if all slices have the same number, else 0

    KOKKOS_FORCEINLINE_FUNCTION int num_blocks() const {
      return (parameters.num_outputs + BlockOutputs - 1) / BlockOutputs;
    }

    /// A chunk of the edges of one output, in registers.
    struct Chunk {
      Index inputs[ChunkSize];
      Scalar weights[ChunkSize];
    };

    /// First chunk of a block, and the end.
    KOKKOS_FORCEINLINE_FUNCTION Kokkos::pair<std::uint32_t, std::uint32_t> chunks_of(int block) const {
      auto const slice = static_cast<std::uint32_t>(block / SliceWidth);
      auto const uniform = static_cast<std::uint32_t>(chunks_per_slice);
      if (uniform > 0) return {slice * uniform, slice * uniform + uniform};
      return {slice_chunks[slice], slice_chunks[slice + 1]};
    }

    /// One of them, of a format of single outputs.
    KOKKOS_FORCEINLINE_FUNCTION Chunk chunk_of(int output, std::uint32_t number) const {
      static_assert(BlockOutputs == 1);
      std::size_t const place = static_cast<std::size_t>(number) * SliceWidth * ChunkSize;
      int const block_in_slice = output % SliceWidth;
      Chunk chunk;
      load_pieces<Index>(chunk.inputs, indices + place, block_in_slice);
      load_pieces<Scalar>(chunk.weights, weights + place, block_in_slice);
      return chunk;
    }

    /// Calls visit(inputs, weights_of) for every edges_at_a_time edges of a block, in order, padding included:
    /// inputs[e] is the input of edge e, weights_of(e)[output] its weight for an output of the block.
    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION void for_each_edges(int block, Visit const& visit) const {
      int const block_in_slice = block % SliceWidth;
      auto const chunks = chunks_of(block);
      for (std::uint32_t chunk = chunks.first; chunk < chunks.second; ++chunk) {
        std::size_t const place = static_cast<std::size_t>(chunk) * SliceWidth * ChunkSize;
        visit_chunk(indices + place, weights + place * BlockOutputs, block_in_slice, visit);
      }
    }

  private:
    template <class Element, int Size>
    struct alignas(sizeof(Element) * Size) Piece {
      Element at[Size];
    };
    struct BlockWeights {
      Scalar at[BlockOutputs];
      KOKKOS_FORCEINLINE_FUNCTION Scalar operator[](int output) const { return at[output]; }
    };

    /// The elements of a block in a chunk that holds ChunkSize of each block.
    template <class Element>
    KOKKOS_FORCEINLINE_FUNCTION static void load_pieces(Element (&elements)[ChunkSize], Element const* chunk,
                                                        int block_in_slice) {
      constexpr int per_piece = piece_size<Element>(ChunkSize);
      auto const* const pieces = reinterpret_cast<Piece<Element, per_piece> const*>(chunk) + block_in_slice;
      VARVE_UNROLL
      for (int piece = 0; piece < ChunkSize / per_piece; ++piece) {
        auto const loaded = pieces[piece * SliceWidth];
        VARVE_UNROLL
        for (int i = 0; i < per_piece; ++i) elements[piece * per_piece + i] = loaded.at[i];
      }
    }

    template <class Visit>
    KOKKOS_FORCEINLINE_FUNCTION static void visit_chunk(Index const* index_chunk, Scalar const* weight_chunk,
                                                        int block_in_slice, Visit const& visit) {
      if constexpr (ChunkSize * SliceWidth == 1) { // weights of an edge lie together: no detour through registers
        visit(index_chunk, [&](int) { return weight_chunk; });
      } else {
        Index inputs[ChunkSize];
        load_pieces<Index>(inputs, index_chunk, block_in_slice);
        VARVE_UNROLL
        for (int first = 0; first < ChunkSize; first += edges_at_a_time) {
          visit(inputs + first, [&](int edge) { return load_weights(weight_chunk, block_in_slice, first + edge); });
        }
      }
    }

    /// The weights of one edge of a block. Several edges may share a piece: the compiler loads it once.
    KOKKOS_FORCEINLINE_FUNCTION static BlockWeights load_weights(Scalar const* weight_chunk, int block_in_slice,
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

  Edges edges() const {
    return {frame.parameters(), slice_chunks.data(), indices.data(), weights.data(), chunks_per_slice};
  }

  std::size_t bytes() const {
    return slice_chunks.size() * sizeof(std::uint32_t) + indices.size() * sizeof(Index) +
           weights.size() * sizeof(Scalar) + frame.bytes();
  }

  /// visit(array) for every array on the device.
  template <class Visit>
  void for_each_array(Visit const& visit) {
    frame.for_each_array(visit);
    visit(slice_chunks);
    visit(indices);
    visit(weights);
  }

  LayerFrame<ExecutionSpace, Scalar> frame;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> slice_chunks;
  ConstDeviceArray<ExecutionSpace, Index> indices;
  ConstDeviceArray<ExecutionSpace, Scalar> weights;
  int chunks_per_slice = 0; ///< if all slices have the same number, else 0
  int max_chunks = 0;       ///< of a slice

  int num_outputs() const { return frame.num_outputs; }

  /// A layer in this format, on the host: made by several threads at a time, then moved to the device one by one.
  struct Packed {
    using Format = SlicedEll;
    std::vector<NeuronIndex> order; ///< position -> output; empty: as they are
    std::vector<std::uint32_t> slice_chunks;
    std::vector<Index> indices;
    std::vector<Scalar> weights;
    int max_chunks = 0; ///< of a slice
    bool is_uniform = true;

    std::size_t bytes() const { return indices.size() * sizeof(Index) + weights.size() * sizeof(Scalar); }
  };

  /// Weights stored, zeros included, if the layer were packed in this order.
  static EdgeOffset num_stored(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order) {
    EdgeOffset chunks = 0;
    std::vector<NeuronIndex> inputs;
    for (std::size_t first = 0; first < num_blocks(matrix); first += SliceWidth)
      chunks += longest_list(matrix, order, first, inputs);
    return chunks * SliceWidth * ChunkSize * BlockOutputs;
  }

  /// Packs a valid layer of at most 2^31 - 1 inputs and outputs, whose inputs fit Index. Throws InputError if there are
  /// more chunks than 32 bits count.
  static Packed pack(SparseMatrix const& matrix, std::vector<NeuronIndex> order) {
    Packed packed;
    packed.order = std::move(order);
    std::size_t const blocks = num_blocks(matrix);
    std::size_t const slices = (blocks + SliceWidth - 1) / SliceWidth;
    std::vector<NeuronIndex> inputs;
    packed.slice_chunks.assign(slices + 1, 0);
    for (std::size_t slice = 0; slice < slices; ++slice) {
      auto const chunks = longest_list(matrix, packed.order, slice * SliceWidth, inputs);
      packed.slice_chunks[slice + 1] = in_32_bits(packed.slice_chunks[slice] + chunks, "chunks of edges");
      packed.is_uniform = packed.is_uniform && chunks == packed.slice_chunks[1];
      packed.max_chunks = std::max(packed.max_chunks, static_cast<int>(chunks));
    }
    std::size_t const stored = static_cast<std::size_t>(packed.slice_chunks.back()) * SliceWidth * ChunkSize;
    packed.indices.assign(stored, Index(0));
    packed.weights.assign(stored * BlockOutputs, Scalar(0));
    std::vector<std::size_t> lengths(blocks);
    for (std::size_t block = 0; block < blocks; ++block) lengths[block] = pack_block(matrix, block, packed, inputs);
    for (std::size_t first = 0; first < blocks; first += blocks_at_a_time)
      pad_blocks(first, std::span(lengths).subspan(first, std::min(blocks_at_a_time, blocks - first)), packed);
    return packed;
  }

  SlicedEll() = default;
  template <class Arrays = ArraysOnDevice<ExecutionSpace>>
  SlicedEll(Layer const& layer, Packed const& packed, Arrays&& arrays = Arrays())
      : frame(layer, packed.order, arrays),
        slice_chunks(arrays.put("varve::slice_chunks", packed.slice_chunks)),
        indices(arrays.put("varve::indices", packed.indices)),
        weights(arrays.put("varve::weights", packed.weights)),
        chunks_per_slice(packed.is_uniform ? packed.max_chunks : 0),
        max_chunks(packed.max_chunks) {}

  /// The nonzero weights back (as values of Scalar, one per entry).
  SparseMatrix to_matrix() const {
    auto const chunks_h = download(slice_chunks);
    auto const indices_h = download(indices);
    auto const weights_h = download(weights);
    auto const neurons_h = download(frame.neurons);
    std::vector<std::vector<std::pair<NeuronIndex, double>>> rows(static_cast<std::size_t>(frame.num_outputs));
    for (std::size_t position = 0; position < rows.size(); ++position) {
      std::size_t const block = position / BlockOutputs;
      int const block_in_slice = static_cast<int>(block % SliceWidth);
      int const output = static_cast<int>(position % BlockOutputs);
      auto& row = rows[neurons_h.empty() ? position : neurons_h[position]];
      for (std::size_t chunk = chunks_h[block / SliceWidth]; chunk < chunks_h[block / SliceWidth + 1]; ++chunk) {
        for (int edge = 0; edge < ChunkSize; ++edge) {
          Scalar const weight = weights_h[place_in<Scalar>(chunk, ChunkSize * BlockOutputs, block_in_slice,
                                                           edge * BlockOutputs + output)];
          if (weight != Scalar(0))
            row.emplace_back(indices_h[place_in<Index>(chunk, ChunkSize, block_in_slice, edge)], weight);
        }
      }
    }
    SparseMatrix matrix;
    matrix.num_rows = rows.size();
    matrix.num_columns = static_cast<std::size_t>(frame.num_inputs);
    for (auto const& row : rows) {
      for (auto const& [input, weight] : row) {
        matrix.column_indices.push_back(input);
        matrix.values.push_back(weight);
      }
      matrix.row_pointers.push_back(matrix.column_indices.size());
    }
    return matrix;
  }

private:
  static std::size_t num_blocks(SparseMatrix const& matrix) {
    return (matrix.num_rows + BlockOutputs - 1) / BlockOutputs;
  }

  static std::size_t output_at(std::vector<NeuronIndex> const& order, std::size_t position) {
    return order.empty() ? position : order[position];
  }

  template <class Element>
  static std::size_t place_in(std::size_t chunk, int per_chunk, int block_in_slice, int element) {
    return chunk * static_cast<std::size_t>(SliceWidth * per_chunk) +
           static_cast<std::size_t>(place_of<Element>(per_chunk, block_in_slice, element));
  }

  /// A list that the input lists of all outputs of a block are parts of, in their order: where they ascend, their
  /// union; else one after the other.
  static void list_inputs(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, std::size_t block,
                          std::vector<NeuronIndex>& inputs) {
    std::size_t const last = std::min((block + 1) * BlockOutputs, matrix.num_rows);
    auto const first_list = matrix.row_columns(output_at(order, block * BlockOutputs));
    inputs.assign(first_list.begin(), first_list.end());
    for (std::size_t position = block * BlockOutputs + 1; position < last; ++position) {
      auto const list = matrix.row_columns(output_at(order, position));
      if (std::ranges::equal(list, inputs)) continue;
      if (!std::ranges::is_sorted(list) || !std::ranges::is_sorted(inputs)) {
        inputs.insert(inputs.end(), list.begin(), list.end());
        continue;
      }
      std::vector<NeuronIndex> merged;
      std::ranges::set_union(inputs, list, std::back_inserter(merged));
      inputs.swap(merged);
    }
  }

  /// Chunks of the slice that begins with this block.
  static EdgeOffset longest_list(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order,
                                 std::size_t first_block, std::vector<NeuronIndex>& inputs) {
    std::size_t longest = 0;
    for (std::size_t block = first_block; block < std::min(first_block + SliceWidth, num_blocks(matrix)); ++block) {
      list_inputs(matrix, order, block, inputs);
      longest = std::max(longest, inputs.size());
    }
    return (longest + ChunkSize - 1) / ChunkSize;
  }

  /// Gives the length of the block's list.
  static std::size_t pack_block(SparseMatrix const& matrix, std::size_t block, Packed& packed,
                                std::vector<NeuronIndex>& inputs) {
    std::size_t const slice = block / SliceWidth;
    int const block_in_slice = static_cast<int>(block % SliceWidth);
    std::size_t const first_chunk = packed.slice_chunks[slice];
    list_inputs(matrix, packed.order, block, inputs);
    for (std::size_t edge = 0; edge < inputs.size(); ++edge)
      index_at(packed, block, edge) = static_cast<Index>(inputs[edge]);
    std::size_t const last = std::min((block + 1) * BlockOutputs, matrix.num_rows);
    for (std::size_t position = block * BlockOutputs; position < last; ++position) {
      std::size_t const output = output_at(packed.order, position);
      std::size_t edge = 0; // in the block's list, which contains the output's
      for (EdgeOffset entry = matrix.row_pointers[output]; entry < matrix.row_pointers[output + 1]; ++entry, ++edge) {
        while (inputs[edge] != matrix.column_indices[entry]) ++edge;
        int const element = static_cast<int>(edge % ChunkSize * BlockOutputs + position % BlockOutputs);
        packed.weights[place_in<Scalar>(first_chunk + edge / ChunkSize, ChunkSize * BlockOutputs, block_in_slice,
                                        element)] = static_cast<Scalar>(matrix.value(entry));
      }
    }
    return inputs.size();
  }

  /// Blocks of a slice that read side by side.
  static constexpr std::size_t blocks_at_a_time = std::min<std::size_t>(SliceWidth, kOutputsAtATime);

  static Index& index_at(Packed& packed, std::size_t block, std::size_t edge) {
    std::size_t const first_chunk = packed.slice_chunks[block / SliceWidth];
    return packed.indices[place_in<Index>(first_chunk + edge / ChunkSize, ChunkSize,
                                          static_cast<int>(block % SliceWidth), static_cast<int>(edge % ChunkSize))];
  }

  /// Lets padding of these blocks of one slice read what the first of them with an edge there reads, or, past the end
  /// of all, what was read last.
  static void pad_blocks(std::size_t first_block, std::span<std::size_t const> lengths, Packed& packed) {
    std::size_t const slice = first_block / SliceWidth;
    std::size_t const padded = (packed.slice_chunks[slice + 1] - packed.slice_chunks[slice]) * ChunkSize;
    std::size_t const shortest = std::ranges::min(lengths);
    Index input = 0;
    for (std::size_t edge = shortest > 0 ? shortest - 1 : 0; edge < padded; ++edge) {
      auto const reader = std::ranges::find_if(lengths, [&](std::size_t length) { return edge < length; });
      if (reader != lengths.end())
        input = index_at(packed, first_block + static_cast<std::size_t>(reader - lengths.begin()), edge);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i] <= edge) index_at(packed, first_block + i, edge) = input;
      }
    }
  }
};

} // namespace varve
