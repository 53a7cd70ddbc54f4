#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>

namespace varve {

/// Several layers in one launch, as one program per cone (formats/cone_programs.hpp). A lane runs a program for its own
/// samples. Their values are in slots of scratch that no other lane uses, so layers need no barrier between them.
///   next(j, p) = output j of the last layer for the sample previous(., slot_of(p)); each layer: a chain of fma over
///   the edges in order, bias, activation
/// league: programs x parts of the tiles, parts outermost; team threads: tiles of the part; vector lanes: the samples
/// of a tile. A team keeps its program in scratch for all its tiles. Each activation is read once per cone that needs
/// it and written once per launch; in scratch, a neuron costs a load per edge and a store. Bound by latency on a GPU:
/// 20 KB of slots per warp allow 14 % of the warps, which wait for arithmetic, scratch and memory about equally and
/// fill 43 % of the issue slots (perf/PROFILES.md).
template <class ExecutionSpace, class Programs, class Tile>
struct ConeForward {
  using Scalar = typename Tile::Scalar;
  using PackType = typename Tile::PackType;
  using Edges = typename Programs::Edges;
  using Move = typename Programs::Move;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, typename Tune::ConeBounds>;
  using Member = typename Policy::member_type;
  static_assert(Programs::slot_bytes == Tile::num_samples * sizeof(Scalar));
  static constexpr int group_size = Programs::group_size;
  static constexpr int line_length = Programs::line_length; ///< inputs or outputs that a lane loads before it stores

  Edges run;
  LayerPass<Scalar> pass;
  int max_slots, max_rounds, max_groups; ///< the most that any program has

  /// Team scratch in bytes: the program, and slots for each thread's tile.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int team_size, int max_slots, int max_rounds,
                                                               int max_groups) {
    return static_cast<std::size_t>(max_rounds * group_size) * sizeof(Move) +
           static_cast<std::size_t>(max_groups * group_size) * sizeof(double) +
           static_cast<std::size_t>(team_size * max_slots * Tile::num_samples) * sizeof(Scalar);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_parts = team.league_size() / run.num_programs;
    int const number = team.league_rank() % run.num_programs;
    int const part = team.league_rank() / run.num_programs;
    int const count = pass.num_samples(0);
    int const tiles = num_tiles(count, Tile::num_samples);
    if (part >= tiles) return;
    auto const program = run.programs(number);
    ScratchArrays scratch(team, Tune::cone_level, scratch_bytes(team.team_size(), max_slots, max_rounds, max_groups),
                          64);
    auto const slots_per_tile = static_cast<std::size_t>(max_slots * Tile::num_samples);
    auto const all_slots = scratch.take<Scalar>(static_cast<std::size_t>(team.team_size()) * slots_per_tile);
    auto const slots = part_of(all_slots, static_cast<std::size_t>(team.team_rank()) * slots_per_tile, slots_per_tile);
    auto const moves = scratch.take<Move>(static_cast<std::size_t>(max_rounds * group_size));
    auto const biases = scratch.take<double>(static_cast<std::size_t>(max_groups * group_size));
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, program.num_rounds * group_size),
                         [&](int i) { moves(i) = run.moves(program.first_move + i); });
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, program.num_groups * group_size),
                         [&](int i) { biases(i) = run.biases((program.first_bias + i) * run.bias_stride); });
    team.team_barrier();
    for (int tile = part * team.team_size() + team.team_rank(); tile < tiles; tile += num_parts * team.team_size()) {
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
        load(program, tile, count, lane, slots);
        if (run.bounds.slope == 1.0) {
          run_program<false>(program, moves, biases, lane, slots);
        } else {
          run_program<true>(program, moves, biases, lane, slots);
        }
        store(program, tile, lane, slots);
      });
    }
  }

