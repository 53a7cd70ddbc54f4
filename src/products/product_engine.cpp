#include "products/product_engine.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "io/matrix_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <type_traits>

namespace varve {
namespace {

/// Calls work.operator()<backend>() with the backend among `Compiled` of this name.
template <Backend... Compiled, class Work>
void on_backend(Backend wanted, Work const& work) {
  bool is_compiled = false;
  auto const visit = [&]<Backend backend>() {
    if (backend != wanted) return;
    work.template operator()<backend>();
    is_compiled = true;
  };
  (visit.template operator()<Compiled>(), ...);
  if (!is_compiled) throw UsageError("this build has no backend " + to_string(wanted));
}

/// alpha * sum + beta * added for a row.
template <class Scalar>
void finish_row(TileSums<Scalar> const& tile, std::uint64_t row, ProductScaling const& scaling, Scalar const* added,
                Scalar* values) {
  auto const num_columns = tile.block.num_columns;
  auto const line = row + tile.skipped_rows;
  auto const* const first = tile.sums +
                            line / tile.block_rows * tile.blocks_across() * tile.block_rows * tile.block_columns +
                            line % tile.block_rows * tile.block_columns;
  for (std::uint64_t begin = 0; begin < num_columns;) {
    auto const column_of_block = (begin + tile.skipped_columns) % tile.block_columns;
    auto const* const sums =
        first + (begin + tile.skipped_columns - column_of_block) * tile.block_rows + column_of_block;
    auto const count = std::min<std::uint64_t>(tile.block_columns - column_of_block, num_columns - begin);
    for (std::uint64_t column = 0; column < count; ++column) {
      auto const sum = static_cast<double>(sums[column]);
      double const value =
          added == nullptr ? scaling.alpha * sum
                           : std::fma(scaling.alpha, sum, scaling.beta * static_cast<double>(added[begin + column]));
      values[begin + column] = static_cast<Scalar>(value) + Scalar(0);
    }
    begin += count;
  }
}

template <class Scalar>
void require_finite(MatrixBlock const& block, std::uint64_t row, Scalar const* values) {
  if (all_finite(values, static_cast<std::size_t>(block.num_columns))) return;
  for (std::uint64_t column = 0; column < block.num_columns; ++column) {
    if (std::isfinite(values[column])) continue;
    throw InputError(fmt::format("the number of the product in row {}, column {} (from 0) is {}: its sum is too large "
                                 "for {}",
                                 block.first_row + row, block.first_column + column, values[column],
                                 std::is_same_v<Scalar, float> ? "float; try --precision double" : "double"));
  }
}

} // namespace

template <class Scalar>
std::uint64_t finish_tile(TileSums<Scalar> const& sums, ProductScaling const& scaling, Scalar const* added,
                          Scalar* values) {
  auto const& block = sums.block;
  std::atomic<std::uint64_t> hash = 0;
  for_each_rows(block, [&](std::uint64_t first, std::uint64_t last) {
    std::uint64_t part = 0;
    for (auto row = first; row < last; ++row) {
      auto const place = row * block.num_columns;
      finish_row(sums, row, scaling, added == nullptr ? nullptr : added + place, values + place);
      require_finite(block, row, values + place);
      part += hash_of_row(block, row, values + place);
    }
    hash += part;
  });
  return hash;
}
template std::uint64_t finish_tile(TileSums<float> const&, ProductScaling const&, float const*, float*);
template std::uint64_t finish_tile(TileSums<double> const&, ProductScaling const&, double const*, double*);

char const* name_of(ProductEvent::What what) {
  static constexpr std::array<char const*, ProductEvent::num_kinds> names = {"task", "copy", "wait", "finish", "steal"};
  return names[static_cast<std::size_t>(what)];
}

void ProductTimeline::restart() { *this = ProductTimeline(); }

void ProductTimeline::add(ProductEvent const& event) {
  auto& events = kinds_[static_cast<std::size_t>(event.what)];
  events.push_back(event);
  if (events.size() <= most_of_a_kind) return;
  auto const middle = events.begin() + static_cast<std::ptrdiff_t>(events.size() / 2);
  std::ranges::nth_element(events, middle, std::ranges::greater(),
                           [](ProductEvent const& one) { return one.end - one.begin; });
  num_dropped_ += static_cast<std::uint64_t>(std::distance(middle, events.end()));
  events.erase(middle, events.end());
}

std::vector<ProductEvent> ProductTimeline::events() const {
  std::vector<ProductEvent> all;
  for (auto const& events : kinds_) all.insert(all.end(), events.begin(), events.end());
  std::ranges::sort(all, {}, [](ProductEvent const& event) { return event.begin; });
  return all;
}

bool has_library_product() { return VARVE_HAVE_KOKKOS_KERNELS == 1; }

template <class Scalar>
std::unique_ptr<ProductEngine<Scalar>> make_product_engine(Backend backend, ProductTiles const& tiles,
                                                           std::size_t memory_limit,
                                                           ProductInputs<Scalar> const& inputs, ProductWay way) {
  if (way == ProductWay::library && !has_library_product()) {
    throw UsageError("this build lacks Kokkos Kernels, which --product library takes gemm from (cmake "
                     "-DVARVE_ENABLE_KOKKOS_KERNELS=ON)");
  }
  std::unique_ptr<ProductEngine<Scalar>> engine;
  on_backend<VARVE_BACKENDS>(backend, [&]<Backend chosen>() {
#if VARVE_HAVE_KOKKOS_KERNELS
    if (way == ProductWay::library) {
      engine = library_product_on<chosen, Scalar>(tiles, memory_limit, inputs);
      return;
    }
#endif
    engine = product_engine_on<chosen, Scalar>(tiles, memory_limit, inputs);
  });
  return engine;
}
template std::unique_ptr<ProductEngine<float>> make_product_engine(Backend, ProductTiles const&, std::size_t,
                                                                   ProductInputs<float> const&, ProductWay);
template std::unique_ptr<ProductEngine<double>> make_product_engine(Backend, ProductTiles const&, std::size_t,
                                                                    ProductInputs<double> const&, ProductWay);

template <class Scalar>
ProductDevice product_device(Backend backend, std::size_t memory_limit) {
  ProductDevice device;
  on_backend<VARVE_BACKENDS>(backend,
                             [&]<Backend chosen>() { device = product_device_on<chosen, Scalar>(memory_limit); });
  return device;
}
template ProductDevice product_device<float>(Backend, std::size_t);
template ProductDevice product_device<double>(Backend, std::size_t);

std::size_t default_product_memory(Backend backend, std::size_t num_sharing) {
  auto const available = available_memory(backend);
  return (has_own_memory(backend) ? available / 10 * 9 : available / 2) / num_sharing;
}

template <class Scalar>
std::uint64_t default_product_tile(ProductShape const& shape, Backend backend, std::size_t memory_limit) {
  std::uint64_t const largest = has_own_memory(backend) ? 8192 : 4096;
  return choose_tile(shape, product_device<Scalar>(backend, memory_limit), largest);
}
template std::uint64_t default_product_tile<float>(ProductShape const&, Backend, std::size_t);
template std::uint64_t default_product_tile<double>(ProductShape const&, Backend, std::size_t);

} // namespace varve
