#pragma once

/// \file
/// Numbers, precisions and backends.

#include <varve/namespace.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace varve::v0_3 {

/// Index of a neuron within its layer, from 0.
using NeuronIndex = std::uint32_t;

/// Index or count of stored weights (edges), or of stored values of samples.
using EdgeOffset = std::uint64_t;

/// Number of a sample within the whole input, from 0.
using SampleIndex = std::uint64_t;

/// Floating-point type of activations and weights in the layer loop.
enum class Precision { single_precision, double_precision };

/// The backend that runs the layers. A build has serial, one thread, and what its Kokkos was built with.
enum class Backend { serial, openmp, cuda, hip };

/// The name of a backend: "serial", "openmp", "cuda" or "hip".
std::string to_string(Backend backend);

/// The backend with this name. Throws UsageError, which lists the backends of this build, if there is none.
Backend parse_backend(std::string const& name);

/// The backends of this build, fastest first.
std::vector<Backend> compiled_backends();

/// Called with the number of finished parts and of all parts, by one thread at a time. May be empty. What it throws
/// ends the call that it was given to, and reaches the caller.
using Progress = std::function<void(std::size_t done, std::size_t total)>;

} // namespace varve::v0_3
