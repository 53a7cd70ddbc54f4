#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace varve {

/// `Width` neighbouring samples of one neuron in registers: on CPUs one vector register (or a few), on GPUs a 16-byte
/// load of one thread. Storage is a plain array, so that one source serves both; on the host the operations see it as a
/// GCC/Clang vector, which compiles to single instructions without naming any instruction set.
template <class Scalar, int Width>
struct alignas(sizeof(Scalar) * Width) Pack {
  Scalar lane[Width];
};

/// Bounds that every activation is clipped to: [0, cap] for a clipped ReLU, [0, inf] for ReLU, [-inf, inf] for
/// identity.
template <class Scalar>
struct Bounds {
  Scalar lower, upper;
};

namespace detail {

template <class Scalar, int Width>
struct Vectors {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::int32_t, std::int64_t>;
  typedef Scalar Vector __attribute__((vector_size(sizeof(Scalar) * Width), may_alias));
  typedef double Doubles __attribute__((vector_size(sizeof(double) * Width), may_alias));
  typedef Bits BitVector __attribute__((vector_size(sizeof(Scalar) * Width), may_alias));
};

/// number + addend in each lane. Doubles that fill two registers are added half by half: g++ would put the addend into
/// memory, once for each lane (measured: a quarter of the time of a layer of 32 edges).
template <int Width>
struct AddToDoubles {
  using Doubles = typename Vectors<double, Width>::Vector;
  static Doubles add(Doubles numbers, double addend) { return numbers + addend; }
};
template <>
struct AddToDoubles<16> {
  using Doubles = typename Vectors<double, 16>::Vector;
  static Doubles add(Doubles numbers, double addend) {
    auto const low = __builtin_shufflevector(numbers, numbers, 0, 1, 2, 3, 4, 5, 6, 7) + addend;
    auto const high = __builtin_shufflevector(numbers, numbers, 8, 9, 10, 11, 12, 13, 14, 15) + addend;
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
};

// a * b + c on vectors is one fused operation where the processor has it and the compiler optimises (see -ffp-contract
// in the build); elsewhere the lanes take std::fma one by one: slow, and as exact.
#if defined(__OPTIMIZE__) &&                                                                                           \
    (defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__) || defined(__FP_FAST_FMA))
inline constexpr bool kHostContracts = true;
#else
inline constexpr bool kHostContracts = false;
#endif

} // namespace detail

/// sum = fma(weight, value, sum), lane by lane, rounded once.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void add_product(Pack<Scalar, Width>& sum, Scalar weight,
                                             Pack<Scalar, Width> const& value) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) sum.lane[i] = Kokkos::fma(weight, value.lane[i], sum.lane[i]);
  ))
  KOKKOS_IF_ON_HOST((
    if constexpr (detail::kHostContracts) {
      using Vector = typename detail::Vectors<Scalar, Width>::Vector;
      auto& total = reinterpret_cast<Vector&>(sum);
      total = weight * reinterpret_cast<Vector const&>(value) + total;
    } else {
      for (int i = 0; i < Width; ++i) sum.lane[i] = Kokkos::fma(weight, value.lane[i], sum.lane[i]);
    }
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
    if constexpr (detail::kHostContracts) {
      using Vector = typename detail::Vectors<Scalar, Width>::Vector;
      using BitVector = typename detail::Vectors<Scalar, Width>::BitVector;
      BitVector lanes;
      for (int i = 0; i < Width; ++i) lanes[i] = typename detail::Vectors<Scalar, Width>::Bits(1) << i;
      BitVector const is_set = lanes & static_cast<typename detail::Vectors<Scalar, Width>::Bits>(bits);
      auto& total = reinterpret_cast<Vector&>(sum);
      Vector const zero = {};
      total = weight * (is_set != 0 ? value - zero : zero) + total; // a mask on the sum: two roundings, as compiled
    } else {
      for (int i = 0; i < Width; ++i) {
        if ((bits >> i & 1U) != 0) sum.lane[i] = Kokkos::fma(weight, value, sum.lane[i]);
      }
    }
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
    using Vector = typename detail::Vectors<Scalar, Width>::Vector;
    using Doubles = typename detail::Vectors<Scalar, Width>::Doubles;
    auto& x = reinterpret_cast<Vector&>(sum);
    Vector y = __builtin_convertvector(
        detail::AddToDoubles<Width>::add(__builtin_convertvector(x, Doubles), bias), Vector);
    Vector const lower = bounds.lower - Vector{};
    Vector const upper = bounds.upper - Vector{};
    y = y > lower ? y : lower;
    y = y < upper ? y : upper;
    x = y + Scalar(0);
  ))
  // clang-format on
}

/// An order of the lanes of a pack: lane i takes what was in lane from[i].
template <class Scalar, int Width>
struct LaneOrder {
  using Bits = typename detail::Vectors<Scalar, Width>::Bits;
  alignas(sizeof(Scalar) * Width) Bits from[Width];
};

/// The lanes of a pack in another order, on the host. (One instruction where the processor has it; Clang has no such
/// operation on vectors.)
template <class Scalar, int Width>
inline void reorder_lanes(Pack<Scalar, Width>& target, Pack<Scalar, Width> const& source,
                          LaneOrder<Scalar, Width> const& order) {
#if defined(__GNUC__) && !defined(__clang__)
  using Vector = typename detail::Vectors<Scalar, Width>::Vector;
  using BitVector = typename detail::Vectors<Scalar, Width>::BitVector;
  reinterpret_cast<Vector&>(target) =
      __builtin_shuffle(reinterpret_cast<Vector const&>(source), reinterpret_cast<BitVector const&>(order));
#else
  Pack<Scalar, Width> const before = source;
  for (int i = 0; i < Width; ++i) target.lane[i] = before.lane[order.from[i]];
#endif
}

/// Bits that are set in any of the values seen, lane by lane: zero as long as all were zero.
template <class Scalar, int Width>
struct SeenBits {
  using Bits = typename detail::Vectors<Scalar, Width>::Bits;
  alignas(sizeof(Scalar) * Width) Bits lane[Width];
};

template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void see(SeenBits<Scalar, Width>& seen, Pack<Scalar, Width> const& value) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((
    for (int i = 0; i < Width; ++i) seen.lane[i] |= Kokkos::bit_cast<typename SeenBits<Scalar, Width>::Bits>(value.lane[i]);
  ))
  KOKKOS_IF_ON_HOST((
    using BitVector = typename detail::Vectors<Scalar, Width>::BitVector;
    reinterpret_cast<BitVector&>(seen) |= reinterpret_cast<BitVector const&>(value);
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
    using BitVector = typename detail::Vectors<Scalar, Width>::BitVector;
    reinterpret_cast<BitVector&>(seen) |= reinterpret_cast<BitVector const&>(value) ^ bits;
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
    typedef Scalar Vector __attribute__((vector_size(sizeof(Scalar) * width), may_alias));
    reinterpret_cast<Vector&>(pack) = Vector{};
  ))
  // clang-format on
}

/// Copies one pack; both places are aligned to the pack's size. The source may be memory or a register pack.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void copy(Pack<Scalar, Width>& target, Pack<Scalar, Width> const& source) {
  // clang-format off
  KOKKOS_IF_ON_DEVICE((target = source;))
  KOKKOS_IF_ON_HOST((
    using Vector = typename detail::Vectors<Scalar, Width>::Vector;
    reinterpret_cast<Vector&>(target) = reinterpret_cast<Vector const&>(source);
  ))
  // clang-format on
}

} // namespace varve
