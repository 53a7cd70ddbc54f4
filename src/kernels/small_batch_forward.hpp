#pragma once

#include "core/execution.hpp"
#include "core/pack_sums.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <cstddef>
#include <string>

namespace varve {

/// The sums of a slice: `Width` neighbouring outputs that one thread computes together, each by its own fma-chain over
/// its edges in the order stored. In sliced ELL, `Width` is the slice width; in dense blocks, the outputs of a block.
template <class Edges, class Tile, int Width>
struct SliceSums {
  using Scalar = typename Tile::Scalar;
  using Lanes = Pack<Scalar, Width>; ///< one sample: a lane for each output

  /// Sums of one sample in sliced ELL: gathers the inputs of an edge of each output. Not inlined, because within a
  /// kernel g++ stores the sum to memory after every edge.
  [[gnu::noinline]] KOKKOS_FUNCTION static Lanes gathered(Edges const& layer, int slice, Scalar const* inputs) {
    auto const [first, last] = layer.chunks_of(slice * Width);
    auto const* indices = elements_of(layer.indices, std::size_t(first) * Width, std::size_t(last - first) * Width);
    auto const* weights = reinterpret_cast<Lanes const*>(
        elements_of(layer.weights, std::size_t(first) * Width, std::size_t(last - first) * Width));
    Lanes sum;
    clear(sum);
    for (auto edge = first; edge < last; ++edge, ++weights, indices += Width) {
      Lanes values;
      VARVE_UNROLL
      for (int lane = 0; lane < Width; ++lane) values.lane[lane] = inputs[indices[lane]];
      add_products(sum, *weights, values);
    }
    return sum;
  }

  /// Sums of one sample in `Blocks` neighbouring dense blocks, as independent chains: broadcasts each input.
  template <int Blocks>
  struct Group {
    Lanes of[Blocks];
  };
  template <int Blocks>
  [[gnu::noinline]] KOKKOS_FUNCTION static Group<Blocks> broadcast(Edges const& layer, int block,
                                                                   Scalar const* inputs) {
    Lanes const* weights[Blocks];
    Group<Blocks> sums;
    VARVE_UNROLL
    for (int i = 0; i < Blocks; ++i) {
      weights[i] = reinterpret_cast<Lanes const*>(layer.weights_of(block + i));
      clear(sums.of[i]);
    }
    for (int input = 0; input < layer.parameters.num_inputs; ++input) {
      VARVE_UNROLL
      for (int i = 0; i < Blocks; ++i) add_product(sums.of[i], inputs[input], weights[i][input]);
    }
    return sums;
  }

  /// Sums of a tile of samples: a pack for each output.
  struct Packs {
    typename Tile::PackType of[Width];
  };
  [[gnu::noinline]] KOKKOS_FUNCTION static Packs of_tile(Edges const& layer, int slice, Scalar const* inputs) {
    auto const* const lines = reinterpret_cast<typename Tile::PackType const*>(inputs);
    Packs sums;
    VARVE_UNROLL
    for (int output = 0; output < Width; ++output) clear(sums.of[output]);
    if constexpr (requires { Edges::is_dense; }) {
      Scalar const* weights = layer.weights_of(slice);
      for (int input = 0; input < layer.parameters.num_inputs; ++input, weights += Width) {
        VARVE_UNROLL
        for (int output = 0; output < Width; ++output) add_product(sums.of[output], weights[output], lines[input]);
      }
    } else {
      auto const [first, last] = layer.chunks_of(slice * Width);
      auto const* indices = elements_of(layer.indices, std::size_t(first) * Width, std::size_t(last - first) * Width);
      Scalar const* weights = elements_of(layer.weights, std::size_t(first) * Width, std::size_t(last - first) * Width);
      for (auto edge = first; edge < last; ++edge, weights += Width, indices += Width) {
        VARVE_UNROLL
        for (int output = 0; output < Width; ++output)
          add_product(sums.of[output], weights[output], lines[indices[output]]);
      }
    }
    return sums;
  }
};

/// Layers of few samples in one launch, for hosts:
///   next(j, s) = clip(fma-chain over the edges (j, i) of weight(j, i) * previous(i, s), + bias(j))
/// One team computes all layers, with a barrier after each; its threads share the slices of outputs of a layer. With
/// tiles of one sample, the lanes of a vector are the outputs of a slice. With larger tiles they are samples, and the
/// outputs of a slice are independent chains. (Kernels that compute output by output wait four cycles for each fma.)
/// Reads each weight once per tile. Bound by the bandwidth of the cache that holds the weights in dense blocks, by
/// loads of inputs (one for each edge) in sliced ELL, and, in small networks, by the launch.
template <class ExecutionSpace, class Format, class Tile>
struct SmallBatchForward {
  using Scalar = typename Tile::Scalar;
  using Edges = typename Format::Edges;
  static constexpr int width = Tuning<ExecutionSpace, Scalar>::few_outputs;
  using Sums = SliceSums<Edges, Tile, width>;
  static constexpr int num_samples = Tile::num_samples;
  static constexpr bool is_dense = requires { Edges::is_dense; };
  static constexpr int slices_at_a_time = is_dense && num_samples == 1 ? 4 : 1;

