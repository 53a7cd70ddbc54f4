#pragma once

#include "core/elementary.hpp"
#include "core/host_vector.hpp"

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace varve {

/// `Width` neighbouring samples of one neuron in registers: one or a few vector registers on CPUs, one 16-byte load of
/// a thread on GPUs. The storage is a plain array so that CPUs and GPUs share one source; each host operation loads it
/// as a vector and stores it back, which compilers keep in registers.
template <class Scalar, int Width>
struct alignas(sizeof(Scalar) * Width) Pack {
  Scalar lane[Width];
};

/// Bounds to which every activation is clipped: [0, cap] for clipped ReLU, [0, largest finite number] for ReLU,
/// [-largest, largest finite number] for the others.
template <class Scalar>
struct Bounds {
  Scalar lower, upper;
  /// Factor of sums below zero, applied before clipping. A negative slope encodes a Curve, which is applied after
  /// clipping. (A separate member for the curve would exceed the header of a layer's image in team scratch.)
  double slope = 1.0;

  static constexpr double slope_of(Curve curve) { return -static_cast<double>(curve); }
  KOKKOS_FORCEINLINE_FUNCTION Curve curve() const {
    return slope < 0.0 ? static_cast<Curve>(static_cast<int>(-slope)) : Curve::none;
  }
};

/// sum = fma(weight, value, sum) in every lane, rounded once.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void add_product(Pack<Scalar, Width>& sum, Scalar weight,
                                             Pack<Scalar, Width> const& value) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) sum.lane[i] = Kokkos::fma(weight, value.lane[i], sum.lane[i]);
  ))
  KOKKOS_IF_ON_HOST((
    host::fma_lanes(sum.lane, weight, value.lane);
  ))
  // clang-format on
}

/// sum = fma(weight, value, sum) in each lane i whose bit i of `bits` is set; other lanes keep their sum.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void add_product_where(Pack<Scalar, Width>& sum, Scalar weight, Scalar value,
                                                   std::uint32_t bits) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) {
      if ((bits >> i & 1U) != 0) sum.lane[i] = Kokkos::fma(weight, value, sum.lane[i]);
    }
  ))
  KOKKOS_IF_ON_HOST((
    constexpr int piece = host::kPieceLanes<Scalar, Width>;
    using Vectors = host::Vectors<Scalar, piece>;
    typename Vectors::BitVector lanes;
    for (int i = 0; i < piece; ++i) lanes[i] = typename Vectors::Bits(1) << i;
    typename Vectors::Vector const zero = {};
    Pack<Scalar, Width> values; // zero in lanes without a bit, so that their sums do not change
    host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      typename Vectors::BitVector const is_set = lanes & static_cast<typename Vectors::Bits>(bits >> i);
      host::store(values.lane + i, is_set != 0 ? value - zero : zero);
    });
    host::fma_lanes(sum.lane, weight, values.lane);
  ))
  // clang-format on
}

/// Host only: finish() for layers with a slope or a curve. Not inlined, and lane by lane on a copy, so that other
/// layers are not slowed down: a slope within finish() doubles the time of a fused layer.
template <class Scalar, int Width>
[[gnu::noinline]] Pack<Scalar, Width> finish_noinline(Pack<Scalar, Width> sum, double bias, Bounds<Scalar> bounds) {
  Curve const curve = bounds.curve();
  double const slope = curve == Curve::none ? bounds.slope : 1.0;
  for (Scalar& lane : sum.lane) {
    double z = static_cast<double>(lane) + bias;
    if (z < 0.0) z *= slope;
    auto const y = static_cast<Scalar>(z);
    Scalar const above = y > bounds.lower ? y : bounds.lower;
    lane = (above < bounds.upper ? above : bounds.upper) + Scalar(0);
  }
  with_curve(curve, [&](auto constant) {
    for (Scalar& lane : sum.lane) lane = curved(Curve(constant), lane) + Scalar(0);
  });
  return sum;
}

