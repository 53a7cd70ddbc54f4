#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

/// Marks a function that host and device code call, in headers that know nothing of Kokkos.
#if defined(__CUDACC__)
#define VARVE_HOST_DEVICE __host__ __device__
#else
#define VARVE_HOST_DEVICE
#endif

namespace varve {

/// Number of a neuron within its layer, from 0.
using NeuronIndex = std::uint32_t;

/// Number of a stored weight (edge) or of a stored sample entry; counts of them as well.
using EdgeOffset = std::uint64_t;

/// Number of a sample within the whole input, from 0.
using SampleIndex = std::uint64_t;

/// nvcc 13 fails inside the strings of libstdc++ 12 if these two are not instantiated before the first string is.
static_assert(std::is_object_v<char> && std::is_same_v<std::iterator_traits<char*>::value_type, char>);

/// Floating-point type of activations and weights in the layer loop.
enum class Precision { single_precision, double_precision };

} // namespace varve
