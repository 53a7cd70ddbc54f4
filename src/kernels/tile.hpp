#pragma once

#include "core/execution.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Shape of a tile: num_samples neighbouring samples (a power of two), held by num_lanes lanes, each with
/// packs_per_lane packs of pack_width samples. In memory a tile is [neuron][sample], so that each neuron's line of
/// num_samples values is contiguous; pack k of a lane starts at sample (k * num_lanes + lane) * pack_width.
template <class Scalar_, int PackWidth, int PacksPerLane, int NumLanes>
struct TileShape {
  using Scalar = Scalar_;
  using PackType = Pack<Scalar, PackWidth>;
  using Seen = LaneIntegers<Scalar, PackWidth>;
  static constexpr int pack_width = PackWidth;
  static constexpr int packs_per_lane = PacksPerLane;
  static constexpr int num_lanes = NumLanes;
  static constexpr int num_samples = PackWidth * PacksPerLane * NumLanes;
  static_assert((num_samples & (num_samples - 1)) == 0);

  /// The activations of a neuron for the samples of a tile.
  struct Line {
    PackType pack[PacksPerLane * NumLanes];
  };

  /// First sample of a lane's pack.
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int sample_of(int lane, int pack) {
    return (pack * NumLanes + lane) * PackWidth;
  }

  /// A lane's pack of one neuron in a tile; `Value` is Scalar or Scalar const.
  template <class Value>
  KOKKOS_FORCEINLINE_FUNCTION static auto& pack_at(ArrayView<Value> const& tile, int neuron, int lane, int pack) {
    return piece_of<Line>(tile, static_cast<std::uint32_t>(neuron)).pack[pack * NumLanes + lane];
  }
};

/// A tile that threads read from team scratch with fewer bank conflicts. `lane` is below 2 * AlikeOutputs * NumLanes,
/// and the second half of the lanes swaps its two packs. So of 2 * AlikeOutputs outputs computed at a time, half read
/// first packs of lines and half second packs, from different banks.
template <class Scalar, int PackWidth, int NumLanes, int AlikeOutputs = 1>
struct RotatedTileShape : TileShape<Scalar, PackWidth, 2, NumLanes> {
  using Base = TileShape<Scalar, PackWidth, 2, NumLanes>;

  KOKKOS_FORCEINLINE_FUNCTION static constexpr int sample_of(int lane, int pack) {
    return Base::sample_of(lane % NumLanes, pack ^ (lane / (AlikeOutputs * NumLanes)));
  }

  template <class Value>
  KOKKOS_FORCEINLINE_FUNCTION static auto& pack_at(ArrayView<Value> const& tile, int neuron, int lane, int pack) {
    return Base::pack_at(tile, neuron, lane % NumLanes, pack ^ (lane / (AlikeOutputs * NumLanes)));
  }
};

/// The number of values of the argument `lane` in the functions of a tile shape.
template <class Tile>
inline constexpr int kNumLaneIds = Tile::num_lanes;
template <class Scalar, int PackWidth, int NumLanes, int AlikeOutputs>
inline constexpr int kNumLaneIds<RotatedTileShape<Scalar, PackWidth, NumLanes, AlikeOutputs>> =
    2 * AlikeOutputs* NumLanes;

/// Number of tiles of tile_samples samples that hold `num_slots` slots.
KOKKOS_FORCEINLINE_FUNCTION constexpr int num_tiles(int num_slots, int tile_samples) {
  return (num_slots + tile_samples - 1) / tile_samples;
}

/// Index of a slot's activation 0 in a panel of tiles [neuron][sample]; activation i is i * tile_samples later.
KOKKOS_FORCEINLINE_FUNCTION std::size_t place_of_slot(int slot, int num_neurons, int tile_samples) {
  int const tile = slot / tile_samples;
  return static_cast<std::size_t>(tile) * static_cast<std::size_t>(num_neurons) *
             static_cast<std::size_t>(tile_samples) +
         static_cast<std::size_t>(slot - tile * tile_samples);
}

