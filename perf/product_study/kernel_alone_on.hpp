#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/views.hpp"
#include "cublas.hpp"
#include "device_timer.hpp"
#include "kernel_alone.hpp"
#include "packed_product.hpp"
#include "random_number.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace varve::product_study {

constexpr std::uint64_t seed_of_a = 1;
constexpr std::uint64_t seed_of_b = 2;

/// Number (line, k) of A or B: line is a row of A, a column of B.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar number_at(std::uint64_t seed, std::int64_t line, std::int64_t k,
                                             std::int64_t depth) {
  return random_number<Scalar>(seed, static_cast<std::uint64_t>(line * depth + k));
}

/// The numbers of A or B as number_at() gives them.
template <class Scalar>
struct GeneratedLines {
  std::uint64_t seed;
  std::int64_t depth;

  KOKKOS_FORCEINLINE_FUNCTION Scalar operator()(std::int64_t line, std::int64_t k) const {
    return number_at<Scalar>(seed, line, k, depth);
  }
};

/// Makes A (rows x depth) or B (depth x columns) row by row. An index is a number of it.
template <class Scalar>
struct FillByRows {
  ArrayView<Scalar> matrix;
  std::int64_t num_columns;
  std::int64_t depth;
  std::uint64_t seed;
  bool lines_are_rows;

  KOKKOS_FUNCTION void operator()(std::int64_t index) const {
    auto const row = index / num_columns;
    auto const column = index % num_columns;
    matrix[index] =
        lines_are_rows ? number_at<Scalar>(seed, row, column, depth) : number_at<Scalar>(seed, column, row, depth);
  }
};

/// One product on a device, by the kernel and by cuBLAS.
template <class ExecutionSpace, class Scalar>
class KernelAlone {
public:
  KernelAlone(Sizes const& sizes, std::string const& cublas)
      : sizes_(sizes),
        product_(space_, sizes.rows, sizes.columns, sizes.depth, GeneratedLines<Scalar>{seed_of_a, sizes.depth},
                 GeneratedLines<Scalar>{seed_of_b, sizes.depth}) {
    if (!cublas.empty()) open(cublas);
  }

  KernelTimes measure(std::size_t repeat) {
    KernelTimes times;
    times.shape = product_.shape();
    compare(times);
    auto const num_own = num_at_a_time([&] { product_.run(); });
    auto const num_cublas = cublas_ ? num_at_a_time([&] { run_cublas(); }) : 0;
    std::vector<double> own;
    std::vector<double> other;
    for (std::size_t round = 0; round < repeat; ++round) {
      own.push_back(seconds_of_each(num_own, [&] { product_.run(); }));
      if (cublas_) other.push_back(seconds_of_each(num_cublas, [&] { run_cublas(); }));
    }
    times.own_seconds = median(own);
    if (cublas_) times.cublas_seconds = median(other);
    return times;
  }

private:
  using Numbers = DeviceArray<ExecutionSpace, Scalar>;

  static double median(std::vector<double> seconds) {
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  }

  static Numbers make(std::size_t count) {
    return Numbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, "numbers"), count);
  }

  template <class Functor>
  void for_each_number(Numbers const& numbers, Functor const& functor) const {
    Kokkos::parallel_for("fill",
                         Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                             space_, 0, static_cast<std::int64_t>(numbers.size())),
                         functor);
  }

  static ArrayView<Scalar> view_of(Numbers const& numbers) { return ArrayView<Scalar>(numbers.data(), numbers.size()); }

  void open(std::string const& library) {
    void* stream = nullptr;
#if defined(KOKKOS_ENABLE_CUDA)
    if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) stream = space_.cuda_stream();
#endif
    if (to_backend<ExecutionSpace>() != Backend::cuda) throw UsageError("--cublas needs --backend cuda");
    auto const size = [](int one, int other) {
      return static_cast<std::size_t>(one) * static_cast<std::size_t>(other);
    };
    a_ = make(size(sizes_.rows, sizes_.depth));
    b_ = make(size(sizes_.depth, sizes_.columns));
    c_ = make(size(sizes_.rows, sizes_.columns));
    for_each_number(a_, FillByRows<Scalar>{view_of(a_), sizes_.depth, sizes_.depth, seed_of_a, true});
    for_each_number(b_, FillByRows<Scalar>{view_of(b_), sizes_.columns, sizes_.depth, seed_of_b, false});
    cublas_.emplace(library, stream);
  }

  void run_cublas() const {
    cublas_->multiply(a_.data(), b_.data(), c_.data(), sizes_.rows, sizes_.columns, sizes_.depth);
  }

  template <class Work>
  double seconds_of_each(std::size_t count, Work const& work) const {
    auto const all = seconds_of(space_, [&] {
      for (std::size_t number = 0; number < count; ++number) work();
    });
    return all / static_cast<double>(count);
  }

  /// Launches that take a millisecond together, by the second of two trials.
  template <class Work>
  std::size_t num_at_a_time(Work const& work) const {
    constexpr double enough = 1e-3;
    seconds_of_each(1, work);
    auto const seconds = std::max(1e-6, seconds_of_each(1, work));
    return static_cast<std::size_t>(std::clamp(std::ceil(enough / seconds), 1.0, 1000.0));
  }

  static Scalar number_of(Numbers const& numbers, std::size_t place) {
    Scalar number = 0;
    Kokkos::deep_copy(number, Kokkos::subview(numbers, place));
    return number;
  }

  void compare(KernelTimes& times) const {
    constexpr std::uint64_t count = 200;
    product_.run();
    if (cublas_) run_cublas();
    space_.fence();
    for (std::uint64_t number = 0; number < count; ++number) {
      auto const some = [&](std::uint64_t seed, int size) {
        return static_cast<std::size_t>((random_number<double>(seed, number) + 1.0) / 2.0 * size);
      };
      auto const row = some(3, sizes_.rows);
      auto const column = some(4, sizes_.columns);
      Scalar sum = 0;
      for (std::int64_t k = 0; k < sizes_.depth; ++k)
        sum = std::fma(number_at<Scalar>(seed_of_a, static_cast<std::int64_t>(row), k, sizes_.depth),
                       number_at<Scalar>(seed_of_b, static_cast<std::int64_t>(column), k, sizes_.depth), sum);
      if (product_.number(row, column) != sum) ++times.num_other_bits;
      if (!cublas_) continue;
      auto const other = number_of(c_, row * static_cast<std::size_t>(sizes_.columns) + column);
      times.largest_difference = std::max(times.largest_difference, std::abs(static_cast<double>(other - sum)));
    }
  }

  Sizes sizes_;
  ExecutionSpace space_;
  PackedProduct<ExecutionSpace, Scalar> product_;
  Numbers a_, b_, c_; ///< row by row, for cuBLAS
  std::optional<Cublas> cublas_;
};

template <Backend backend, class Scalar>
KernelTimes time_kernel(Sizes const& sizes, std::string const& cublas, std::size_t repeat) {
  return KernelAlone<SpaceOf<backend>, Scalar>(sizes, cublas).measure(repeat);
}

} // namespace varve::product_study
