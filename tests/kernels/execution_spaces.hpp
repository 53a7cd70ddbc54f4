#pragma once

#include "core/execution.hpp"

#include <gtest/gtest.h>

#include <string>

namespace varve::test {

template <class Spaces>
struct TypesOf;
template <class... Spaces>
struct TypesOf<SpaceList<Spaces...>> {
  using Types = ::testing::Types<Spaces...>;
};

/// Every execution space of the build, for typed tests. Device code stands in functors outside the test bodies, because
/// nvcc takes no lambdas from there.
using ExecutionSpaces = TypesOf<CompiledSpaces>::Types;

struct NameOfSpace {
  template <class ExecutionSpace>
  static std::string GetName(int) {
    return to_string(to_backend<ExecutionSpace>());
  }
};

} // namespace varve::test
