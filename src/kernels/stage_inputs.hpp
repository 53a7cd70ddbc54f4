#pragma once

#include "core/pack.hpp"
#include "core/scratch_copy.hpp"
#include "core/types.hpp"
#include "core/views.hpp"
#include "kernels/tile.hpp"

#include <cstddef>

namespace varve {

/// How a team of TeamSize threads brings the inputs of a stage of staged blocks (formats/staged_blocks.hpp) for a tile
/// of samples to scratch:
///   inputs(i, s) = activation of the stage's input i for sample s of the tile
/// Task number t is stage t % num_stages of tile t / num_stages. Reads each input once per task.
template <class Edges, class Tile, int TeamSize>
struct StageInputs {
  using Scalar = typename Tile::Scalar;
  static constexpr int num_samples = Tile::num_samples;

  Edges const& layer;
  LayerPass<Scalar> const& pass;
  int count; ///< positions in use
  int rank;  ///< of the thread

  /// Brings the inputs of a task; all threads of the team call it. A thread stays with its sample.
  KOKKOS_FORCEINLINE_FUNCTION void gather(int task, ArrayView<Scalar> const& inputs) const {
    constexpr int samples_at_a_time = TeamSize < num_samples ? TeamSize : num_samples;
    constexpr int step = TeamSize / samples_at_a_time;
    constexpr int at_a_time = 8;
    int const tile = task / layer.num_stages;
    auto const neurons = inputs_of(task % layer.num_stages);
    auto const num_inputs = static_cast<int>(neurons.size());
    for (int sample = rank % samples_at_a_time; sample < num_samples; sample += samples_at_a_time) {
      int const slot = pass.slot_of(tile * num_samples + sample, count);
      auto const source =
          sample_of_slot(pass.previous, slot, layer.blocks.parameters.num_inputs, pass.previous_tile_samples);
      for (int input = rank / samples_at_a_time; input < num_inputs; input += at_a_time * step) {
        Scalar value[at_a_time]; // all loads come before the first store, which might alias them
        VARVE_UNROLL
        for (int k = 0; k < at_a_time; ++k) {
          if (input + k * step < num_inputs)
            value[k] = source(static_cast<std::size_t>(neurons(input + k * step)) *
                              static_cast<std::size_t>(pass.previous_tile_samples));
        }
        VARVE_UNROLL
        for (int k = 0; k < at_a_time; ++k) {
          if (input + k * step < num_inputs) inputs((input + k * step) * num_samples + sample) = value[k];
        }
      }
    }
  }

  /// The same by copies that run while the team computes (core/scratch_copy.hpp), one group a thread: of 16 bytes where
  /// the samples of a piece lie together, else of single numbers.
  KOKKOS_FORCEINLINE_FUNCTION void begin_copies(int task, ArrayView<Scalar> const& inputs) const {
    constexpr int piece_samples = 16 / static_cast<int>(sizeof(Scalar)); // that a copy brings
    constexpr int pieces = num_samples / piece_samples;                  // of a line
    constexpr int step = TeamSize / pieces;
    constexpr int at_a_time = 4;
    int const tile = task / layer.num_stages;
    auto const neurons = inputs_of(task % layer.num_stages);
    auto const num_inputs = static_cast<int>(neurons.size());
    int const piece = rank % pieces;
    Scalar const* source[piece_samples];
    int const first = pass.slot_of(tile * num_samples + piece * piece_samples, count);
    bool is_together = first % piece_samples == 0 && pass.previous_tile_samples % piece_samples == 0;
    VARVE_UNROLL
    for (int i = 0; i < piece_samples; ++i) {
      int const slot = pass.slot_of(tile * num_samples + piece * piece_samples + i, count);
      source[i] = address_of_slot(pass.previous, slot, layer.blocks.parameters.num_inputs, pass.previous_tile_samples);
      is_together = is_together && slot == first + i; // each of them: past the end the last slot repeats
    }
    for (int input = rank / pieces; input < num_inputs; input += at_a_time * step) {
      std::size_t place[at_a_time]; // all loads come before the first copy, which might alias them
      VARVE_UNROLL
      for (int k = 0; k < at_a_time; ++k) {
        if (input + k * step < num_inputs)
          place[k] = static_cast<std::size_t>(neurons(input + k * step)) *
                     static_cast<std::size_t>(pass.previous_tile_samples);
      }
      VARVE_UNROLL
      for (int k = 0; k < at_a_time; ++k) {
        if (input + k * step >= num_inputs) continue;
        auto& target = piece_of<Pack<Scalar, piece_samples>>(inputs, (input + k * step) * pieces + piece);
        if (is_together) {
          begin_scratch_copy(&target, reinterpret_cast<Pack<Scalar, piece_samples> const*>(source[0] + place[k]), true);
        } else {
          VARVE_UNROLL
          for (int i = 0; i < piece_samples; ++i) begin_scratch_copy(&target.lane[i], source[i] + place[k], true);
        }
      }
    }
    end_scratch_copies();
  }

private:
  /// The list of a stage.
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<NeuronIndex const> inputs_of(int stage) const {
    auto const first = layer.input_pointers(stage);
    return part_of(layer.inputs, first, layer.input_pointers(stage + 1) - first);
  }
};

} // namespace varve
