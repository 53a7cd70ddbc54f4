#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace varve {

/// The type of the numbers in an array of another program's file, stored with the lowest byte first.
struct ElementType {
  enum class Kind { signed_integer, unsigned_integer, floating, brain_floating };

  Kind kind = Kind::floating;
  std::size_t size = 8; ///< bytes per number: 1, 2, 4 or 8

  bool is_integer() const { return kind == Kind::signed_integer || kind == Kind::unsigned_integer; }
};

/// Appends the numbers stored in `bytes` to `reals`. Whole numbers beyond 2^53 are rounded to the nearest double; all
/// other conversions are exact. `bytes` holds whole numbers of a type that element_exists() accepts.
void append_reals(ElementType type, std::span<char const> bytes, std::vector<double>& reals);

/// Appends the indices stored in `bytes` to `indices`. Throws InputError "PLACE: ..." if one is negative; `first` is
/// the position of the first of them in its array, for that message. The type is an integer.
void append_indices(ElementType type, std::span<char const> bytes, std::uint64_t first, std::string const& place,
                    std::vector<std::uint64_t>& indices);

/// True if there are numbers of this type: integers of 1, 2, 4 and 8 bytes, floating point of 2, 4 and 8, and brain
/// floating point (bfloat16) of 2.
bool element_exists(ElementType type);

} // namespace varve
