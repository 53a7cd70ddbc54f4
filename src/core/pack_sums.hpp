#pragma once

#include "core/pack.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace varve {

/// sum = fma(a, b, sum) in every lane, rounded once.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void add_products(Pack<Scalar, Width>& sum, Pack<Scalar, Width> const& a,
                                              Pack<Scalar, Width> const& b) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) sum.lane[i] = Kokkos::fma(a.lane[i], b.lane[i], sum.lane[i]);
  ))
  KOKKOS_IF_ON_HOST((
    using Register = typename host::FmaRegister<Scalar, Width>::type;
    if constexpr (std::is_void_v<Register>) {
      for (int i = 0; i < Width; ++i) sum.lane[i] = std::fma(a.lane[i], b.lane[i], sum.lane[i]);
    } else {
      host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
        host::store(sum.lane + i, Kokkos::fma(host::load<Register>(a.lane + i), host::load<Register>(b.lane + i),
                                              host::load<Register>(sum.lane + i)));
      });
    }
  ))
  // clang-format on
}

/// sum = sum + other in every lane. Free on processors that add in parallel with fma.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void add_pack(Pack<Scalar, Width>& sum, Pack<Scalar, Width> const& other) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) sum.lane[i] += other.lane[i];
  ))
  KOKKOS_IF_ON_HOST((
    constexpr int piece = host::kPieceLanes<Scalar, Width>;
    using Vector = typename host::Vectors<Scalar, piece>::Vector;
    host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      host::store(sum.lane + i, host::load<Vector>(sum.lane + i) + host::load<Vector>(other.lane + i));
    });
  ))
  // clang-format on
}

namespace host {

/// A shuffle: lane i of the result is lane Lane[i] of `first` followed by `second`. (nvcc does not expand parameter
/// packs in arguments of __builtin_shufflevector; Clang has no __builtin_shuffle.)
template <class Scalar, int... Lane>
inline auto shuffled(typename Vectors<Scalar, sizeof...(Lane)>::Vector const& first,
                     typename Vectors<Scalar, sizeof...(Lane)>::Vector const& second,
                     std::integer_sequence<int, Lane...> /*lanes*/) {
#if defined(__clang__)
  return __builtin_shufflevector(first, second, Lane...);
#else
  using BitVector = typename Vectors<Scalar, sizeof...(Lane)>::BitVector;
  BitVector const lanes = {Lane...};
  return __builtin_shuffle(first, second, lanes);
#endif
}

/// One step of lane_trees(). Two vectors that each hold `Width / RowLanes` rows of RowLanes numbers become one vector
/// of twice as many rows of half as many numbers. Rows longer than a block of 16 bytes keep their order, those of the
/// first vector first; shorter rows of the two vectors alternate within each block, because such shuffles are cheaper.
template <class Scalar, int Width, int RowLanes>
struct TreeStep {
  static constexpr int block = 16 / static_cast<int>(sizeof(Scalar));
  static constexpr bool in_blocks = RowLanes <= block;

  /// The lane of the first vector followed by the second that holds number i of all low (or high) halves of rows.
  static constexpr int source(int i, bool is_high) {
    int const half = RowLanes / 2;
    int const span = in_blocks ? block : Width; // numbers move within groups of this many lanes
    int const place = i % span;
    bool const from_second = place >= span / 2;
    int const within = place % (span / 2);
    int const row = within / half;
    return i / span * span + row * RowLanes + within % half + (is_high ? half : 0) + (from_second ? Width : 0);
  }