/// The first index in [begin, end) for which is_before(index) is false; `end` if there is none. A binary search:
/// indices for which it is true come first.
template <class Index, class IsBefore>
KOKKOS_FORCEINLINE_FUNCTION Index first_not_before(Index begin, Index end, IsBefore const& is_before) {
  while (begin < end) {
    Index const middle = begin + (end - begin) / 2;
    if (is_before(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

/// Stores a number in a word that every concurrent writer sets to the same number. On a GPU a thread that already reads
/// this number does not store: atomic stores of thousands of threads to one line would serialize (measured: four fifths
/// of the time of a layer of 16384 neurons).
KOKKOS_FORCEINLINE_FUNCTION void store_common(int& word, int number) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    if (word != number) word = number;
  ))
  KOKKOS_IF_ON_HOST((Kokkos::atomic_store(&word, number);))
  // clang-format on
}

/// Tile number `tile` of a panel of tiles of `tile_samples` samples.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar> tile_of(ArrayView<Scalar> const& panel, int tile, int num_neurons,
                                                      int tile_samples) {
  return part_of(panel, place_of_slot(tile * tile_samples, num_neurons, tile_samples),
                 static_cast<std::size_t>(num_neurons) * static_cast<std::size_t>(tile_samples));
}

/// The activations of a slot, from the first on; activation i is element i * tile_samples.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar> sample_of_slot(ArrayView<Scalar> const& panel, int slot, int num_neurons,
                                                             int tile_samples) {
  return part_of(panel, place_of_slot(slot, num_neurons, tile_samples));
}

/// The address of a slot's first activation; activation i is element i * tile_samples. For kernels that hold several
/// samples at a time: a GPU would keep an array of Views in local memory, not in registers.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar* address_of_slot(ArrayView<Scalar> const& panel, int slot, int num_neurons,
                                                    int tile_samples) {
  auto const span = static_cast<std::size_t>(num_neurons - 1) * static_cast<std::size_t>(tile_samples) + 1;
  return elements_of(panel, place_of_slot(slot, num_neurons, tile_samples), num_neurons > 0 ? span : 0);
}

/// Stamps the slots of a lane's samples that have a nonzero activation according to `seen`.
template <class Tile>
KOKKOS_FORCEINLINE_FUNCTION void stamp_live(typename Tile::Seen const (&seen)[Tile::packs_per_lane],
                                            ArrayView<int> const& live_stamps, int tile, int lane, int stamp) {
  auto const tile_stamps = part_of(live_stamps, static_cast<std::size_t>(tile * Tile::num_samples), Tile::num_samples);
  for (int k = 0; k < Tile::packs_per_lane; ++k) {
    for (int i = 0; i < Tile::pack_width; ++i) {
      if (seen[k].lane[i] != 0) store_common(tile_stamps(Tile::sample_of(lane, k) + i), stamp);
    }
  }
}

/// Arrays that a kernel of one layer reads and writes besides the layer.
template <class Scalar>
struct LayerPass {
  ArrayView<Scalar const> previous; ///< tiles of the layer's inputs
  int previous_tile_samples;
  ArrayView<int const> from_slot;   ///< position -> slot in `previous`; empty: all slots in order
  ArrayView<Scalar> next;           ///< tiles of the layer's outputs, position by position
  ArrayView<int const> num_samples; ///< one element: positions in use
  int max_samples;                  ///< upper bound of num_samples(0), known on the host
  ArrayView<int> live_stamps;       ///< one per position
  int stamp;                        ///< marks positions with a nonzero activation
  int first_output = 0;             ///< strips: line of the strip's first output in the tiles of `next`
  int num_lines = 0;                ///< strips: neurons in the tiles of `next`; 0: the outputs are a whole layer

  KOKKOS_FORCEINLINE_FUNCTION bool is_listed() const { return from_slot.data() != nullptr; }

