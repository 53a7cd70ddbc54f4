#pragma once

#include "core/execution.hpp"

#include <gtest/gtest.h>

#include <string>

namespace varve::test {

/// Every execution space of the build, for typed tests. Device code stands in functors outside the test bodies, because
/// nvcc takes no lambdas from there.
using ExecutionSpaces = ::testing::Types<Kokkos::Serial
#if defined(KOKKOS_ENABLE_OPENMP)
                                         ,
                                         Kokkos::OpenMP
#endif
#if defined(KOKKOS_ENABLE_CUDA)
                                         ,
                                         Kokkos::Cuda
#endif
                                         >;

struct NameOfSpace {
  template <class ExecutionSpace>
  static std::string GetName(int) {
    return to_string(to_backend<ExecutionSpace>());
  }
};

} // namespace varve::test
