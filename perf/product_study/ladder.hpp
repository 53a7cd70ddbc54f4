#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace varve::product_study {

/// Numbers in host memory, which nobody has set yet: the threads that set them spread them over the memories of a node.
template <class Scalar>
struct HostNumbers {
  std::unique_ptr<Scalar[]> values;
  std::size_t size = 0;

  explicit HostNumbers(std::size_t count) : values(new Scalar[count]), size(count) {} // NOLINT: not set to 0
};

/// Matrices in host memory, row by row: A has rows x depth numbers, B depth x columns.
template <class Scalar>
struct Problem {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t depth = 0;
  HostNumbers<Scalar> a;
  HostNumbers<Scalar> b;
};

/// Numbers of C, rows x columns, that are computed with one reading of their numbers of A and B: so the fma for each
/// number that is read are rows * columns / (rows + columns).
struct Part {
  int rows = 0;
  int columns = 0;
};

/// A rung of the ladder: run() computes C and waits for it; numbers() brings those at some places to the host. `part`
/// is what a team computes at a time, as known after the first run; 0 x 0: not known.
template <class Scalar>
struct Rung {
  std::string name;
  std::function<void()> run;
  std::function<std::vector<Scalar>(std::vector<std::size_t> const& places)> numbers;
  std::function<Part()> part = [] { return Part{}; };
};

/// The rungs on one backend: "naive", a thread per number of C; "scratch", tiles of 32 x 32 numbers in team scratch;
/// "registers", tiles of 64 x 64 in scratch and 4 x 4 sums of a thread in registers; "kernel", that of varve multiply
/// on packed matrices; with the name of a library "cublas". A, B and C lie in device memory, to which the first run of
/// a rung brings A and B.
template <Backend backend, class Scalar>
std::vector<Rung<Scalar>> ladder_on(Problem<Scalar> const& problem, std::string const& cublas);

} // namespace varve::product_study
