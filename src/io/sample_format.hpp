#pragma once

#include <cstdint>

/// What the root attributes of a sample file say (FORMAT.md).
namespace varve::sample_format {

inline constexpr char const* name = "varve-samples";
inline constexpr std::uint64_t version = 1;

} // namespace varve::sample_format
