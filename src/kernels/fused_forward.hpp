#pragma once

#include "core/execution.hpp"
#include "formats/layer_images.hpp"
#include "kernels/kept_lines.hpp"
#include "kernels/live_samples.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// Several layers in one launch, for layers narrow enough that a tile stays in team scratch between them; the live
/// samples of each tile are appended to the next panel, packed. After Hidayetoglu et al. 2020 (fused layers) and Bisson
/// and Fatica 2019 (compaction), joined: no pass over the panel is spent on compaction. league: tiles, in strides; a
/// team owns one tile at a time. Its threads are lanes x block slots: thread t handles lane t % num_lanes of the blocks
/// t / num_lanes, + slots, + 2 slots ... Where outputs stay in registers (GPU) until the whole layer is read, they
/// overwrite the tile in place; elsewhere (CPU) two tiles take turns. Activations move through memory once per launch.
/// A tile is left as soon as all its samples are dead or saturated for ever. Bound per edge: one load of the samples'
/// line from scratch (shared memory's wavefronts on a GPU, the L2 on a CPU) for as many fma as a block has outputs.
/// Layers so small that a team waits for their weights rather than for its own loads (Tune::prefetches) come as images:
/// one is in scratch while the team's registers hold the next, on its way from the L2.
template <class ExecutionSpace, class Format, class Tile, class Tune_>
struct FusedForward {
  using Scalar = typename Tile::Scalar;
  using Tune = Tune_;
  using Policy = typename Tune::Policy;
  using Member = typename Policy::member_type;
  using Edges = typename Format::Edges;
  using Images = LayerImages<ExecutionSpace, Format>;
  using Sums = BlockSums<Tile, Format::block_outputs>;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr int lane_ids = Tune::team_size < kNumLaneIds<Tile> ? Tune::team_size : kNumLaneIds<Tile>;
  static constexpr int num_slots_of_blocks = Tune::team_size / Tile::num_lanes;

  Edges const* layers;
  int num_layers;
  unsigned char const* images;                   ///< of the layers, where they are prefetched,
  int image_bytes;                               ///< with so many bytes each; else 0
  int max_neurons;                               ///< what the tile must hold
  DeviceSamples<ExecutionSpace, Scalar> samples; ///< the input of the first launch,
  Scalar const* source;                          ///< or else tiles
  int const* num_slots;
  int const* ids;
  Scalar* target; ///< packed tiles of target_tile_samples
  int target_tile_samples;
  int* num_kept; ///< counts up from 0
  int* kept_ids;
  SaturatedSamples saturated;
  Scalar cap;           ///< every activation of saturated samples
  int saturates_from;   ///< saturated samples leave after this many of these layers, or more
  bool keeps_dead;      ///< because a later layer may revive them
  bool stops_when_dead; ///< no layer of this launch but the first, and none later, revives a dead sample

  /// Team scratch in bytes: the image, the tile or two, and who is live.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int max_neurons, int image_bytes) {
    return static_cast<std::size_t>(image_bytes) + Tune::num_tiles * tile_bytes(max_neurons) +
           (3 * num_samples + 4) * sizeof(int);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    Scratch const scratch(team, max_neurons, image_bytes);
    int const slots = *num_slots;
    int stamp = 0; // of the layer whose live samples are being marked
    team_for(team, num_samples, [&](int sample) { scratch.live[sample] = scratch.unsaturated[sample] = 0; });
    if (team.team_rank() == 0) scratch.shared[0] = scratch.shared[2] = 0;
    for (int tile = team.league_rank(); tile * num_samples < slots; tile += team.league_size()) {
      int const count = slots - tile * num_samples < num_samples ? slots - tile * num_samples : num_samples;
      Scalar* current = scratch.tiles;
      Scalar const* inputs = load(team, tile, count, scratch);
      bool is_live = true;
      bool is_unsaturated = true;
      int num_done = 0; // layers
      for (; num_done < num_layers && is_live && is_unsaturated;) {
        Edges layer = Tune::prefetches ? Images::edges_in(scratch.image) : layers[num_done];
        if constexpr (!Tune::prefetches) {
          assume_global(layer.weights);
          assume_global(layer.indices);
          assume_global(layer.parameters.bias);
          assume_global(layer.parameters.neurons);
        }
        ++stamp;
        if constexpr (Tune::in_place) {
          is_live = forward_in_place(team, layer, num_done + 1, current, count, scratch, stamp);
        } else {
          current = inputs == scratch.tiles ? scratch.tiles + max_neurons * num_samples : scratch.tiles;
          is_live = forward(team, layer, inputs, current, count, scratch, stamp);
          inputs = current;
        }
        ++num_done;
        if (is_live && looks_for_saturated(num_done)) {
          mark_unsaturated(team, current, layer.parameters.num_outputs, count, scratch, stamp);
          is_unsaturated = scratch.shared[2] >= stamp;
        }
      }
      if (is_live) {
        hand_over(team, tile, count, current, layers[num_done - 1].parameters.num_outputs,
                  looks_for_saturated(num_done), scratch, stamp);
      }
      team.team_barrier();
    }
  }