/// Adds the bias in double, applies the slope in double, rounds once to Scalar and clips; on a host it also applies the
/// curve, if there is one. The result is never -0, so that its bits are zero only if the activation is zero.
/// MayHaveSlope: false omits the slope, for layers whose slope is 1; on a GPU that saves four of ten instructions.
template <bool MayHaveSlope = true, class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void finish(Pack<Scalar, Width>& sum, double bias, Bounds<Scalar> bounds) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) {
      double z = static_cast<double>(sum.lane[i]) + bias;
      if constexpr (MayHaveSlope) {
        if (bounds.slope != 1.0 && z < 0.0) z *= bounds.slope;
      }
      Scalar const x = static_cast<Scalar>(z);
      sum.lane[i] = Kokkos::fmin(Kokkos::fmax(x, bounds.lower), bounds.upper) + Scalar(0);
    }
  ))
  KOKKOS_IF_ON_HOST((
    constexpr int piece = host::kPieceLanes<Scalar, Width>;
    using Vector = typename host::Vectors<Scalar, piece>::Vector;
    if constexpr (MayHaveSlope) {
      if (bounds.slope != 1.0) {
        Pack<Scalar, Width> apart; // the address of `sum` would make g++ keep it in memory, in the loop over edges, too
        host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
          host::store(apart.lane + i, host::load<Vector>(sum.lane + i));
        });
        apart = finish_noinline(apart, bias, bounds);
        host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
          host::store(sum.lane + i, host::load<Vector>(apart.lane + i));
        });
        return;
      }
    }
    Vector const lower = bounds.lower - Vector{};
    Vector const upper = bounds.upper - Vector{};
    host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      Vector y = host::add_in_double<Scalar, piece>(host::load<Vector>(sum.lane + i), bias);
      y = y > lower ? y : lower;
      y = y < upper ? y : upper;
      host::store(sum.lane + i, y + Scalar(0));
    });
  ))
  // clang-format on
}

/// A curve's value, as a separate function, which saves registers of the kernel.
template <class Scalar>
[[gnu::noinline]] KOKKOS_FUNCTION Scalar curved_noinline(Curve curve, Scalar x) {
  return curved(curve, x) + Scalar(0);
}

/// finish() of layers that may have a curve, for kernels with enough registers for a call: the fused kernel on a GPU
/// took 1.2 to 1.3 times as long, with or without a curve.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void finish_with_curve(Pack<Scalar, Width>& sum, double bias, Bounds<Scalar> bounds) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    Curve const curve = bounds.curve();
    if (curve != Curve::none) bounds.slope = 1.0;
    finish(sum, bias, bounds);
    if (curve != Curve::none) {
      for (int i = 0; i < Width; ++i) sum.lane[i] = curved_noinline(curve, sum.lane[i]);
    }
  ))
  KOKKOS_IF_ON_HOST((
    finish(sum, bias, bounds);
  ))
  // clang-format on
}

/// An integer for each lane of a pack, as wide as its numbers, so that operations on both use the same lanes.
template <class Scalar, int Width>
struct LaneIntegers {
  using Integer = typename host::Vectors<Scalar, Width>::Bits;
  alignas(sizeof(Scalar) * Width) Integer lane[Width];
};

/// Host only: permutes the lanes of a pack: lane i of the target comes from lane order[i] of the source. GCC compiles
/// it to one instruction if the processor has one for the whole pack; Clang has no such vector builtin, so it uses a
/// loop.
template <class Scalar, int Width>
inline void reorder_lanes(Pack<Scalar, Width>& target, Pack<Scalar, Width> const& source,
                          LaneIntegers<Scalar, Width> const& order) {
#if defined(__GNUC__) && !defined(__clang__)
  if constexpr (host::kPieceLanes<Scalar, Width> == Width) {
    using Vector = typename host::Vectors<Scalar, Width>::Vector;
    using BitVector = typename host::Vectors<Scalar, Width>::BitVector;
    host::store(target.lane, __builtin_shuffle(host::load<Vector>(source.lane), host::load<BitVector>(order.lane)));
    return;
  }
#endif
  Pack<Scalar, Width> const before = source;
  for (int i = 0; i < Width; ++i) target.lane[i] = before.lane[order.lane[i]];
}

