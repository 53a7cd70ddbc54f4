#include "kernel_table.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/version.hpp"
#include "kernel_alone.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace varve::product_study {
namespace {

std::vector<Sizes> default_sizes() {
  std::vector<Sizes> all = {{4096, 4096, 4096}, {8192, 8192, 8192}};
  for (int const rows : {32, 320, 3200, 32000})
    for (int const depth : {40, 400, 4000, 40000}) all.push_back({rows, 4000, depth});
  return all;
}

Sizes parse_sizes(std::string const& text) {
  Sizes sizes;
  char const* place = text.data();
  char const* const end = text.data() + text.size();
  for (int* const size : {&sizes.rows, &sizes.columns, &sizes.depth}) {
    auto const read = std::from_chars(place, end, *size);
    bool const is_last = size == &sizes.depth;
    bool const ends_well = is_last ? read.ptr == end : read.ptr != end && *read.ptr == 'x';
    if (read.ec != std::errc() || *size < 1 || !ends_well)
      throw UsageError(fmt::format("--sizes has '{}', expected ROWSxCOLUMNSxK, such as 3200x4000x400", text));
    place = read.ptr + 1;
  }
  return sizes;
}

template <class Scalar>
KernelTimes times_on(Backend wanted, Sizes const& sizes, std::string const& cublas, std::size_t repeat) {
  KernelTimes times;
  auto const visit = [&]<Backend... Compiled>() {
    ((Compiled == wanted ? void(times = time_kernel<Compiled, Scalar>(sizes, cublas, repeat)) : void()), ...);
  };
  visit.template operator()<VARVE_BACKENDS>();
  return times;
}

/// Columns of a precision: cuBLAS's rate, the kernel's with the shape of its teams, and the share.
std::string columns_of(Sizes const& sizes, KernelTimes const& times) {
  auto const rate = [&](double seconds) { return seconds > 0.0 ? 2e-12 * sizes.num_fma() / seconds : 0.0; };
  auto const own = fmt::format("{:.2f} {}", rate(times.own_seconds), times.shape);
  if (times.cublas_seconds == 0.0) return fmt::format("- | {} | -", own);
  return fmt::format("{:.2f} | {} | {:.2f}", rate(times.cublas_seconds), own, times.cublas_seconds / times.own_seconds);
}

} // namespace

int print_kernel_table(Backend backend, std::vector<std::string> const& sizes, std::string const& cublas,
                       std::size_t repeat) {
  std::vector<Sizes> all;
  for (auto const& text : sizes) all.push_back(parse_sizes(text));
  if (all.empty()) all = default_sizes();
  fmt::print("{}, commit {}, median of {}\n\n", device_name(backend), provenance.git_commit, repeat);
  fmt::print("| size | float: cuBLAS TF/s | Varve | share | double: cuBLAS TF/s | Varve | share |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  std::size_t num_other_bits = 0;
  double largest = 0.0;
  for (auto const& one : all) {
    auto const in_float = times_on<float>(backend, one, cublas, repeat);
    auto const in_double = times_on<double>(backend, one, cublas, repeat);
    fmt::print("| {} x {} x {} | {} | {} |\n", one.rows, one.columns, one.depth, columns_of(one, in_float),
               columns_of(one, in_double));
    std::fflush(stdout); // NOLINT: a table that was cut keeps its rows
    num_other_bits += in_float.num_other_bits + in_double.num_other_bits;
    largest = std::max({largest, in_float.largest_difference, in_double.largest_difference});
  }
  fmt::print("\n{} of {} numbers have other bits than plain loops", num_other_bits, all.size() * 2 * 200);
  if (!cublas.empty()) fmt::print("; cuBLAS differs by {:.2g} at most", largest);
  fmt::print("\n");
  return num_other_bits == 0 ? 0 : 1;
}

} // namespace varve::product_study