  /// The lines that the outputs fill in a tile of `next`.
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<Scalar> outputs_of(int tile, int num_outputs, int tile_samples) const {
    auto const samples = static_cast<std::size_t>(tile_samples);
    std::size_t const first =
        place_of_slot(tile * tile_samples, num_lines == 0 ? num_outputs : num_lines, tile_samples);
    return part_of(next, first + static_cast<std::size_t>(first_output) * samples,
                   static_cast<std::size_t>(num_outputs) * samples);
  }

  /// The slot of a position. With a list, positions past the end, which fill up the last tile, repeat its last slot.
  KOKKOS_FORCEINLINE_FUNCTION int slot_of(int position, int count) const {
    if (!is_listed()) return position;
    return from_slot(position < count ? position : count - 1);
  }
};

/// True if layers in this format may be cut into ranges of inputs (formats/sliced_ell.hpp).
template <class Format>
inline constexpr bool kMayHaveRanges = requires {
  requires Format::may_have_ranges;
};

/// Sums of one block of outputs for one lane: a chain of fma per output and sample, in the order of the edges.
template <class Tile, int BlockOutputs>
struct BlockSums {
  typename Tile::PackType sum[BlockOutputs][Tile::packs_per_lane];

  KOKKOS_FORCEINLINE_FUNCTION void clear_sums() {
    VARVE_UNROLL
    for (int output = 0; output < BlockOutputs; ++output) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) clear(sum[output][k]);
    }
  }

  /// Computes the sums over all edges of a block from a tile of inputs.
  template <class Edges>
  KOKKOS_FORCEINLINE_FUNCTION void accumulate(Edges const& layer, int block,
                                              ArrayView<typename Tile::Scalar const> const& tile, int lane) {
    // clang-format off
    KOKKOS_IF_ON_DEVICE((
      clear_sums();
      add_products(layer, block, tile, lane);
    ))
    KOKKOS_IF_ON_HOST((
      if constexpr (requires { Edges::is_dense; }) {
        *this = sums_noinline(layer, block, tile, lane);
      } else {
        clear_sums();
        add_products(layer, block, tile, lane);
      }
    ))
    // clang-format on
  }

  /// Host only: accumulate() as a separate function, for layers with so many edges that a call costs nothing. Within a
  /// kernel g++ 12 stores the sums to memory after every edge: a dense layer took twice as long.
  template <class Edges>
  [[gnu::noinline]] static BlockSums sums_noinline(Edges const& layer, int block,
                                                   ArrayView<typename Tile::Scalar const> const& tile, int lane) {
    BlockSums sums;
    sums.clear_sums();
    sums.add_products(layer, block, tile, lane);
    return sums;
  }

  /// Continues the sums with the edges of a list of the layer: of a block, or of a block in a range of inputs.
  template <class Edges>
  KOKKOS_FORCEINLINE_FUNCTION void add_products(Edges const& layer, int list,
                                                ArrayView<typename Tile::Scalar const> const& tile, int lane) {
    using PackType = typename Tile::PackType;
    constexpr int ahead = Edges::edges_at_a_time; // loads of this many edges are issued before the first use
    layer.for_each_edges(list, [&](auto const* inputs, auto const& weights_of) {
      PackType value[ahead][Tile::packs_per_lane];
      VARVE_UNROLL
      for (int edge = 0; edge < ahead; ++edge) {
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k)
          copy(value[edge][k], Tile::pack_at(tile, static_cast<int>(inputs[edge]), lane, k));
      }
      VARVE_UNROLL
      for (int edge = 0; edge < ahead; ++edge) {
        auto const weights = weights_of(edge);
        VARVE_UNROLL
        for (int output = 0; output < BlockOutputs; ++output) {
          VARVE_UNROLL
          for (int k = 0; k < Tile::packs_per_lane; ++k) add_product(sum[output][k], weights[output], value[edge][k]);
        }
      }
    });
  }

  /// Applies bias and activation; `seen` collects the bits of all results. (There is only one branch, on the whole
  /// block, so that the loads of its biases and neurons are in flight together.)
  template <bool MayHaveCurve = false, class Parameters>
  KOKKOS_FORCEINLINE_FUNCTION void finish_block(Parameters const& layer, int block,
                                                typename Tile::Seen (&seen)[Tile::packs_per_lane]) {
    finish_sums<MayHaveCurve>(layer, block);
    see_results(layer, block, seen);
  }

  /// finish_block() without `seen`.
  template <bool MayHaveCurve = false, class Parameters>
  KOKKOS_FORCEINLINE_FUNCTION void finish_sums(Parameters const& layer, int block) {
    VARVE_UNROLL
    for (int output = 0; output < BlockOutputs; ++output) {
      double const bias = layer.bias_of(block * BlockOutputs + output);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) {
        if constexpr (MayHaveCurve) {
          finish_with_curve(sum[output][k], bias, layer.bounds);
        } else {
          finish(sum[output][k], bias, layer.bounds);
        }
      }
    }
  }

  /// Collects the bits of the results of a block.
  template <class Parameters>
  KOKKOS_FORCEINLINE_FUNCTION void see_results(Parameters const& layer, int block,
                                               typename Tile::Seen (&seen)[Tile::packs_per_lane]) const {
    for_outputs(layer, block, [&](int output) {
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) see(seen[k], sum[output][k]);
    });
  }

  /// finish_block() and store() in one: writes each result immediately.
  template <class Parameters>
  KOKKOS_FORCEINLINE_FUNCTION void finish_and_store(Parameters const& layer, int block,
                                                    ArrayView<typename Tile::Scalar> const& tile, int lane,
                                                    typename Tile::Seen (&seen)[Tile::packs_per_lane]) {
    for_outputs(layer, block, [&](int output) {
      double const bias = layer.bias_of(block * BlockOutputs + output);
      int const neuron = layer.neuron_of(block * BlockOutputs + output);
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) {
        finish(sum[output][k], bias, layer.bounds);
        see(seen[k], sum[output][k]);
        copy(Tile::pack_at(tile, neuron, lane, k), sum[output][k]);
      }
    });
  }

  /// The neurons that the outputs of a block compute.
  struct Neurons {
    int of[BlockOutputs];
  };
  template <class Parameters>
  KOKKOS_FORCEINLINE_FUNCTION static Neurons neurons_of(Parameters const& layer, int block) {
    Neurons neurons;
    VARVE_UNROLL
    for (int output = 0; output < BlockOutputs; ++output)
      neurons.of[output] = layer.neuron_of(block * BlockOutputs + output);
    return neurons;
  }

  /// Reads the sums of a block of one output, which store() wrote.
  template <class Parameters>
  KOKKOS_FORCEINLINE_FUNCTION void load(Parameters const& layer, int block,
                                        ArrayView<typename Tile::Scalar> const& tile, int lane) {
    static_assert(BlockOutputs == 1);
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k)
      copy(sum[0][k], Tile::pack_at(tile, layer.neuron_of(block), lane, k));
  }

  /// Writes the results. Outputs past the last one are not written.
  template <class Parameters>
  KOKKOS_FORCEINLINE_FUNCTION void store(Parameters const& layer, int block, Neurons const& neurons,
                                         ArrayView<typename Tile::Scalar> const& tile, int lane) const {
    for_outputs(layer, block, [&](int output) {
      int const neuron = neurons.of[output];
      VARVE_UNROLL
      for (int k = 0; k < Tile::packs_per_lane; ++k) copy(Tile::pack_at(tile, neuron, lane, k), sum[output][k]);
    });
  }
  template <class Parameters>
  KOKKOS_FORCEINLINE_FUNCTION void store(Parameters const& layer, int block,
                                         ArrayView<typename Tile::Scalar> const& tile, int lane) const {
    store(layer, block, neurons_of(layer, block), tile, lane);
  }

