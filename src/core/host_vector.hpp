#pragma once

#include <Kokkos_SIMD.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

/// Host SIMD vectors. fma is always explicit, by Kokkos SIMD: a compiler may or may not contract a multiplication and
/// an addition into one fma, depending on the tuned processor (g++ 13 leaves a single chain unfused on Sapphire
/// Rapids), and the two results differ. All other operations here have only one possible rounding and use the vector
/// extensions of GCC and Clang.
namespace varve::host {

#if KOKKOS_VERSION >= 40600
template <class Scalar, class Abi>
using Simd = Kokkos::Experimental::basic_simd<Scalar, Abi>;
#else
template <class Scalar, class Abi>
using Simd = Kokkos::Experimental::simd<Scalar, Abi>;
#endif

/// The widest SIMD type whose fma covers `Width` lanes in a whole number of instructions; void if there is none.
template <class Scalar, int Width>
struct FmaRegister {
  using type = void;
};

#if defined(KOKKOS_ARCH_AVX512XEON)
template <int Width>
requires(Width % 8 == 0) struct FmaRegister<float, Width> {
  static constexpr int lanes = Width % 16 == 0 ? 16 : 8;
  using type = Simd<float, Kokkos::Experimental::simd_abi::avx512_fixed_size<lanes>>;
};
template <int Width>
requires(Width % 8 == 0) struct FmaRegister<double, Width> {
  using type = Simd<double, Kokkos::Experimental::simd_abi::avx512_fixed_size<8>>;
};
#elif defined(KOKKOS_ARCH_AVX2)
template <int Width>
requires(Width % 4 == 0) struct FmaRegister<float, Width> {
  static constexpr int lanes = Width % 8 == 0 ? 8 : 4;
  using type = Simd<float, Kokkos::Experimental::simd_abi::avx2_fixed_size<lanes>>;
};
template <int Width>
requires(Width % 4 == 0) struct FmaRegister<double, Width> {
  using type = Simd<double, Kokkos::Experimental::simd_abi::avx2_fixed_size<4>>;
};
#elif defined(KOKKOS_ARCH_ARM_NEON)
template <int Width>
requires(Width % 4 == 0) struct FmaRegister<float, Width> {
  using type = Simd<float, Kokkos::Experimental::simd_abi::neon_fixed_size<4>>;
};
template <int Width>
requires(Width % 2 == 0) struct FmaRegister<double, Width> {
  using type = Simd<double, Kokkos::Experimental::simd_abi::neon_fixed_size<2>>;
};
#endif

/// Bytes of the processor's vector registers. Compilers split longer vector types into pieces that are spilled to
/// memory, so the operations on packs use pieces of a register's size. (With packs of 64 bytes in one piece, layers
/// took six to ten times as long on a processor with AVX2.)
#if defined(KOKKOS_ARCH_AVX512XEON)
inline constexpr int kRegisterBytes = 64;
#elif defined(KOKKOS_ARCH_AVX2)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

/// Lanes of a pack of `Width` numbers that one register holds.
template <class Scalar, int Width>
inline constexpr int kPieceLanes = Width* static_cast<int>(sizeof(Scalar)) > kRegisterBytes
                                       ? kRegisterBytes / static_cast<int>(sizeof(Scalar))
                                       : Width;

/// Calls work(first) for the first lane of each piece of a pack of `Width` numbers: 0, kPieceLanes, ... A fold, not a
/// loop, because compilers keep only elements at constant indices in registers.
template <class Scalar, int Width, class Work>
[[gnu::always_inline]] inline void for_pieces(Work const& work) {
  constexpr int lanes = kPieceLanes<Scalar, Width>;
  [&]<int... Piece>(std::integer_sequence<int, Piece...>) __attribute__((always_inline)) {
    (work(std::integral_constant<int, lanes * Piece>()), ...);
  }
  (std::make_integer_sequence<int, Width / lanes>());
}

/// `Width` numbers as a GCC and Clang vector type, the same lanes as doubles, and the same lanes as integers of their
/// bits.
template <class Scalar, int Width>
struct Vectors {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::int32_t, std::int64_t>;
  typedef Scalar Vector __attribute__((vector_size(sizeof(Scalar) * Width)));
  typedef double Doubles __attribute__((vector_size(sizeof(double) * Width)));
  typedef Bits BitVector __attribute__((vector_size(sizeof(Scalar) * Width)));
};

/// Loads a vector from the numbers at `lanes`, which need only the alignment of one number. SIMD types use their own
/// load function: with memcpy g++ 12 keeps them in two kinds of registers and copies each sum twice per iteration (the
/// fused kernel with blocks of 4 outputs then takes 1.2 times as long on a processor with two fma per cycle). Vectors
/// of the compiler use memcpy: with a type that may alias, cones take 1.1 times as long.
template <class Vector>
inline Vector load(void const* lanes) {
  static_assert(std::is_trivially_copyable_v<Vector>);
  Vector vector;
  if constexpr (std::is_class_v<Vector>) {
    vector.copy_from(static_cast<typename Vector::value_type const*>(lanes), Kokkos::Experimental::simd_flag_default);
  } else {
    std::memcpy(static_cast<void*>(&vector), lanes, sizeof(Vector));
  }
  return vector;
}

/// Stores a vector to the numbers at `lanes`; alignment as for load().
template <class Vector>
inline void store(void* lanes, Vector const& vector) {
  static_assert(std::is_trivially_copyable_v<Vector>);
  if constexpr (std::is_class_v<Vector>) {
    vector.copy_to(static_cast<typename Vector::value_type*>(lanes), Kokkos::Experimental::simd_flag_default);
  } else {
    std::memcpy(lanes, &vector, sizeof(Vector));
  }
}

/// sum[i] = fma(factor, value[i], sum[i]) for every lane, rounded once, on every processor and compiler.
template <class Scalar, int Width>
inline void fma_lanes(Scalar (&sum)[Width], Scalar factor, Scalar const (&value)[Width]) {
  using Register = typename FmaRegister<Scalar, Width>::type;
  if constexpr (std::is_void_v<Register>) {
    for (int i = 0; i < Width; ++i) sum[i] = std::fma(factor, value[i], sum[i]);
  } else {
    static_assert(sizeof(Register) == sizeof(Scalar) * kPieceLanes<Scalar, Width>);
    for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      store(sum + i, Kokkos::fma(Register(factor), load<Register>(value + i), load<Register>(sum + i)));
    });
  }
}