private:
  using Program = typename Programs::Program;

  template <class Number>
  using Line = Pack<Number, line_length>;

  /// Copies the inputs of the program into its first slots.
  KOKKOS_FORCEINLINE_FUNCTION void load(Program const& program, int tile, int count, int lane,
                                        ArrayView<Scalar> const& slots) const {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) {
      int const position = tile * Tile::num_samples + Tile::sample_of(lane, k);
      if (!pass.is_listed()) {
        auto const samples = sample_of_slot(pass.previous, position, run.num_inputs, Tile::num_samples);
        load_lines(program, slots, lane, k, [&](std::size_t place) {
          PackType value;
          copy(value, piece_at<PackType>(samples, place));
          return value;
        });
      } else {
        Scalar const* samples[Tile::pack_width];
        VARVE_UNROLL
        for (int s = 0; s < Tile::pack_width; ++s) {
          int const slot = pass.slot_of(position + s, count);
          samples[s] = address_of_slot(pass.previous, slot, run.num_inputs, Tile::num_samples);
        }
        load_lines(program, slots, lane, k, [&](std::size_t place) {
          PackType value;
          VARVE_UNROLL
          for (int s = 0; s < Tile::pack_width; ++s) value.lane[s] = samples[s][place];
          return value;
        });
      }
    }
  }

  /// slot(i) = value_at(place of input i in a tile), with the loads of line_length inputs in flight at a time.
  template <class ValueAt>
  KOKKOS_FORCEINLINE_FUNCTION void load_lines(Program const& program, ArrayView<Scalar> const& slots, int lane, int k,
                                              ValueAt const& value_at) const {
    auto const inputs = part_of(run.inputs, program.first_input, program.num_inputs);
    for (int line = 0; line < program.num_inputs / line_length; ++line) {
      auto const neurons = piece_of<Line<NeuronIndex>>(inputs, line);
      PackType values[line_length];
      VARVE_UNROLL
      for (int i = 0; i < line_length; ++i)
        copy(values[i], value_at(static_cast<std::size_t>(neurons.lane[i]) * Tile::num_samples));
      VARVE_UNROLL
      for (int i = 0; i < line_length; ++i) copy(Tile::pack_at(slots, line * line_length + i, lane, k), values[i]);
    }
  }

  /// MayHaveSlope is false for layers without a slope: a branch in each group would delay it.
  template <bool MayHaveSlope>
  KOKKOS_FORCEINLINE_FUNCTION void run_program(Program const& program, ArrayView<Move const> const& moves,
                                               ArrayView<double const> const& biases, int lane,
                                               ArrayView<Scalar> const& slots) const {
    auto const lane_slots = part_of(slots, Tile::sample_of(lane, 0));
    // Running pointers: an address computed from the number of a round or group delays the loads that depend on it.
    Move const* next_moves = elements_of(moves, 0, static_cast<std::size_t>(program.num_rounds * group_size));
    double const* next_biases = elements_of(biases, 0, static_cast<std::size_t>(program.num_groups * group_size));
    for (int group = 0; group < program.num_groups; ++group, next_biases += group_size) {
      PackType sums[group_size][Tile::packs_per_lane];
      VARVE_UNROLL
      for (int step = 0; step < group_size; ++step) {
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) clear(sums[step][k]);
      }
      int target[group_size];
      bool is_last;
      do {
        is_last = add_round(next_moves, lane_slots, sums, target);
        next_moves += group_size;
      } while (!is_last);
      VARVE_UNROLL
      for (int step = 0; step < group_size; ++step) {
        double const bias = next_biases[step];
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) finish<MayHaveSlope>(sums[step][k], bias, run.bounds);
      }
      VARVE_UNROLL
      for (int step = 0; step < group_size; ++step) {
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) copy(pack_at(lane_slots, target[step], k), sums[step][k]);
      }
    }
  }

  /// A lane's pack in the slot that begins at byte `place`. (Byte offsets halve the address arithmetic of a step.)
  KOKKOS_FORCEINLINE_FUNCTION static PackType& pack_at(ArrayView<Scalar> const& lane_slots, int place, int k) {
    constexpr int bytes_per_pack = Tile::num_lanes * static_cast<int>(sizeof(PackType));
    return piece_at_byte<PackType>(lane_slots, static_cast<std::size_t>(place + k * bytes_per_pack));
  }

  /// Adds the next two edges of each step of a group, which are in `moves`, to its sum. Returns true after the last
  /// round of the group. target: the slot that each step writes.
  KOKKOS_FORCEINLINE_FUNCTION static bool add_round(Move const* moves, ArrayView<Scalar> const& lane_slots,
                                                    PackType (&sums)[group_size][Tile::packs_per_lane],
                                                    int (&target)[group_size]) {
    PackType values[group_size][2][Tile::packs_per_lane];
    Scalar weights[group_size][2];
    bool is_last = true;
    VARVE_UNROLL
    for (int step = 0; step < group_size; ++step) {
      Move const move = moves[step];
      target[step] = move.target;
      is_last = move.is_last != 0;
      VARVE_UNROLL
      for (int edge = 0; edge < 2; ++edge) {
        weights[step][edge] = move.weight[edge];
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k)
          copy(values[step][edge][k], pack_at(lane_slots, move.place[edge], k));
      }
    }
    VARVE_UNROLL
    for (int edge = 0; edge < 2; ++edge) {
      VARVE_UNROLL
      for (int step = 0; step < group_size; ++step) {
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k)
          add_product(sums[step][k], weights[step][edge], values[step][edge][k]);
      }
    }
    return is_last;
  }

  KOKKOS_FORCEINLINE_FUNCTION void store(Program const& program, int tile, int lane,
                                         ArrayView<Scalar> const& slots) const {
    auto const lane_slots = part_of(slots, Tile::sample_of(lane, 0));
    auto const outputs = part_of(run.outputs, program.first_output, program.num_outputs);
    auto const from = part_of(run.output_places, program.first_output, program.num_outputs);
    auto const target = tile_of(pass.next, tile, run.num_outputs, Tile::num_samples);
    typename Tile::Seen seen[Tile::packs_per_lane];
    for (auto& bits : seen) clear(bits);
    for (int line = 0; line < program.num_outputs / line_length; ++line) {
      auto const neurons = piece_of<Line<NeuronIndex>>(outputs, line);
      auto const held_in = piece_of<Line<std::uint16_t>>(from, line);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) {
        PackType values[line_length];
        VARVE_UNROLL
        for (int i = 0; i < line_length; ++i) copy(values[i], pack_at(lane_slots, held_in.lane[i], k));
        VARVE_UNROLL
        for (int i = 0; i < line_length; ++i) {
          see(seen[k], values[i]);
          copy(Tile::pack_at(target, static_cast<int>(neurons.lane[i]), lane, k), values[i]);
        }
      }
    }
    stamp_live<Tile>(seen, pass.live_stamps, tile, lane, pass.stamp);
  }
};

