#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace varve {

/// An array as a kernel argument: a non-owning address and length, in device memory or in team scratch. An absent array
/// has length 0 and a null data(). Builds with Kokkos_ENABLE_DEBUG_BOUNDS_CHECK (preset openmp-debug) check every
/// access and stop the program at the first one out of bounds.
template <class T>
using ArrayView =
    Kokkos::View<T*, Kokkos::LayoutRight, Kokkos::AnonymousSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

namespace detail {

/// Bounds check of an access that bypasses operator(); empty unless Kokkos checks bounds.
KOKKOS_FORCEINLINE_FUNCTION void require_within([[maybe_unused]] std::size_t size, [[maybe_unused]] std::size_t first,
                                                [[maybe_unused]] std::size_t count) {
#if defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
  if (first > size || count > size - first) Kokkos::abort("a kernel leaves the bounds of an array");
#endif
}

} // namespace detail

/// `count` elements of an array, from `first` on.
template <class T, class... P>
KOKKOS_FORCEINLINE_FUNCTION ArrayView<T> part_of(Kokkos::View<T*, P...> const& array, std::size_t first,
                                                 std::size_t count) {
  detail::require_within(array.size(), first, count);
  return ArrayView<T>(array.data() + first, count);
}

/// All elements from `first` on.
template <class T, class... P>
KOKKOS_FORCEINLINE_FUNCTION ArrayView<T> part_of(Kokkos::View<T*, P...> const& array, std::size_t first) {
  return part_of(array, first, array.size() - first);
}

/// `count` elements of type T in an array of bytes, from byte `first` on.
template <class T, class Byte, class... P>
KOKKOS_FORCEINLINE_FUNCTION ArrayView<T const> array_in(Kokkos::View<Byte*, P...> const& bytes, std::size_t first,
                                                        std::size_t count) {
  static_assert(sizeof(Byte) == 1);
  detail::require_within(bytes.size(), first, count * sizeof(T));
  return ArrayView<T const>(reinterpret_cast<T const*>(bytes.data() + first), count);
}

// Raw access happens only here: one instruction loads or stores adjacent elements, such as a pack of samples or 16
// bytes of weights. Through operator(), element by element, it would take several.

/// The address of `count` elements from `first` on, for the edges of a layer. (A View per edge would cost a CPU four
/// stores to its stack: the fused kernel then took 1.4 times as long.)
template <class T, class... P>
KOKKOS_FORCEINLINE_FUNCTION T* elements_of(Kokkos::View<T*, P...> const& array, std::size_t first, std::size_t count) {
  detail::require_within(array.size(), first, count);
  return array.data() + first;
}

/// The Piece that begins at byte `byte` of an array, which must be aligned for a Piece.
template <class Piece, class T, class... P>
KOKKOS_FORCEINLINE_FUNCTION auto& piece_at_byte(Kokkos::View<T*, P...> const& array, std::size_t byte) {
  using Byte = std::conditional_t<std::is_const_v<T>, unsigned char const, unsigned char>;
  using Target = std::conditional_t<std::is_const_v<T>, Piece const, Piece>;
  detail::require_within(array.size() * sizeof(T), byte, sizeof(Piece));
  return *reinterpret_cast<Target*>(reinterpret_cast<Byte*>(array.data()) + byte);
}

/// Element `number` of the array as an array of Pieces.
template <class Piece, class T, class... P, class Number>
KOKKOS_FORCEINLINE_FUNCTION auto& piece_of(Kokkos::View<T*, P...> const& array, Number number) {
  using Target = std::conditional_t<std::is_const_v<T>, Piece const, Piece>;
  detail::require_within(array.size() * sizeof(T), static_cast<std::size_t>(number) * sizeof(Piece), sizeof(Piece));
  return reinterpret_cast<Target*>(array.data())[number];
}

/// The Piece that begins at element `first` of the array.
template <class Piece, class T, class... P>
KOKKOS_FORCEINLINE_FUNCTION auto& piece_at(Kokkos::View<T*, P...> const& array, std::size_t first) {
  using Target = std::conditional_t<std::is_const_v<T>, Piece const, Piece>;
  detail::require_within(array.size() * sizeof(T), first * sizeof(T), sizeof(Piece));
  return *reinterpret_cast<Target*>(array.data() + first);
}

/// Lets the device compiler assume that an array whose address was itself loaded from memory is in global memory, so
/// that it emits global loads instead of generic ones. No-op on the host. clang drops such an assumption for AMD GPUs,
/// so there the address is cast to the address space of global memory and back.
#if defined(KOKKOS_ENABLE_HIP)
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void assume_global([[maybe_unused]] ArrayView<T>& array) {
  using GlobalPointer [[maybe_unused]] = __attribute__((address_space(1))) T*;
  KOKKOS_IF_ON_DEVICE(
      (array = ArrayView<T>((T*)(GlobalPointer) reinterpret_cast<std::uintptr_t>(array.data()), array.size());))
}
#else
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void assume_global([[maybe_unused]] ArrayView<T> const& array) {
  KOKKOS_IF_ON_DEVICE((__builtin_assume(__isGlobal(array.data()));))
}
#endif

/// Allocates arrays one after another from one allocation in team scratch. Kernels give its size in bytes exactly,
/// because the plan computes its limits from it. The first array has the requested alignment; the alignment of the
/// others follows from the sizes of the arrays before them.
class ScratchArrays {
public:
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION ScratchArrays(Member const& team, int level, std::size_t bytes, int alignment)
      : next_(static_cast<unsigned char*>(
            team.team_scratch(level).get_shmem_aligned(static_cast<std::ptrdiff_t>(bytes), alignment))) {
#if defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
    left_ = bytes;
    if (next_ == nullptr && bytes > 0) Kokkos::abort("a kernel asks for more team scratch than it was launched with");
#endif
  }

  /// The next array.
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION ArrayView<T> take(std::size_t count) {
#if defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
    if (count * sizeof(T) > left_) Kokkos::abort("a kernel takes more arrays from team scratch than it asked for");
    left_ -= count * sizeof(T);
#endif
    auto* const array = reinterpret_cast<T*>(next_);
    next_ += count * sizeof(T);
    return ArrayView<T>(array, count);
  }

private:
  unsigned char* next_;
#if defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
  std::size_t left_ = 0;
#endif
};

} // namespace varve