private:
  /// Calls work(output) for each output of the block; the last block of a layer may have fewer than BlockOutputs.
  template <class Parameters, class Work>
  KOKKOS_FORCEINLINE_FUNCTION static void for_outputs(Parameters const& layer, int block, Work const& work) {
    int const count = layer.num_outputs - block * BlockOutputs;
    if (count >= BlockOutputs) {
      VARVE_UNROLL
      for (int output = 0; output < BlockOutputs; ++output) work(output);
    } else {
      VARVE_UNROLL
      for (int output = 0; output < BlockOutputs; ++output) {
        if (output < count) work(output);
      }
    }
  }
};

/// The blocks that a thread computes: first, first + step, ... below `last`.
struct BlockSteps {
  int first, last, step;
};

/// Host only: adds the edges to one range of inputs to the sums of blocks, which lie in `outputs`. A function of its
/// own, as within a larger one g++ 12 stores the sums to memory after every edge.
template <class Format, class Tile>
[[gnu::noinline]] void add_range(typename Format::Edges const& layer, int range, BlockSteps blocks,
                                 ArrayView<typename Tile::Scalar const> const& inputs,
                                 ArrayView<typename Tile::Scalar> const& outputs, int lane) {
  for (int block = blocks.first; block < blocks.last; block += blocks.step) {
    BlockSums<Tile, Format::block_outputs> sums;
    sums.clear_sums();
    if (range > 0) sums.load(layer.parameters, block, outputs, lane);
    sums.add_products(layer, range * layer.num_blocks() + block, inputs, lane);
    sums.store(layer.parameters, block, outputs, lane);
  }
}

