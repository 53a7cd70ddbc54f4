#pragma once

#include "core/backend.hpp"
#include "products/product_tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace varve {

/// What the shape of a product depends on, of one of its matrices as it is stored.
struct ProductSide {
  std::string place; ///< for messages
  std::uint64_t num_rows = 0;
  std::uint64_t num_columns = 0;
  bool is_transposed = false; ///< whether op() transposes it
};

/// The shape of C = op(A) op(B) + C0. Throws InputError if the shapes of the matrices do not fit, or if C would have
/// 2^60 bytes or more.
ProductShape shape_of_product(ProductSide const& a, ProductSide const& b, std::optional<ProductSide> const& added,
                              std::size_t element_size);

/// The bytes that a product takes of a device, which so many processes share, if nothing else is said: nine tenths of
/// what is free, on hosts half of it.
std::size_t default_product_memory(Backend backend, std::size_t num_sharing = 1);

/// The rows of a tile if nothing else is said: many tiles that fit the device. (float and double)
template <class Scalar>
std::uint64_t default_product_tile(ProductShape const& shape, Backend backend, std::size_t memory_limit);

} // namespace varve
