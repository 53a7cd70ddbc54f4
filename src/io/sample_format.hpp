#pragma once

#include <cstdint>

/// The root attributes of a sample file (FORMAT.md).
namespace varve::sample_format {

inline constexpr char const* name = "varve-samples";
inline constexpr std::uint64_t version = 1;

} // namespace varve::sample_format