/// Host only: forward_blocks() for a layer in ranges of inputs, whose lines stay in the L1 while the outputs read them:
/// one line of activations from there for one fma per sample; one line of sums from the L2, read and written, per
/// range.
template <class Format, class Tile>
void forward_ranges(typename Format::Edges const& layer, int num_ranges, BlockSteps blocks,
                    ArrayView<typename Tile::Scalar const> const& inputs,
                    ArrayView<typename Tile::Scalar> const& outputs, int lane,
                    typename Tile::Seen (&seen)[Tile::packs_per_lane]) {
  for (int range = 0; range < num_ranges; ++range) add_range<Format, Tile>(layer, range, blocks, inputs, outputs, lane);
  for (int block = blocks.first; block < blocks.last; block += blocks.step) {
    BlockSums<Tile, Format::block_outputs> sums;
    sums.load(layer.parameters, block, outputs, lane);
    sums.template finish_block<Format::may_have_curve>(layer.parameters, block, seen);
    sums.store(layer.parameters, block, outputs, lane);
  }
}

/// Computes blocks of a layer for the samples of one lane, from a tile of inputs to the lines of its outputs. `seen`
/// collects the bits of all results.
template <class Format, class Tile>
KOKKOS_FORCEINLINE_FUNCTION void forward_blocks(typename Format::Edges const& layer, BlockSteps blocks,
                                                ArrayView<typename Tile::Scalar const> const& inputs,
                                                ArrayView<typename Tile::Scalar> const& outputs, int lane,
                                                typename Tile::Seen (&seen)[Tile::packs_per_lane]) {
  if constexpr (kMayHaveRanges<Format>) {
    // clang-format off
    KOKKOS_IF_ON_HOST((
      if (int const num_ranges = layer.num_ranges(); num_ranges > 1)
        return forward_ranges<Format, Tile>(layer, num_ranges, blocks, inputs, outputs, lane, seen);
    ))
    // clang-format on
  }
  for (int block = blocks.first; block < blocks.last; block += blocks.step) {
    BlockSums<Tile, Format::block_outputs> sums;
    sums.accumulate(layer, block, inputs, lane);
    sums.template finish_block<Format::may_have_curve>(layer.parameters, block, seen);
    sums.store(layer.parameters, block, outputs, lane);
  }
}

} // namespace varve