private:
  struct Scratch {
    unsigned char* image;
    Scalar* tiles;
    int* kept_sample; ///< number in the tile of the k-th live sample
    int* live;        ///< stamp of the last layer after which each sample was live
    int* unsaturated; ///< stamp of the last layer after which each sample was looked at and not saturated
    int* shared; ///< [0] and [2]: the last stamp of any in live and in unsaturated; [1] first slot and [3] number of
                 ///< those that are kept

    KOKKOS_FORCEINLINE_FUNCTION Scratch(Member const& team, int max_neurons, int image_bytes) {
      image = static_cast<unsigned char*>(
          team.team_scratch(+Tune::scratch_level)
              .get_shmem_aligned(static_cast<std::ptrdiff_t>(scratch_bytes(max_neurons, image_bytes)), 64));
      tiles = reinterpret_cast<Scalar*>(image + image_bytes);
      kept_sample = reinterpret_cast<int*>(tiles + Tune::num_tiles * max_neurons * num_samples);
      live = kept_sample + num_samples;
      unsaturated = live + num_samples;
      shared = unsaturated + num_samples;
    }
  };

  /// A thread's part of an image on its way.
  struct ImagePieces {
    static constexpr int count = Tune::prefetches ? 16384 / 16 / Tune::team_size : 1; ///< 16 KiB in flight
    struct alignas(16) Piece {
      std::uint32_t words[4];
    };
    Piece pieces[count];

    KOKKOS_FORCEINLINE_FUNCTION void load(Member const& team, unsigned char const* image, int bytes) {
      VARVE_UNROLL
      for (int i = 0; i < count; ++i) {
        int const piece = team.team_rank() + i * Tune::team_size;
        if (piece * 16 < bytes) pieces[i] = reinterpret_cast<Piece const*>(image)[piece];
      }
    }

    /// And the rest of a large image.
    KOKKOS_FORCEINLINE_FUNCTION void store(Member const& team, unsigned char* target, unsigned char const* image,
                                           int bytes) const {
      VARVE_UNROLL
      for (int i = 0; i < count; ++i) {
        int const piece = team.team_rank() + i * Tune::team_size;
        if (piece * 16 < bytes) reinterpret_cast<Piece*>(target)[piece] = pieces[i];
      }
      for (int piece = team.team_rank() + count * Tune::team_size; piece * 16 < bytes; piece += Tune::team_size)
        reinterpret_cast<Piece*>(target)[piece] = reinterpret_cast<Piece const*>(image)[piece];
    }
  };

  KOKKOS_FORCEINLINE_FUNCTION unsigned char const* image_of(int layer) const {
    return images + static_cast<std::size_t>(layer) * static_cast<std::size_t>(image_bytes);
  }

  KOKKOS_FORCEINLINE_FUNCTION static std::size_t tile_bytes(int max_neurons) {
    return static_cast<std::size_t>(max_neurons) * num_samples * sizeof(Scalar);
  }

  /// Every fourth layer and the last.
  KOKKOS_FORCEINLINE_FUNCTION bool looks_for_saturated(int num_done) const {
    return num_done >= saturates_from && (num_done % 4 == 0 || num_done == num_layers);
  }

  /// work(0) ... work(count - 1) on the threads of the team, neighbours beside each other.
  template <class Work>
  KOKKOS_FORCEINLINE_FUNCTION static void team_for(Member const& team, int count, Work const& work) {
    for (int i = team.team_rank(); i < count; i += Tune::team_size) work(i);
  }

  /// Brings the tile's samples into scratch, or says where the first layer can read them.
  KOKKOS_FORCEINLINE_FUNCTION Scalar const* load(Member const& team, int tile, int count,
                                                 Scratch const& scratch) const {
    if constexpr (Tune::prefetches) {
      ImagePieces first;
      first.load(team, images, image_bytes);
      first.store(team, scratch.image, images, image_bytes);
    }
    if (source == nullptr) {
      expand(team, tile * num_samples, count, scratch.tiles);
    } else {
      int const num_inputs = layers[0].parameters.num_inputs;
      Scalar const* const tile_source = source + place_of_slot(tile * num_samples, num_inputs, num_samples);
      if (!Tune::in_place) return tile_source;
      using PackType = typename Tile::PackType;
      team_for(team, num_inputs * (num_samples / Tile::pack_width), [&](int pack) {
        copy(reinterpret_cast<PackType*>(scratch.tiles)[pack], reinterpret_cast<PackType const*>(tile_source)[pack]);
      });
    }
    team.team_barrier();
    return scratch.tiles;
  }

  /// On a GPU, neighbouring threads take neighbouring entries of one sample.
  KOKKOS_FORCEINLINE_FUNCTION void expand(Member const& team, int first_sample, int count, Scalar* tile) const {
    constexpr int threads_per_sample = Tune::team_size > num_samples ? Tune::team_size / num_samples : 1;
    team_for(team, samples.num_neurons * num_samples, [&](int place) { tile[place] = Scalar(0); });
    team.team_barrier();
    for (int sample = team.team_rank() / threads_per_sample; sample < count;
         sample += Tune::team_size / threads_per_sample) {
      EdgeOffset const end = samples.row_pointers(first_sample + sample + 1);
      EdgeOffset entry = samples.row_pointers(first_sample + sample) + team.team_rank() % threads_per_sample;
      for (; entry < end; entry += threads_per_sample) {
        tile[static_cast<std::size_t>(samples.columns(entry)) * num_samples + static_cast<std::size_t>(sample)] =
            samples.values(entry * static_cast<EdgeOffset>(samples.value_stride));
      }
    }
  }

  /// Gives false if the tile can be left, because no sample is live. The barrier between this answer and the next
  /// layer keeps it from being overwritten by threads that are a layer ahead.
  KOKKOS_FORCEINLINE_FUNCTION bool goes_on(Scratch const& scratch, int stamp) const {
    return !stops_when_dead || scratch.shared[0] == stamp;
  }

  KOKKOS_FORCEINLINE_FUNCTION bool forward(Member const& team, Edges const& layer, Scalar const* inputs,
                                           Scalar* outputs, int count, Scratch const& scratch, int stamp) const {
    int const lane = team.team_rank() % lane_ids;
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    for (int block = team.team_rank() / Tile::num_lanes; block < layer.num_blocks(); block += num_slots_of_blocks) {
      Sums sums;
      sums.accumulate(layer, block, inputs, lane);
      sums.finish_block(layer.parameters, block, seen);
      sums.store(layer.parameters, block, outputs, lane);
    }
    mark_live(seen, lane, count, scratch, stamp);
    team.team_barrier();
    bool const is_live = goes_on(scratch, stamp);
    team.team_barrier();
    return is_live;
  }

  /// The same with all outputs of the team in registers until everybody has read the inputs; meanwhile brings layer
  /// `next`, if there is one, into scratch.
  KOKKOS_FORCEINLINE_FUNCTION bool forward_in_place(Member const& team, Edges const& layer, int next, Scalar* tile,
                                                    int count, Scratch const& scratch, int stamp) const {
    int const lane = team.team_rank() % lane_ids;
    ImagePieces pieces;
    if (Tune::prefetches && next < num_layers) pieces.load(team, image_of(next), image_bytes);
    Sums sums[Tune::passes];
    typename Sums::Neurons neurons[Tune::passes]; // before the barrier, behind which everybody waits for the stores
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    VARVE_UNROLL
    for (int pass = 0; pass < Tune::passes; ++pass) {
      int const block = pass * num_slots_of_blocks + team.team_rank() / Tile::num_lanes;
      if (block < layer.num_blocks()) {
        sums[pass].accumulate(layer, block, tile, lane);
        sums[pass].finish_block(layer.parameters, block, seen);
        neurons[pass] = Sums::neurons_of(layer.parameters, block);
      }
    }
    mark_live(seen, lane, count, scratch, stamp);
    team.team_barrier();
    bool const is_live = goes_on(scratch, stamp);
    VARVE_UNROLL
    for (int pass = 0; pass < Tune::passes; ++pass) {
      int const block = pass * num_slots_of_blocks + team.team_rank() / Tile::num_lanes;
      if (block < layer.num_blocks()) sums[pass].store(layer.parameters, block, neurons[pass], tile, lane);
    }
    if (Tune::prefetches) {
      team.team_barrier(); // everybody knows where its outputs go
      if (next < num_layers) pieces.store(team, scratch.image, image_of(next), image_bytes);
    }
    team.team_barrier();
    return is_live;
  }

  /// All writers of a word write the same stamp, so no atomics are needed. Samples past the last are nobody's.
  KOKKOS_FORCEINLINE_FUNCTION static void mark_live(typename Tile::Seen const (&seen)[Tile::packs_per_lane], int lane,
                                                    int count, Scratch const& scratch, int stamp) {
    bool any = false;
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      for (int i = 0; i < Tile::pack_width; ++i) {
        int const sample = Tile::sample_of(lane, k) + i;
        if (seen[k].lane[i] == 0) continue;
        scratch.live[sample] = stamp;
        any = any || sample < count;
      }
    }
    if (any) scratch.shared[0] = stamp;
  }

  /// Looks for samples with an activation that is not the cap; stops when all it sees are such. Those that are dead for
  /// ever do not count as unsaturated.
  KOKKOS_FORCEINLINE_FUNCTION void mark_unsaturated(Member const& team, Scalar const* tile, int num_neurons, int count,
                                                    Scratch const& scratch, int stamp) const {
    constexpr int neurons_at_a_time = 32;
    int const lane = team.team_rank() % lane_ids;
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    bool all_unsaturated = false;
    for (int neuron = team.team_rank() / Tile::num_lanes; neuron < num_neurons && !all_unsaturated;) {
      for (int i = 0; i < neurons_at_a_time && neuron < num_neurons; ++i, neuron += num_slots_of_blocks) {
        for (int k = 0; k < Tile::packs_per_lane; ++k)
          see_difference(seen[k], Tile::pack_at(tile, neuron, lane, k), cap);
      }
      all_unsaturated = true;
      for (auto const& bits : seen) {
        for (auto const bit : bits.lane) all_unsaturated = all_unsaturated && bit != 0;
      }
    }
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      for (int i = 0; i < Tile::pack_width; ++i) {
        int const sample = Tile::sample_of(lane, k) + i;
        if (seen[k].lane[i] == 0 || sample >= count) continue;
        scratch.unsaturated[sample] = stamp;
        if (!stops_when_dead || scratch.live[sample] == stamp) scratch.shared[2] = stamp;
      }
    }
    team.team_barrier();
  }

  /// Appends the tile's live samples to the target panel, those that are saturated to the list of the saturated.
  KOKKOS_FORCEINLINE_FUNCTION void hand_over(Member const& team, int tile, int count, Scalar const* activations,
                                             int num_neurons, bool looked_for_saturated, Scratch const& scratch,
                                             int stamp) const {
    if (team.team_rank() == 0) {
      int kept = 0;
      for (int sample = 0; sample < count; ++sample) {
        bool const is_live = scratch.live[sample] == stamp;
        if (is_live && looked_for_saturated && scratch.unsaturated[sample] != stamp) {
          saturated.append(ids[tile * num_samples + sample]);
        } else if (keeps_dead || is_live) {
          scratch.kept_sample[kept++] = sample;
        }
      }
      scratch.shared[1] = Kokkos::atomic_fetch_add(num_kept, kept);
      scratch.shared[3] = kept;
    }
    team.team_barrier();
    int const first = scratch.shared[1];
    int const kept = scratch.shared[3];
    team_for(team, kept, [&](int k) { kept_ids[first + k] = ids[tile * num_samples + scratch.kept_sample[k]]; });
    for (int k = 0, end = 0; k < kept; k = end) { // the samples that go to one target tile are neighbours there
      int const room = target_tile_samples - (first + k) % target_tile_samples;
      end = kept - k < room ? kept : k + room;
      Scalar* const to = target + place_of_slot(first + k, num_neurons, target_tile_samples);
      // clang-format off
      KOKKOS_IF_ON_DEVICE((move_values(team, to, activations, scratch.kept_sample + k, end - k, num_neurons);))
      KOKKOS_IF_ON_HOST((move_lines(team, to, activations, scratch.kept_sample + k, end - k, num_neurons);))
      // clang-format on
    }
  }

  /// Samples kept[0] ... kept[count - 1] of the tile to neighbouring places of a target tile, by the team,
  KOKKOS_FORCEINLINE_FUNCTION void move_values(Member const& team, Scalar* to, Scalar const* activations,
                                               int const* kept, int count, int num_neurons) const {
    constexpr int threads_per_neuron = Tune::team_size > num_samples ? num_samples : 1;
    int const thread = team.team_rank() % threads_per_neuron;
    for (int neuron = team.team_rank() / threads_per_neuron; neuron < num_neurons;
         neuron += Tune::team_size / threads_per_neuron) {
      Scalar* const line = to + static_cast<std::size_t>(neuron) * static_cast<std::size_t>(target_tile_samples);
      Scalar const* const values = activations + neuron * num_samples;
      for (int i = thread; i < count; i += threads_per_neuron) line[i] = values[kept[i]];
    }
  }

  /// or, on the host, by whole lines.
  void move_lines(Member const& team, Scalar* to, Scalar const* activations, int const* kept, int count,
                  int num_neurons) const {
    if constexpr (Tile::num_lanes == 1) {
      KeptLines<Tile> const lines(kept, count);
      typename KeptLines<Tile>::Line line;
      for (int neuron = team.team_rank(); neuron < num_neurons; neuron += Tune::team_size) {
        lines.gather(line, activations, neuron);
        copy_values<Tile::pack_width>(
            to + static_cast<std::size_t>(neuron) * static_cast<std::size_t>(target_tile_samples), line.values, count);
      }
    }
  }
};

/// Launches FusedForward for at most `max_slots` samples. Does not fence.
template <class ExecutionSpace, class Format, class Tile, class Tune>
void fused_forward(ExecutionSpace const& space, FusedForward<ExecutionSpace, Format, Tile, Tune> const& kernel,
                   int max_slots) {
  using Kernel = FusedForward<ExecutionSpace, Format, Tile, Tune>;
  int const tiles = num_tiles(max_slots, Tile::num_samples);
  if (tiles == 0) return;
  typename Kernel::Policy policy(space, Tune::league_size(num_processors(space), tiles), Tune::team_size);
  policy.set_scratch_size(
      Tune::scratch_level,
      Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes(kernel.max_neurons, kernel.image_bytes)) + 128));
  Kokkos::parallel_for("varve::fused_forward", policy, kernel);
}

} // namespace varve
