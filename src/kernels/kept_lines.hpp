#pragma once

#include "kernels/tile.hpp"

#include <cstring>

namespace varve {

/// Host only: packs the activations of some samples of a tile together, neuron by neuron, by permuting the lanes of
/// whole packs (a host tile has one lane). Reads and writes each line once; three instructions per pack.
template <class Tile>
class KeptLines {
public:
  using Scalar = typename Tile::Scalar;
  static constexpr int width = Tile::pack_width;
  static_assert(Tile::num_lanes == 1);

  /// A line of activations, with room for the lanes that the last pack stores past its end.
  struct alignas(sizeof(typename Tile::PackType)) Line {
    Scalar values[Tile::num_samples + width];
  };

  /// kept: indices of the samples to keep, within the tile, ascending.
  KeptLines(ArrayView<int const> const& kept, int num_kept) {
    for (int pack = 0, next = 0; pack < Tile::packs_per_lane; ++pack) {
      int& count = counts_[pack];
      for (count = 0; next < num_kept && kept(next) < (pack + 1) * width; ++next)
        orders_[pack].from[count++] = kept(next) - pack * width;
      for (int i = count; i < width; ++i) orders_[pack].from[i] = 0;
    }
  }

  /// Writes a neuron's activations of the kept samples to the front of `line`.
  void gather(Line& line, ArrayView<Scalar const> const& tile, int neuron) const {
    Scalar* end = line.values;
    for (int pack = 0; pack < Tile::packs_per_lane; ++pack) {
      typename Tile::PackType reordered;
      reorder_lanes(reordered, Tile::pack_at(tile, neuron, 0, pack), orders_[pack]);
      std::memcpy(end, reordered.lane, sizeof(reordered));
      end += counts_[pack];
    }
  }

private:
  LaneOrder<Scalar, width> orders_[Tile::packs_per_lane];
  int counts_[Tile::packs_per_lane];
};

/// Copies `count` values in pieces of constant length: Most values, then half as many, a quarter, and so on.
template <int Most, class Scalar>
inline void copy_values(Scalar* target, Scalar const* source, int count) {
  for (; count >= Most; count -= Most, target += Most, source += Most)
    std::memcpy(target, source, Most * sizeof(Scalar));
  if constexpr (Most > 1) {
    if (count > 0) copy_values<Most / 2>(target, source, count);
  }
}

} // namespace varve
