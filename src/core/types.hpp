#pragma once

#define VARVE_IMPLEMENTATION 1 // before all public headers: their names stay in varve::v0_3

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

/// Marks functions that host and device code call, for headers that do not include Kokkos.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define VARVE_HOST_DEVICE __host__ __device__
#else
#define VARVE_HOST_DEVICE
#endif

/// Put VARVE_UNROLL before a short loop of constant trip count whose arrays must stay in registers. It is empty in
/// nvcc's host pass, which rejects the pragma; g++ unrolls such loops at -O3 anyway.
#if defined(__CUDA_ARCH__) || defined(__clang__)
#define VARVE_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define VARVE_UNROLL
#else
#define VARVE_UNROLL _Pragma("GCC unroll 16")
#endif

/// Instantiates these two traits before std::string does: otherwise nvcc 13 fails in the string header of libstdc++ 12.
static_assert(std::is_object_v<char> && std::is_same_v<std::iterator_traits<char*>::value_type, char>);

#include <varve/types.hpp> // after the assertion, as it includes std::string

namespace varve {

using v0_3::EdgeOffset;
using v0_3::NeuronIndex;
using v0_3::Precision;
using v0_3::SampleIndex;

} // namespace varve
