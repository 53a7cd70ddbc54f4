#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace varve::product_study {

/// Matrices in host memory, row by row: A has rows x depth numbers, B depth x columns.
template <class Scalar>
struct Problem {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t depth = 0;
  std::vector<Scalar> a;
  std::vector<Scalar> b;
};

/// A rung of the ladder: run() computes C on the device and waits for it; result() brings it to the host.
template <class Scalar>
struct Rung {
  std::string name;
  std::function<void()> run;
  std::function<std::vector<Scalar>()> result;
};

/// The simple rungs on one backend, with A, B and C in device memory: "naive", a thread per number of C; "scratch",
/// tiles of 32 x 32 numbers in team scratch; "registers", tiles of 64 x 64 in scratch and 4 x 4 sums of a thread in
/// registers.
template <Backend backend, class Scalar>
std::vector<Rung<Scalar>> ladder_on(Problem<Scalar> const& problem);

} // namespace varve::product_study