  template <class Vector, std::size_t... Lane>
  static Vector combine(Vector const& first, Vector const& second, std::index_sequence<Lane...>) {
    Vector const low =
        shuffled<Scalar>(first, second, std::integer_sequence<int, source(static_cast<int>(Lane), false)...>());
    Vector const high =
        shuffled<Scalar>(first, second, std::integer_sequence<int, source(static_cast<int>(Lane), true)...>());
    return low + high;
  }
};

/// By lane: the row whose sum the lane holds after all steps.
template <class Scalar, int Width>
constexpr std::array<int, Width> rows_of_lanes() {
  std::array<std::array<int, Width>, Width> rows{}; // [vector][lane]
  for (int v = 0; v < Width; ++v)
    for (auto& row : rows[static_cast<std::size_t>(v)]) row = v;
  auto const halve = [&]<int RowLanes>() {
    auto const before = rows;
    for (int v = 0; v < RowLanes / 2; ++v)
      for (int i = 0; i < Width; ++i) {
        int const from = TreeStep<Scalar, Width, RowLanes>::source(i, false);
        rows[static_cast<std::size_t>(v)][static_cast<std::size_t>(i)] =
            before[static_cast<std::size_t>(from < Width ? v : v + RowLanes / 2)]
                  [static_cast<std::size_t>(from % Width)];
      }
  };
  if constexpr (Width >= 16) halve.template operator()<16>();
  if constexpr (Width >= 8) halve.template operator()<8>();
  if constexpr (Width >= 4) halve.template operator()<4>();
  halve.template operator()<2>();
  return rows[0];
}

/// All steps from this number of rows down to one vector, rows[0]. Folds instead of loops keep vectors in registers.
template <class Scalar, int Width, int RowLanes, class Vector, std::size_t... Row>
inline void halve_rows(Vector (&rows)[Width], std::index_sequence<Row...> /*rows of the next step*/) {
  constexpr std::size_t half = sizeof...(Row);
  ((rows[Row] =
        TreeStep<Scalar, Width, RowLanes>::combine(rows[Row], rows[Row + half], std::make_index_sequence<Width>())),
   ...);
  if constexpr (half > 1) halve_rows<Scalar, Width, RowLanes / 2>(rows, std::make_index_sequence<half / 2>());
}

/// The lane that holds the sum of this row after all steps.
template <class Scalar, int Width>
constexpr int lane_of_row(int row) {
  auto const rows = rows_of_lanes<Scalar, Width>();
  int lane = 0;
  while (rows[static_cast<std::size_t>(lane)] != row) ++lane;
  return lane;
}

/// Moves the sum of row i to lane i.
template <class Scalar, int Width, class Vector, std::size_t... Row>
inline Vector in_order(Vector const& rows, std::index_sequence<Row...>) {
  return shuffled<Scalar>(rows, rows,
                          std::integer_sequence<int, lane_of_row<Scalar, Width>(static_cast<int>(Row))...>());
}

/// sums[i] = numbers[i] + numbers[i + Half].
template <class Scalar, int Half>
inline void add_halves(Scalar (&sums)[Half], Scalar const (&numbers)[2 * Half]) {
  constexpr int piece = kPieceLanes<Scalar, Half>;
  using Vector = typename Vectors<Scalar, piece>::Vector;
  for_pieces<Scalar, Half>([&](auto i) __attribute__((always_inline)) {
    store(sums + i, load<Vector>(numbers + i) + load<Vector>(numbers + Half + i));
  });
}

} // namespace host

/// Host only: lane i of the result is the sum over the lanes of rows[i], added by a tree: lane c and lane c + d for d =
/// Width / 2, ..., 2, 1. All trees are computed at once, with half the additions at each step. Rows longer than a
/// register are first added by halves.
template <class Scalar, int Width>
inline Pack<Scalar, Width> lane_trees(Pack<Scalar, Width> const (&rows)[Width]) {
  static_assert((Width & (Width - 1)) == 0 && Width >= 2 && Width <= 16);
  Pack<Scalar, Width> sums;
  if constexpr (host::kPieceLanes<Scalar, Width> < Width) {
    constexpr int half = Width / 2;
    for (int first = 0; first < Width; first += half) {
      Pack<Scalar, half> halves[half];
      for (int row = 0; row < half; ++row) host::add_halves(halves[row].lane, rows[first + row].lane);
      Pack<Scalar, half> const trees = lane_trees(halves);
      for (int i = 0; i < half; ++i) sums.lane[first + i] = trees.lane[i];
    }
  } else {
    using Vector = typename host::Vectors<Scalar, Width>::Vector;
    auto const add = [&]<std::size_t... Row>(std::index_sequence<Row...>) {
      Vector vectors[Width] = {host::load<Vector>(rows[Row].lane)...};
      host::halve_rows<Scalar, Width, Width>(vectors, std::make_index_sequence<Width / 2>());
      return host::in_order<Scalar, Width>(vectors[0], std::make_index_sequence<Width>());
    };
    host::store(sums.lane, add(std::make_index_sequence<Width>()));
  }
  return sums;
}

/// finish() of a pack whose lanes hold outputs of one sample: each lane has its own bias.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void finish_outputs(Pack<Scalar, Width>& sum, double const (&bias)[Width],
                                                Bounds<Scalar> const& bounds) {
  Curve const curve = bounds.curve();
  double const slope = curve == Curve::none ? bounds.slope : 1.0;
  for (int i = 0; i < Width; ++i) {
    double z = static_cast<double>(sum.lane[i]) + bias[i];
    if (z < 0.0) z *= slope;
    auto const y = static_cast<Scalar>(z);
    Scalar const above = y > bounds.lower ? y : bounds.lower;
    sum.lane[i] = (above < bounds.upper ? above : bounds.upper) + Scalar(0);
  }
  if (curve == Curve::none) return;
  for (int i = 0; i < Width; ++i) sum.lane[i] = curved(curve, sum.lane[i]) + Scalar(0);
}

} // namespace varve
