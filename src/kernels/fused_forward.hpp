#pragma once

#include "core/execution.hpp"
#include "formats/layer_images.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"
#include "kernels/tile_hand_over.hpp"

namespace varve {

/// Several layers in one launch, for layers narrow enough that a tile stays in team scratch between them:
///   next(j, s) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, s), + bias(j)), layer by layer
/// The live samples of each tile are then appended to the next panel, so compaction needs no separate pass. After
/// Hidayetoglu et al. 2020 (fused layers) and Bisson and Fatica 2019 (compaction).
/// league: tiles, in strides; a team owns one tile at a time. Its threads are lanes x block slots: thread t computes
/// lane t % num_lanes of blocks t / num_lanes + n * slots. On GPUs (Tune::in_place) outputs stay in registers until the
/// team has read the whole layer, then overwrite the tile; on CPUs two tiles alternate. Each activation is read from
/// memory and written to it once per launch. A team leaves a tile as soon as all its samples are dead or permanently
/// saturated. Per block, edge and tile it loads one line of activations from scratch for one fma per sample and output
/// of the block: bound by shared memory and L1 on a GPU (69 % of LSU wavefronts, perf/PROFILES.md), by the L2 on a CPU.
/// Tune::prefetches is for layers so small that a team would wait for their weights: layers are stored as images
/// (formats/layer_images.hpp), and while one is in scratch the team loads the next from the L2 into registers.
template <class ExecutionSpace, class Format, class Tile, class Tune_>
struct FusedForward {
  using Scalar = typename Tile::Scalar;
  using Tune = Tune_;
  using Policy = typename Tune::Policy;
  using Member = typename Policy::member_type;
  using Edges = typename Format::Edges;
  using Images = LayerImages<ExecutionSpace, Format>;
  using Sums = BlockSums<Tile, Format::block_outputs>;
  using Marks = TileMarks<Tile, Tune::team_size>;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int num_slots_of_blocks = Tune::team_size / Tile::num_lanes;

  ArrayView<Edges const> layers;
  int num_layers;
  ArrayView<unsigned char const> images;         ///< images of the layers; empty unless Tune::prefetches
  int image_bytes;                               ///< bytes of each image; 0 if there are none
  int max_neurons;                               ///< most neurons that a tile in scratch holds
  DeviceSamples<ExecutionSpace, Scalar> samples; ///< input if the launch is the first, else unused
  ArrayView<Scalar const> source;                ///< input tiles of later launches; empty if the input is `samples`
  ArrayView<int const> num_slots;                ///< one element: input slots in use
  TileHandOver<Tile, Tune::team_size> hand_over; ///< moves live samples to the next panel after the last layer
  Scalar cap;                                    ///< the activation of every neuron of a saturated sample
  int saturates_from;                            ///< saturated samples may leave once this many layers are done
  bool stops_when_dead; ///< no layer after the first of this launch, now or later, revives a dead sample

  /// Team scratch in bytes: an image, one or two tiles, and the marks of live samples.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int max_neurons, int image_bytes) {
    return static_cast<std::size_t>(image_bytes) + Tune::num_tiles * tile_bytes(max_neurons) +
           Marks::num_numbers * sizeof(int);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    Scratch const scratch(team, max_neurons, image_bytes);
    int const slots = num_slots(0);
    int stamp = 0; // counts layers of all tiles; marks samples as live after the current layer
    scratch.marks.clear(team.team_rank());
    for (int tile = team.league_rank(); tile * num_samples < slots; tile += team.league_size()) {
      int const count = slots - tile * num_samples < num_samples ? slots - tile * num_samples : num_samples;
      auto current = scratch.tile(0, max_neurons);
      ArrayView<Scalar const> inputs = load(team, tile, count, scratch);
      bool is_live = true;
      bool is_unsaturated = true;
      int num_done = 0; // layers computed so far
      while (num_done < num_layers && is_live && is_unsaturated) {
        Edges const layer = layer_of(num_done, scratch);
        ++stamp;
        if constexpr (Tune::in_place) {
          is_live = forward_in_place(team, layer, num_done + 1, current, count, scratch, stamp);
        } else {
          current = scratch.tile(inputs.data() == scratch.tiles.data() ? 1 : 0, max_neurons);
          is_live = forward(team, layer, inputs, current, count, scratch, stamp);
          inputs = current;
        }
        ++num_done;
        if (is_live && looks_for_saturated(num_done)) {
          scratch.marks.mark_unsaturated(team.team_rank(), current, layer.parameters.num_outputs, cap, count,
                                         stops_when_dead, stamp);
          team.team_barrier();
          is_unsaturated = scratch.marks.shared(Marks::any_unsaturated) >= stamp;
        }
      }
      if (is_live)
        hand_over(team, tile * num_samples, count, current, layers(num_done - 1).parameters.num_outputs,
                  looks_for_saturated(num_done), scratch.marks, stamp);
      team.team_barrier();
    }
  }

private:
  struct Scratch {
    ScratchArrays arrays;
    ArrayView<unsigned char> image;
    ArrayView<Scalar> tiles;
    Marks marks;

