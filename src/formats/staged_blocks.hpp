#pragma once

#include "formats/sliced_ell.hpp"
#include "passes/output_order.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace varve {

/// Sliced ELL in stages. A stage is a run of whole slices whose outputs together have few distinct inputs. A list per
/// stage holds these inputs once, and edges store 16-bit indices into it. Outputs are ordered so that those that share
/// inputs are neighbours. The edges of an output keep the order of the matrix. After Hidayetoglu et al. 2020.
template <class ExecutionSpace, class Scalar_, int SliceWidth, int ChunkSize, int BlockOutputs>
struct StagedBlocks {
  using Scalar = Scalar_;
  using Index = std::uint16_t;
  using Blocks = SlicedEll<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize, BlockOutputs>;
  static constexpr int block_outputs = BlockOutputs;

  /// The layer as a kernel argument: trivially copyable, valid during the lifetime of the format.
  struct Edges {
    typename Blocks::Edges blocks;                 ///< the edges; their inputs are indices into the list of the stage
    ArrayView<NeuronIndex const> inputs;           ///< the lists of all stages, each ascending
    ArrayView<std::uint32_t const> input_pointers; ///< first input of each stage, then the number of inputs
    ArrayView<int const> block_pointers;           ///< first block of each stage, then the number of blocks
    int num_stages;
    int max_inputs; ///< inputs of the longest list
  };

  Edges edges() const {
    return {blocks.edges(), inputs, input_pointers, block_pointers, static_cast<int>(input_pointers.size()) - 1,
            max_inputs};
  }

  static auto arrays_of(auto& format) {
    return std::tuple_cat(Blocks::arrays_of(format.blocks),
                          std::tie(format.inputs, format.input_pointers, format.block_pointers));
  }

  int num_outputs() const { return blocks.num_outputs(); }

  Blocks blocks;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> inputs;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> input_pointers;
  ConstDeviceArray<ExecutionSpace, int> block_pointers;
  int max_inputs = 0;

  /// A layer in this format, on the host.
  struct Encoded {
    using Format = StagedBlocks;
    typename Blocks::Encoded blocks;
    std::vector<NeuronIndex> inputs;
    std::vector<std::uint32_t> input_pointers;
    std::vector<int> block_pointers;

    std::size_t bytes() const { return blocks.bytes() + inputs.size() * sizeof(NeuronIndex); }
  };

  /// Encodes a valid layer. Each stage must have at most 65536 distinct inputs and, except for the last one, consist of
  /// whole slices. Throws InputError if a stage has more inputs or all stages together more than input_limit, and what
  /// SlicedEll::encode() throws.
  static Encoded encode(SparseMatrix const& matrix, OutputStages stages,
                        EdgeOffset input_limit = std::numeric_limits<std::uint32_t>::max()) {
    Encoded encoded;
    SparseMatrix staged = matrix; // its columns become indices into the lists of the stages
    encoded.input_pointers = {0};
    encoded.block_pointers = {0};
    for (std::size_t stage = 0; stage + 1 < stages.pointers.size(); ++stage) {
      std::vector<NeuronIndex> list;
      for (std::size_t position = stages.pointers[stage]; position < stages.pointers[stage + 1]; ++position) {
        auto const columns = matrix.row_columns(stages.order[position]);
        list.insert(list.end(), columns.begin(), columns.end());
      }
      std::ranges::sort(list);
      list.erase(std::ranges::unique(list).begin(), list.end());
      for (std::size_t position = stages.pointers[stage]; position < stages.pointers[stage + 1]; ++position) {
        auto const output = stages.order[position];
        for (EdgeOffset edge = matrix.row_pointers[output]; edge < matrix.row_pointers[output + 1]; ++edge) {
          auto const place = std::ranges::lower_bound(list, matrix.column_indices[edge]) - list.begin();
          staged.column_indices[edge] = static_cast<NeuronIndex>(place);
        }
      }
      encoded.inputs.insert(encoded.inputs.end(), list.begin(), list.end());
      encoded.input_pointers.push_back(narrowed<std::uint32_t>(
          encoded.inputs.size(), "inputs of all stages of a layer (the format csr has none)", input_limit));
      encoded.block_pointers.push_back(
          narrowed<int>((stages.pointers[stage + 1] + BlockOutputs - 1) / BlockOutputs, "blocks of a layer"));
    }
    encoded.blocks = Blocks::encode(staged, std::move(stages.order));
    return encoded;
  }

  StagedBlocks() = default;
  StagedBlocks(Layer const& layer, Encoded const& encoded, LayerArrays<ExecutionSpace> const& arrays = {})
      : blocks(layer, encoded.blocks, arrays),
        inputs(arrays.put("varve::stage_inputs", encoded.inputs)),
        input_pointers(arrays.put("varve::stage_input_pointers", encoded.input_pointers)),
        block_pointers(arrays.put("varve::stage_block_pointers", encoded.block_pointers)) {
    for (std::size_t stage = 0; stage + 1 < encoded.input_pointers.size(); ++stage) {
      max_inputs =
          std::max(max_inputs, static_cast<int>(encoded.input_pointers[stage + 1] - encoded.input_pointers[stage]));
    }
  }
};

} // namespace varve
