#include "core/runtime.hpp"

#include <gtest/gtest.h>

/// Main of every test: Kokkos lives as long as the tests run and takes its --kokkos-* options.
int main(int num_arguments, char** arguments) {
  varve::Runtime const runtime(num_arguments, arguments);
  testing::InitGoogleTest(&num_arguments, arguments);
  return RUN_ALL_TESTS();
}