    KOKKOS_FORCEINLINE_FUNCTION Scratch(Member const& team, int max_neurons, int image_bytes)
        : arrays(team, Tune::scratch_level, scratch_bytes(max_neurons, image_bytes), 64),
          image(arrays.take<unsigned char>(static_cast<std::size_t>(image_bytes))),
          tiles(arrays.take<Scalar>(static_cast<std::size_t>(Tune::num_tiles * max_neurons * num_samples))),
          marks(arrays) {}

    KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar> tile(int number, int max_neurons) const {
      return part_of(tiles, static_cast<std::size_t>(number * max_neurons * num_samples),
                     static_cast<std::size_t>(max_neurons) * num_samples);
    }
  };

  KOKKOS_FORCEINLINE_FUNCTION static std::size_t tile_bytes(int max_neurons) {
    return static_cast<std::size_t>(max_neurons) * num_samples * sizeof(Scalar);
  }

  KOKKOS_FORCEINLINE_FUNCTION ArrayView<unsigned char const> image_of(int layer) const {
    auto const bytes = static_cast<std::size_t>(image_bytes);
    return part_of(images, static_cast<std::size_t>(layer) * bytes, bytes);
  }

  /// The edges of a layer: in the image in scratch, or in global memory.
  KOKKOS_FORCEINLINE_FUNCTION Edges layer_of(int number, Scratch const& scratch) const {
    if constexpr (Tune::prefetches) {
      return Images::edges_in(scratch.image);
    } else {
      Edges layer = layers(number);
      assume_global(layer.weights);
      if constexpr (requires { layer.indices; }) assume_global(layer.indices);
      if constexpr (requires { layer.slice_chunks; }) assume_global(layer.slice_chunks);
      assume_global(layer.parameters.bias);
      assume_global(layer.parameters.neurons);
      return layer;
    }
  }

  /// True if saturated samples are searched after `num_done` layers: after every fourth layer and the last.
  KOKKOS_FORCEINLINE_FUNCTION bool looks_for_saturated(int num_done) const {
    return num_done >= saturates_from && (num_done % 4 == 0 || num_done == num_layers);
  }

  /// Calls work(0) ... work(count - 1), neighbouring indices on neighbouring threads of the team.
  template <class Work>
  KOKKOS_FORCEINLINE_FUNCTION static void team_for(Member const& team, int count, Work const& work) {
    for (int i = team.team_rank(); i < count; i += Tune::team_size) work(i);
  }

  /// Copies the tile's samples into scratch, or returns the memory from which the first layer can read them.
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar const> load(Member const& team, int tile, int count,
                                                           Scratch const& scratch) const {
    if constexpr (Tune::prefetches) {
      ImagePieces<Tune::team_size> first;
      first.load(team.team_rank(), image_of(0));
      first.store(team.team_rank(), scratch.image, image_of(0));
    }
    if (source.data() == nullptr) {
      expand(team, tile * num_samples, count, scratch.tiles);
    } else {
      int const num_inputs = layers(0).parameters.num_inputs;
      auto const tile_source = tile_of(source, tile, num_inputs, num_samples);
      if (!Tune::in_place) return tile_source;
      using PackType = typename Tile::PackType;
      team_for(team, num_inputs * (num_samples / Tile::pack_width),
               [&](int pack) { copy(piece_of<PackType>(scratch.tiles, pack), piece_of<PackType>(tile_source, pack)); });
    }
    team.team_barrier();
    return scratch.tiles;
  }

  /// Writes sparse samples to the tile. On a GPU, neighbouring threads read neighbouring entries of one sample.
  KOKKOS_FORCEINLINE_FUNCTION void expand(Member const& team, int first_sample, int count,
                                          ArrayView<Scalar> const& tile) const {
    constexpr int threads_per_sample = Tune::team_size > num_samples ? Tune::team_size / num_samples : 1;
    team_for(team, samples.num_neurons * num_samples, [&](int place) { tile(place) = Scalar(0); });
    team.team_barrier();
    for (int sample = team.team_rank() / threads_per_sample; sample < count;
         sample += Tune::team_size / threads_per_sample) {
      EdgeOffset const end = samples.row_pointers(first_sample + sample + 1);
      EdgeOffset entry = samples.row_pointers(first_sample + sample) + team.team_rank() % threads_per_sample;
      for (; entry < end; entry += threads_per_sample) {
        tile(static_cast<std::size_t>(samples.columns(entry)) * num_samples + static_cast<std::size_t>(sample)) =
            samples.values(entry * static_cast<EdgeOffset>(samples.value_stride));
      }
    }
  }

