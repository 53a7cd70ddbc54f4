#pragma once

#include "formats/sliced_ell.hpp"
#include "passes/output_order.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace varve {

/// Sliced ELL in stages. A stage is a run of whole slices whose outputs have few distinct inputs between them; these
/// are listed once, and the edges name their places in the list, which 16 bits hold. Outputs are ordered so that those
/// that share inputs are neighbours. Order of edges within an output: as they are in the matrix.
template <class ExecutionSpace, class Scalar_, int SliceWidth, int ChunkSize, int BlockOutputs>
struct StagedBlocks {
  using Scalar = Scalar_;
  using Index = std::uint16_t;
  using Blocks = SlicedEll<ExecutionSpace, Scalar, Index, SliceWidth, ChunkSize, BlockOutputs>;
  static constexpr int block_outputs = BlockOutputs;

  /// What a kernel needs of the layer: trivial to copy, valid as long as the format it is from.
  struct Edges {
    typename Blocks::Edges blocks;       ///< whose inputs are places in the list of the stage
    NeuronIndex const* inputs;           ///< stage by stage, ascending
    std::uint32_t const* input_pointers; ///< first input of each stage, and the end
    int const* block_pointers;           ///< first block of each stage, and the end
    int num_stages;
    int max_inputs; ///< of a stage
  };

  Edges edges() const {
    return {blocks.edges(),
            inputs.data(),
            input_pointers.data(),
            block_pointers.data(),
            static_cast<int>(input_pointers.size()) - 1,
            max_inputs};
  }

  std::size_t bytes() const {
    return blocks.bytes() + inputs.size() * sizeof(NeuronIndex) + input_pointers.size() * sizeof(std::uint32_t) +
           block_pointers.size() * sizeof(int);
  }

  /// visit(array) for every array on the device.
  template <class Visit>
  void for_each_array(Visit const& visit) {
    blocks.for_each_array(visit);
    visit(inputs);
    visit(input_pointers);
    visit(block_pointers);
  }

  int num_outputs() const { return blocks.num_outputs(); }

  Blocks blocks;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> inputs;
  ConstDeviceArray<ExecutionSpace, std::uint32_t> input_pointers;
  ConstDeviceArray<ExecutionSpace, int> block_pointers;
  int max_inputs = 0;

  /// A layer in this format, on the host.
  struct Packed {
    using Format = StagedBlocks;
    typename Blocks::Packed blocks;
    std::vector<NeuronIndex> inputs;
    std::vector<std::uint32_t> input_pointers;
    std::vector<int> block_pointers;

    std::size_t bytes() const { return blocks.bytes() + inputs.size() * sizeof(NeuronIndex); }
  };

  /// Packs a valid layer in stages of at most `max_inputs` distinct inputs (65536 or fewer) and about `max_outputs`
  /// outputs. Nothing if a slice has more inputs than that, or if on average an input is used by fewer than `min_uses`
  /// edges of its stage: then reading it from memory each time costs no more than staging it.
  static std::optional<Packed> pack(SparseMatrix const& matrix, std::size_t max_inputs, std::size_t max_outputs,
                                    double min_uses) {
    constexpr std::size_t unit = std::size_t(SliceWidth) * BlockOutputs;
    auto stages = find_stages(matrix, unit, max_inputs, max_outputs, min_uses);
    if (!stages) return std::nullopt;
    Packed packed;
    SparseMatrix staged = matrix; // with places in the stages' lists for inputs
    packed.input_pointers = {0};
    packed.block_pointers = {0};
    for (std::size_t stage = 0; stage + 1 < stages->pointers.size(); ++stage) {
      std::vector<NeuronIndex> list;
      for (std::size_t position = stages->pointers[stage]; position < stages->pointers[stage + 1]; ++position) {
        auto const columns = matrix.row_columns(stages->order[position]);
        list.insert(list.end(), columns.begin(), columns.end());
      }
      std::ranges::sort(list);
      list.erase(std::ranges::unique(list).begin(), list.end());
      for (std::size_t position = stages->pointers[stage]; position < stages->pointers[stage + 1]; ++position) {
        auto const output = stages->order[position];
        for (EdgeOffset edge = matrix.row_pointers[output]; edge < matrix.row_pointers[output + 1]; ++edge) {
          auto const place = std::ranges::lower_bound(list, matrix.column_indices[edge]) - list.begin();
          staged.column_indices[edge] = static_cast<NeuronIndex>(place);
        }
      }
      packed.inputs.insert(packed.inputs.end(), list.begin(), list.end());
      packed.input_pointers.push_back(in_32_bits(packed.inputs.size(), "inputs of stages"));
      packed.block_pointers.push_back(
          static_cast<int>((stages->pointers[stage + 1] + BlockOutputs - 1) / BlockOutputs));
    }
    packed.blocks = Blocks::pack(staged, std::move(stages->order));
    return packed;
  }

  StagedBlocks() = default;
  template <class Arrays = ArraysOnDevice<ExecutionSpace>>
  StagedBlocks(Layer const& layer, Packed const& packed, Arrays&& arrays = Arrays())
      : blocks(layer, packed.blocks, arrays),
        inputs(arrays.put("varve::stage_inputs", packed.inputs)),
        input_pointers(arrays.put("varve::stage_input_pointers", packed.input_pointers)),
        block_pointers(arrays.put("varve::stage_block_pointers", packed.block_pointers)) {
    for (std::size_t stage = 0; stage + 1 < packed.input_pointers.size(); ++stage) {
      max_inputs =
          std::max(max_inputs, static_cast<int>(packed.input_pointers[stage + 1] - packed.input_pointers[stage]));
    }
  }

  /// The nonzero weights back (as values of Scalar, one per entry).
  SparseMatrix to_matrix() const {
    SparseMatrix matrix = blocks.to_matrix();
    auto const inputs_h = download(inputs);
    auto const input_pointers_h = download(input_pointers);
    auto const block_pointers_h = download(block_pointers);
    auto const neurons_h = download(blocks.frame.neurons);
    for (std::size_t stage = 0; stage + 1 < block_pointers_h.size(); ++stage) {
      auto const first = static_cast<std::size_t>(block_pointers_h[stage]) * BlockOutputs;
      auto const last = std::min(static_cast<std::size_t>(block_pointers_h[stage + 1]) * BlockOutputs, matrix.num_rows);
      for (std::size_t position = first; position < last; ++position) {
        std::size_t const output = neurons_h.empty() ? position : neurons_h[position];
        for (EdgeOffset edge = matrix.row_pointers[output]; edge < matrix.row_pointers[output + 1]; ++edge) {
          matrix.column_indices[edge] = inputs_h[input_pointers_h[stage] + matrix.column_indices[edge]];
        }
      }
    }
    return matrix;
  }
};

} // namespace varve