/// ORs the XOR of each lane of `value` with `other` into `seen`, which therefore stays zero while all values equal
/// `other` bit for bit.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void see_difference(LaneIntegers<Scalar, Width>& seen, Pack<Scalar, Width> const& value,
                                                Scalar other) {
  using Bits = typename LaneIntegers<Scalar, Width>::Integer;
  auto const bits = Kokkos::bit_cast<Bits>(other);
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) seen.lane[i] |= Kokkos::bit_cast<Bits>(value.lane[i]) ^ bits;
  ))
  KOKKOS_IF_ON_HOST((
    constexpr int piece = host::kPieceLanes<Scalar, Width>;
    using BitVector = typename host::Vectors<Scalar, piece>::BitVector;
    host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      host::store(seen.lane + i, host::load<BitVector>(seen.lane + i) | (host::load<BitVector>(value.lane + i) ^ bits));
    });
  ))
  // clang-format on
}

/// ORs the bits of each lane of `value` into `seen`.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void see(LaneIntegers<Scalar, Width>& seen, Pack<Scalar, Width> const& value) {
  see_difference(seen, value, Scalar(0)); // whose bits are 0
}

/// In each lane where `value` is greater than `greatest`, replaces `greatest` by it and the lane's element of `numbers`
/// by `number`. (On hosts by explicit vectors: from a loop of selects g++ makes one branch per lane.)
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void take_greater(Pack<Scalar, Width>& greatest, LaneIntegers<Scalar, Width>& numbers,
                                              Pack<Scalar, Width> const& value, int number) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) {
      if (!(value.lane[i] > greatest.lane[i])) continue;
      greatest.lane[i] = value.lane[i];
      numbers.lane[i] = number;
    }
  ))
  KOKKOS_IF_ON_HOST((
    constexpr int piece = host::kPieceLanes<Scalar, Width>;
    using Vector = typename host::Vectors<Scalar, piece>::Vector;
    using Integers = typename host::Vectors<Scalar, piece>::BitVector;
    host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      auto const x = host::load<Vector>(value.lane + i);
      auto const before = host::load<Vector>(greatest.lane + i);
      host::store(numbers.lane + i, x > before ? number - Integers{} : host::load<Integers>(numbers.lane + i));
      host::store(greatest.lane + i, x > before ? x : before);
    });
  ))
  // clang-format on
}

/// Sets lanes whose integer is 0 to zero.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void clear_where_zero(Pack<Scalar, Width>& pack,
                                                  LaneIntegers<Scalar, Width> const& integers) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) {
      if (integers.lane[i] == 0) pack.lane[i] = Scalar(0);
    }
  ))
  KOKKOS_IF_ON_HOST((
    constexpr int piece = host::kPieceLanes<Scalar, Width>;
    using Vector = typename host::Vectors<Scalar, piece>::Vector;
    using Integers = typename host::Vectors<Scalar, piece>::BitVector;
    host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      auto const is_zero = host::load<Integers>(integers.lane + i) == 0;
      host::store(pack.lane + i, is_zero ? Vector{} : host::load<Vector>(pack.lane + i));
    });
  ))
  // clang-format on
}

template <class PackType>
KOKKOS_FORCEINLINE_FUNCTION void clear(PackType& pack) {
  using Scalar = std::remove_reference_t<decltype(pack.lane[0])>;
  constexpr int width = static_cast<int>(sizeof(pack.lane) / sizeof(Scalar));
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < width; ++i) pack.lane[i] = Scalar(0);
  ))
  KOKKOS_IF_ON_HOST((
    constexpr int piece = host::kPieceLanes<Scalar, width>;
    host::for_pieces<Scalar, width>([&](auto i) __attribute__((always_inline)) {
      host::store(pack.lane + i, typename host::Vectors<Scalar, piece>::Vector{});
    });
  ))
  // clang-format on
}

/// Copies one pack. Both must be aligned to the size of a pack; the source may be in memory or in registers.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void copy(Pack<Scalar, Width>& target, Pack<Scalar, Width> const& source) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((target = source;))
  KOKKOS_IF_ON_HOST((
    constexpr int piece = host::kPieceLanes<Scalar, Width>;
    using Vector = typename host::Vectors<Scalar, piece>::Vector;
    host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      host::store(target.lane + i, host::load<Vector>(source.lane + i));
    });
  ))
  // clang-format on
}

} // namespace varve