  /// False if no sample of the tile is live, so that the team can leave it. A barrier must follow before the next
  /// layer, whose first threads would otherwise overwrite the mark while others read it.
  KOKKOS_FORCEINLINE_FUNCTION bool goes_on(Marks const& marks, int stamp) const {
    return !stops_when_dead || marks.shared(Marks::any_live) == stamp;
  }

  /// Computes one layer from `inputs` to `outputs`; false if no sample is live afterwards.
  KOKKOS_FORCEINLINE_FUNCTION bool forward(Member const& team, Edges const& layer,
                                           ArrayView<Scalar const> const& inputs, ArrayView<Scalar> const& outputs,
                                           int count, Scratch const& scratch, int stamp) const {
    int const lane = team.team_rank() % Marks::lane_ids;
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    forward_blocks<Format, Tile>(layer, {team.team_rank() / Tile::num_lanes, layer.num_blocks(), +num_slots_of_blocks},
                                 inputs, outputs, lane, seen);
    scratch.marks.mark_live(seen, lane, count, stamp);
    team.team_barrier();
    bool const is_live = goes_on(scratch.marks, stamp);
    team.team_barrier();
    return is_live;
  }

  /// Computes one layer in place: all outputs stay in registers until all threads have read the inputs. Meanwhile loads
  /// the image of layer `next`, if there is one, and finally stores it in scratch.
  KOKKOS_FORCEINLINE_FUNCTION bool forward_in_place(Member const& team, Edges const& layer, int next,
                                                    ArrayView<Scalar> const& tile, int count, Scratch const& scratch,
                                                    int stamp) const {
    int const lane = team.team_rank() % Marks::lane_ids;
    [[maybe_unused]] ImagePieces<Tune::team_size> pieces;
    if constexpr (Tune::prefetches) {
      if (next < num_layers) pieces.load(team.team_rank(), image_of(next));
    }
    Sums sums[Tune::passes];
    typename Sums::Neurons neurons[Tune::passes]; // loaded before the barrier, so that no store waits for them
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    VARVE_UNROLL
    for (int pass = 0; pass < Tune::passes; ++pass) {
      int const block = pass * num_slots_of_blocks + team.team_rank() / Tile::num_lanes;
      if (block < layer.num_blocks()) {
        sums[pass].accumulate(layer, block, tile, lane);
        if constexpr (Tune::passes == 1) {
          sums[pass].finish_block(layer.parameters, block, seen);
        } else {
          sums[pass].finish_sums(layer.parameters, block);
        }
        neurons[pass] = Sums::neurons_of(layer.parameters, block);
      }
    }
    if constexpr (Tune::passes > 1) { // not earlier, so that the registers of `seen` are free for loads of all passes
      VARVE_UNROLL
      for (int pass = 0; pass < Tune::passes; ++pass) {
        int const block = pass * num_slots_of_blocks + team.team_rank() / Tile::num_lanes;
        if (block < layer.num_blocks()) sums[pass].see_results(layer.parameters, block, seen);
      }
    }
    scratch.marks.mark_live(seen, lane, count, stamp);
    team.team_barrier();
    bool const is_live = goes_on(scratch.marks, stamp);
    VARVE_UNROLL
    for (int pass = 0; pass < Tune::passes; ++pass) {
      int const block = pass * num_slots_of_blocks + team.team_rank() / Tile::num_lanes;
      if (block < layer.num_blocks()) sums[pass].store(layer.parameters, block, neurons[pass], tile, lane);
    }
    if constexpr (Tune::prefetches) {
      team.team_barrier(); // all threads have finished with the old image
      if (next < num_layers) pieces.store(team.team_rank(), scratch.image, image_of(next));
    }
    team.team_barrier();
    return is_live;
  }
};

/// Launches FusedForward for at most `max_slots` samples. Does not fence.
template <class ExecutionSpace, class Format, class Tile, class Tune>
void fused_forward(ExecutionSpace const& space, FusedForward<ExecutionSpace, Format, Tile, Tune> const& kernel,
                   int max_slots) {
  using Kernel = FusedForward<ExecutionSpace, Format, Tile, Tune>;
  int const tiles = num_tiles(max_slots, Tile::num_samples);
  if (tiles == 0) return;
  launch_teams("varve::fused_forward",
               typename Kernel::Policy(space, Tune::league_size(num_processors(space), tiles), Tune::team_size), kernel,
               Tune::scratch_level, Kernel::scratch_bytes(kernel.max_neurons, kernel.image_bytes) + 128);
}

} // namespace varve