  ArrayView<Edges const> layers;
  DeviceSamples<ExecutionSpace, Scalar> samples;
  bool expands;             ///< true: the first layer's inputs are `samples`; false: `inputs`
  ArrayView<Scalar> inputs; ///< tiles of the first layer's inputs; the outputs of layers 1, 3, ... overwrite them
  LayerPass<Scalar> pass;   ///< `next` receives the outputs of layers 0, 2, ...

  template <class Member>
  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const tiles = num_tiles(pass.num_samples(0), num_samples);
    if (expands) {
      expand(team, tiles);
      team.team_barrier();
    }
    ArrayView<Scalar> from = inputs;
    ArrayView<Scalar> to = pass.next;
    int const num_layers = static_cast<int>(layers.size());
    for (int number = 0; number < num_layers; ++number) {
      if (number > 0) team.team_barrier();
      forward_share(team, layers(number), tiles, from, to, number + 1 == num_layers);
      ArrayView<Scalar> const read = from;
      from = to;
      to = read;
    }
  }

private:
  /// Writes the samples to tiles; each thread writes some tiles.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION void expand(Member const& team, int tiles) const {
    int const num_inputs = samples.num_neurons;
    for (int tile = team.team_rank(); tile < tiles; tile += team.team_size()) {
      auto const target = tile_of(inputs, tile, num_inputs, num_samples);
      for (std::size_t i = 0; i < target.size(); ++i) target(i) = Scalar(0);
      for (int i = 0; i < num_samples && tile * num_samples + i < samples.num_samples; ++i) {
        int const sample = tile * num_samples + i;
        for (auto entry = samples.row_pointers(sample); entry < samples.row_pointers(sample + 1); ++entry)
          target(std::size_t(samples.columns(entry)) * num_samples + static_cast<std::size_t>(i)) =
              samples.values(entry * static_cast<EdgeOffset>(samples.value_stride));
      }
    }
  }

  /// Computes this thread's share of a layer: neighbouring slices, for all tiles. stamps: whether to stamp live
  /// samples.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION void forward_share(Member const& team, Edges const& layer, int tiles,
                                                 ArrayView<Scalar> const& from, ArrayView<Scalar> const& to,
                                                 bool stamps) const {
    auto const& parameters = layer.parameters;
    int const slices = (parameters.num_outputs + width - 1) / width;
    int const groups = (slices + slices_at_a_time - 1) / slices_at_a_time;
    int const threads = team.team_size();
    int const first = static_cast<int>(std::int64_t(groups) * team.team_rank() / threads);
    int const last = static_cast<int>(std::int64_t(groups) * (team.team_rank() + 1) / threads);
    for (int group = first; group < last; ++group) {
      int const slice = group * slices_at_a_time;
      for (int tile = 0; tile < tiles; ++tile) {
        auto const source = tile_of(from, tile, parameters.num_inputs, num_samples);
        auto const target = tile_of(to, tile, parameters.num_outputs, num_samples);
        if constexpr (num_samples > 1) {
          finish_tile(layer, slice, Sums::of_tile(layer, slice, source.data()), tile, target, stamps);
        } else if constexpr (is_dense) {
          broadcast_slices(layer, slice, slices, source.data(), tile, target, stamps);
        } else {
          finish_sample(layer, slice, Sums::gathered(layer, slice, source.data()), tile, target, stamps);
        }
      }
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void broadcast_slices(Edges const& layer, int slice, int slices, Scalar const* source,
                                                    int tile, ArrayView<Scalar> const& target, bool stamps) const {
    if (slice + slices_at_a_time <= slices) {
      auto const sums = Sums::template broadcast<slices_at_a_time>(layer, slice, source);
      for (int i = 0; i < slices_at_a_time; ++i) finish_sample(layer, slice + i, sums.of[i], tile, target, stamps);
    } else {
      for (int i = slice; i < slices; ++i)
        finish_sample(layer, i, Sums::template broadcast<1>(layer, i, source).of[0], tile, target, stamps);
    }
  }

  /// Applies bias and activation to the outputs of a slice of one sample and stores them.
  KOKKOS_FORCEINLINE_FUNCTION void finish_sample(Edges const& layer, int slice, typename Sums::Lanes sum, int tile,
                                                 ArrayView<Scalar> const& target, bool stamps) const {
    auto const& parameters = layer.parameters;
    int const first = slice * width;
    double bias[width];
    for (int lane = 0; lane < width; ++lane) bias[lane] = parameters.bias_of(first + lane);
    finish_outputs(sum, bias, parameters.bounds);
    int const rest = parameters.num_outputs - first;
    bool is_live = false;
    for (int lane = 0; lane < width && lane < rest; ++lane) {
      target(parameters.neuron_of(first + lane)) = sum.lane[lane];
      is_live = is_live || sum.lane[lane] != Scalar(0);
    }
    if (stamps && is_live) store_common(pass.live_stamps(tile), pass.stamp);
  }

  /// Applies bias and activation to the outputs of a slice of a tile and stores them.
  KOKKOS_FORCEINLINE_FUNCTION void finish_tile(Edges const& layer, int slice, typename Sums::Packs const& sums,
                                               int tile, ArrayView<Scalar> const& target, bool stamps) const {
    auto const& parameters = layer.parameters;
    int const rest = parameters.num_outputs - slice * width;
    typename Tile::Seen seen[1];
    clear(seen[0]);
    for (int output = 0; output < width && output < rest; ++output) {
      auto sum = sums.of[output];
      finish(sum, parameters.bias_of(slice * width + output), parameters.bounds);
      see(seen[0], sum);
      copy(Tile::pack_at(target, parameters.neuron_of(slice * width + output), 0, 0), sum);
    }
    if (stamps) stamp_live<Tile>(seen, pass.live_stamps, tile, 0, pass.stamp);
  }
};

/// Launches SmallBatchForward with as many threads as have enough work; a single thread runs without starting others.
/// weights_per_layer: stored weights, on average. Does not fence afterwards.
template <class ExecutionSpace, class Format, class Tile>
void small_batch_forward(ExecutionSpace const& space, SmallBatchForward<ExecutionSpace, Format, Tile> const& kernel,
                         std::size_t weights_per_layer) {
  using Kernel = SmallBatchForward<ExecutionSpace, Format, Tile>;
  using Tune = Tuning<ExecutionSpace, typename Tile::Scalar>;
  int const tiles = num_tiles(kernel.pass.max_samples, Tile::num_samples);
  if (tiles == 0) return;
  auto const work = static_cast<double>(weights_per_layer) * tiles * (Kernel::is_dense ? 1 : Tune::few_cost_of_edge) *
                    (Tile::num_samples > 1 ? Tune::few_cost_of_tile : 1);
  int const threads = Tune::few_threads(num_processors(space), work);
  std::string const label = "varve::small_batch_forward";
  if (threads > 1) {
    launch_teams(label, Kokkos::TeamPolicy<ExecutionSpace>(space, 1, threads), kernel);
  } else {
    space.fence("varve: before a launch in one thread");
    launch_teams(label, Kokkos::TeamPolicy<ShortSpace<ExecutionSpace>>(1, 1), kernel);
  }
}

} // namespace varve