/// Adds `addend` to every lane. Sixteen doubles are added in two halves: otherwise g++ stores the addend to memory once
/// per lane, which took a quarter of the time of a layer with 32 edges per neuron.
template <int Width>
inline void add_to_doubles(typename Vectors<double, Width>::Vector& numbers, double addend) {
  if constexpr (Width == 16) {
    auto const low = __builtin_shufflevector(numbers, numbers, 0, 1, 2, 3, 4, 5, 6, 7) + addend;
    auto const high = __builtin_shufflevector(numbers, numbers, 8, 9, 10, 11, 12, 13, 14, 15) + addend;
    numbers = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  } else {
    numbers = numbers + addend;
  }
}

/// numbers + addend in every lane, added in double and rounded once. With registers of 64 bytes all lanes are converted
/// to double at once, in two registers; otherwise as many as fit one register, so that no piece is spilled to memory.
template <class Scalar, int Lanes>
inline typename Vectors<Scalar, Lanes>::Vector add_in_double(typename Vectors<Scalar, Lanes>::Vector numbers,
                                                             double addend) {
  using Vector = typename Vectors<Scalar, Lanes>::Vector;
  if constexpr (kRegisterBytes == 64 || kPieceLanes<double, Lanes> == Lanes) {
    auto doubles = __builtin_convertvector(numbers, typename Vectors<Scalar, Lanes>::Doubles);
    add_to_doubles<Lanes>(doubles, addend);
    return __builtin_convertvector(doubles, Vector);
  } else {
    constexpr int half = Lanes / 2;
    typename Vectors<Scalar, half>::Vector low;
    typename Vectors<Scalar, half>::Vector high;
    std::memcpy(&low, &numbers, sizeof low);
    std::memcpy(&high, reinterpret_cast<char const*>(&numbers) + sizeof low, sizeof high);
    low = add_in_double<Scalar, half>(low, addend);
    high = add_in_double<Scalar, half>(high, addend);
    if constexpr (Lanes == 8)
      return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    else
      return __builtin_shufflevector(low, high, 0, 1, 2, 3);
  }
}

} // namespace varve::host