/// Threads of a team for a run of cones: Tune::cone_team_size, or as many as fit scratch; 0 if none fits.
template <class Tile, class ExecutionSpace, class Programs>
int cone_team_size(Programs const& run) {
  using Kernel = ConeForward<ExecutionSpace, Programs, Tile>;
  for (int size = Kernel::Tune::cone_team_size; size > 0; --size) {
    if (Kernel::scratch_bytes(size, run.max_slots, run.max_rounds, run.max_groups) <= Kernel::Tune::max_cone_bytes)
      return size;
  }
  return 0;
}

/// Launches ConeForward. Samples are in tiles of Tile::num_samples. Does not fence.
template <class Tile, class ExecutionSpace, class Programs>
void cone_forward(ExecutionSpace const& space, Programs const& run, LayerPass<typename Tile::Scalar> const& pass) {
  using Kernel = ConeForward<ExecutionSpace, Programs, Tile>;
  auto const edges = run.edges();
  int const tiles = num_tiles(pass.max_samples, Tile::num_samples);
  if (tiles == 0) return;
  int const team_size = cone_team_size<Tile, ExecutionSpace>(run);
  int const num_parts = std::clamp(Kernel::Tune::cone_teams(num_processors(space)) / edges.num_programs, 1,
                                   (tiles + team_size - 1) / team_size);
  launch_teams("varve::cone_forward",
               typename Kernel::Policy(space, edges.num_programs * num_parts, team_size, Tile::num_lanes),
               Kernel{edges, pass, run.max_slots, run.max_rounds, run.max_groups}, Kernel::Tune::cone_level,
               Kernel::scratch_bytes(team_size, run.max_slots, run.max_rounds, run.max_groups) + 128);
}

} // namespace varve
