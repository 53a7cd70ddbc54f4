#include "products/product_setup.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "products/product_engine.hpp"

#include <fmt/format.h>

#include <utility>

namespace varve {

ProductShape shape_of_product(ProductSide const& a, ProductSide const& b, std::optional<ProductSide> const& added,
                              std::size_t element_size) {
  auto const sizes = [](ProductSide const& side) {
    return side.is_transposed ? std::pair(side.num_columns, side.num_rows) : std::pair(side.num_rows, side.num_columns);
  };
  auto const [rows, depth] = sizes(a);
  auto const [depth_of_b, columns] = sizes(b);
  auto const shown = [](ProductSide const& side) { return side.is_transposed ? " transposed" : ""; };
  if (depth_of_b != depth) {
    throw InputError(fmt::format("{}{} has {} rows, expected {}, the columns of {}{}", b.place, shown(b), depth_of_b,
                                 depth, a.place, shown(a)));
  }
  if (added && (added->num_rows != rows || added->num_columns != columns)) {
    throw InputError(fmt::format("{} has {} x {} numbers, expected {} x {} as in the product", added->place,
                                 added->num_rows, added->num_columns, rows, columns));
  }
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 60U;
  if (capped_multiply(capped_multiply(rows, columns), element_size) > most_bytes)
    throw InputError(fmt::format("a product of {} x {} numbers is too large for a file", rows, columns));
  return {rows, columns, depth};
}

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
