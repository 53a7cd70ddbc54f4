#pragma once

#include "core/host_vector.hpp"

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace varve {

/// `Width` neighbouring samples of one neuron in registers: on CPUs one vector register (or a few), on GPUs a 16-byte
/// load of one thread. Storage is a plain array, so that one source serves both; on the host each operation loads it as
/// a vector and stores it back, which compilers keep in registers.
template <class Scalar, int Width>
struct alignas(sizeof(Scalar) * Width) Pack {
  Scalar lane[Width];
};

/// Bounds that every activation is clipped to: [0, cap] for a clipped ReLU, [0, largest finite number] for ReLU, and
/// the same with both signs for identity.
template <class Scalar>
struct Bounds {
  Scalar lower, upper;
};

/// sum = fma(weight, value, sum), lane by lane, rounded once.
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

/// The same in the lanes whose bit is set: sum = fma(weight, value, sum) in lane i if bit i is.
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
    using Vectors = host::Vectors<Scalar, Width>;
    typename Vectors::BitVector lanes;
    for (int i = 0; i < Width; ++i) lanes[i] = typename Vectors::Bits(1) << i;
    typename Vectors::BitVector const is_set = lanes & static_cast<typename Vectors::Bits>(bits);
    typename Vectors::Vector const zero = {};
    Pack<Scalar, Width> values; // zero in the other lanes, which leaves their sums as they are
    host::store(values.lane, is_set != 0 ? value - zero : zero);
    host::fma_lanes(sum.lane, weight, values.lane);
  ))
  // clang-format on
}

/// Bias in double, rounded once to Scalar, then clipped; never -0, so that "nonzero" can be read off the bits.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void finish(Pack<Scalar, Width>& sum, double bias, Bounds<Scalar> bounds) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) {
      Scalar const x = static_cast<Scalar>(static_cast<double>(sum.lane[i]) + bias);
      sum.lane[i] = Kokkos::fmin(Kokkos::fmax(x, bounds.lower), bounds.upper) + Scalar(0);
    }
  ))
  KOKKOS_IF_ON_HOST((
    using Vector = typename host::Vectors<Scalar, Width>::Vector;
    auto doubles = __builtin_convertvector(host::load<Vector>(sum.lane), typename host::Vectors<Scalar, Width>::Doubles);
    host::add_to_doubles<Width>(doubles, bias);
    Vector y = __builtin_convertvector(doubles, Vector);
    Vector const lower = bounds.lower - Vector{};
    Vector const upper = bounds.upper - Vector{};
    y = y > lower ? y : lower;
    y = y < upper ? y : upper;
    host::store(sum.lane, y + Scalar(0));
  ))
  // clang-format on
}

/// An order of the lanes of a pack: lane i takes what was in lane from[i].
template <class Scalar, int Width>
struct LaneOrder {
  using Bits = typename host::Vectors<Scalar, Width>::Bits;
  alignas(sizeof(Scalar) * Width) Bits from[Width];
};

/// The lanes of a pack in another order, on the host. (One instruction where the processor has it; Clang has no such
/// operation on vectors.)
template <class Scalar, int Width>
inline void reorder_lanes(Pack<Scalar, Width>& target, Pack<Scalar, Width> const& source,
                          LaneOrder<Scalar, Width> const& order) {
#if defined(__GNUC__) && !defined(__clang__)
  using Vector = typename host::Vectors<Scalar, Width>::Vector;
  using BitVector = typename host::Vectors<Scalar, Width>::BitVector;
  host::store(target.lane, __builtin_shuffle(host::load<Vector>(source.lane), host::load<BitVector>(order.from)));
#else
  Pack<Scalar, Width> const before = source;
  for (int i = 0; i < Width; ++i) target.lane[i] = before.lane[order.from[i]];
#endif
}

/// Bits that are set in any of the values seen, lane by lane: zero as long as all were zero.
template <class Scalar, int Width>
struct SeenBits {
  using Bits = typename host::Vectors<Scalar, Width>::Bits;
  alignas(sizeof(Scalar) * Width) Bits lane[Width];
};

template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void see(SeenBits<Scalar, Width>& seen, Pack<Scalar, Width> const& value) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) seen.lane[i] |= Kokkos::bit_cast<typename SeenBits<Scalar, Width>::Bits>(value.lane[i]);
  ))
  KOKKOS_IF_ON_HOST((
    using BitVector = typename host::Vectors<Scalar, Width>::BitVector;
    host::store(seen.lane, host::load<BitVector>(seen.lane) | host::load<BitVector>(value.lane));
  ))
  // clang-format on
}

/// The same for bits in which the values differ from one value: zero as long as all were equal to it.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void see_difference(SeenBits<Scalar, Width>& seen, Pack<Scalar, Width> const& value,
                                                Scalar other) {
  using Bits = typename SeenBits<Scalar, Width>::Bits;
  auto const bits = Kokkos::bit_cast<Bits>(other);
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) seen.lane[i] |= Kokkos::bit_cast<Bits>(value.lane[i]) ^ bits;
  ))
  KOKKOS_IF_ON_HOST((
    using BitVector = typename host::Vectors<Scalar, Width>::BitVector;
    host::store(seen.lane, host::load<BitVector>(seen.lane) | (host::load<BitVector>(value.lane) ^ bits));
  ))
  // clang-format on
}

/// All lanes zero.
template <class PackType>
KOKKOS_FORCEINLINE_FUNCTION void clear(PackType& pack) {
  using Scalar = std::remove_reference_t<decltype(pack.lane[0])>;
  constexpr int width = static_cast<int>(sizeof(pack.lane) / sizeof(Scalar));
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < width; ++i) pack.lane[i] = Scalar(0);
  ))
  KOKKOS_IF_ON_HOST((
    host::store(pack.lane, typename host::Vectors<Scalar, width>::Vector{});
  ))
  // clang-format on
}

/// Copies one pack; both places are aligned to the pack's size. The source may be memory or a register pack.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void copy(Pack<Scalar, Width>& target, Pack<Scalar, Width> const& source) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((target = source;))
  KOKKOS_IF_ON_HOST((
    using Vector = typename host::Vectors<Scalar, Width>::Vector;
    host::store(target.lane, host::load<Vector>(source.lane));
  ))
  // clang-format on
}

} // namespace varve
