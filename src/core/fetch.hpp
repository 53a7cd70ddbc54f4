#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>

namespace varve {

/// Where fetched memory should be, and what for.
enum class FetchTo { l1, l2, l1_for_stores };

/// On a host: begins to bring `count` numbers from this address on to a cache. The address need not be valid. On a
/// device it does nothing.
template <FetchTo To = FetchTo::l1, class T>
KOKKOS_FORCEINLINE_FUNCTION void fetch([[maybe_unused]] T const* first, [[maybe_unused]] std::size_t count) {
  // clang-format off
  KOKKOS_IF_ON_HOST((
    constexpr std::size_t line = 64;
    auto const* const bytes = reinterpret_cast<char const*>(first);
    for (std::size_t byte = 0; byte < count * sizeof(T); byte += line)
      __builtin_prefetch(bytes + byte, To == FetchTo::l1_for_stores ? 1 : 0, To == FetchTo::l2 ? 2 : 3);
  ))
  // clang-format on
}

} // namespace varve
