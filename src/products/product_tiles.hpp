#pragma once

#include "io/matrix_block.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The sizes of C = op(A) op(B): C has `rows` x `columns` numbers, each the sum of `depth` products.
struct ProductShape {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t depth = 0;
};

/// Place and shape of a stored matrix, from which the shape of a product follows.
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

/// Layout of the numbers of a tile before they are packed: number (line, k) is at line * line_stride + k *
/// depth_stride. A line is a row of op(A) or a column of op(B).
struct LooseTile {
  std::int64_t num_lines = 0;
  std::int64_t depth = 0;
  std::int64_t line_stride = 0;
  std::int64_t depth_stride = 0;
};

/// The block of a stored matrix that a tile holds, and the layout of its numbers when it is read row by row.
struct TileExtent {
  MatrixBlock block;
  LooseTile shape;
};

/// Division of a product: C into tiles of `tile` x `tile` numbers, and the sums of a tile into steps of `step`
/// products. Tiles at the edges are smaller. A task computes a tile; tasks are numbered by rows of tiles.
struct ProductTiles {
  ProductShape shape;
  std::uint64_t tile = 0;
  std::uint64_t step = 0;

  std::uint64_t num_row_tiles() const { return (shape.rows + tile - 1) / tile; }
  std::uint64_t num_column_tiles() const { return (shape.columns + tile - 1) / tile; }
  std::uint64_t num_steps() const { return (shape.depth + step - 1) / step; }
  std::uint64_t num_tasks() const { return num_row_tiles() * num_column_tiles(); }

  std::uint64_t row_tile(std::uint64_t task) const { return task / num_column_tiles(); }
  std::uint64_t column_tile(std::uint64_t task) const { return task % num_column_tiles(); }

  /// The number of rows of a row tile, and of columns of a column tile.
  std::uint64_t num_rows(std::uint64_t row_tile_number) const {
    return std::min(tile, shape.rows - row_tile_number * tile);
  }
  std::uint64_t num_columns(std::uint64_t column_tile_number) const {
    return std::min(tile, shape.columns - column_tile_number * tile);
  }

  /// The block of C that a task computes.
  MatrixBlock block(std::uint64_t task) const {
    return {row_tile(task) * tile, num_rows(row_tile(task)), column_tile(task) * tile, num_columns(column_tile(task))};
  }
};

/// The number of tiles of A and B in all steps.
std::uint64_t num_tiles(ProductTiles const& tiles);

/// `count`, rounded up to a multiple of `width`.
constexpr std::uint64_t rounded_up(std::uint64_t count, std::uint64_t width) {
  return (count + width - 1) / width * width;
}

inline constexpr std::uint64_t max_product_tasks = std::uint64_t{1} << 22U;
inline constexpr std::uint64_t largest_product_tile = std::uint64_t{1} << 16U;

/// Tiles of this size; the steps follow from it. Throws UsageError if the size is 0 or too large, or if there would be
/// too many tasks.
ProductTiles tiles_of(ProductShape const& shape, std::uint64_t tile);

/// Order of tasks, chosen so that tiles of A and B are reused while a device has them. A band is `band` rows (or
/// columns) of tiles of C; its tasks are ordered column by column of the band (or row by row).
struct ProductOrder {
  std::size_t band = 0;       ///< 0: no bands, see order_of_tasks()
  bool is_of_columns = false; ///< bands are columns of tiles: they share tiles of B, else of A
  bool stays = false;         ///< all tiles that a band shares stay on the device until the next band

  bool operator==(ProductOrder const&) const = default;
};

/// All tasks, band after band; every second band in reverse order, so that the next band begins with the tiles of A or
/// B with which the last one ended. Without bands, an order by recursive halving of the longer side, so that neighbours
/// in the order share tiles of A and B for any size of the cache (Frigo, Leiserson, Prokop and Ramachandran,
/// "Cache-oblivious algorithms", 1999).
std::vector<std::uint64_t> order_of_tasks(ProductTiles const& tiles, ProductOrder const& bands = {});

/// Lower bound, for any order, of the bytes of A and B that are copied to a device with `memory` bytes: each number
/// once, and at least the bound of Smith, Lowery, Langou and van de Geijn ("A tight I/O lower bound for matrix
/// multiplication", 2019). With several devices: the total for all of them, for any division of the product.
double min_traffic(ProductShape const& shape, std::size_t element_size, std::vector<double> const& memories);

/// Memory of a device for the concurrent tasks and the tiles it keeps.
struct ProductMemory {
  std::size_t num_lanes = 0;  ///< concurrent tasks
  std::size_t num_slots = 0;  ///< packed tiles of A and B that are kept
  std::size_t lane_bytes = 0; ///< bytes of a task: its sums, and a tile in transfer
  std::size_t slot_bytes = 0;
  ProductOrder order = {}; ///< order of tasks with the least traffic for this memory

  std::size_t bytes() const { return num_lanes * lane_bytes + num_slots * slot_bytes; }
};

/// Properties of a device's memory and kernel.
struct ProductDevice {
  std::size_t element_size = 4;
  std::size_t block_rows = 1; ///< rows and columns of the blocks in which the kernel stores tiles
  std::size_t block_columns = 1;
  std::size_t memory_limit = 0; ///< bytes
};

/// Chooses the number of concurrent tasks, the tiles that fit the rest of the memory, and the order of tasks. If all
/// tiles of A and B fit, or only a few, these are at most four tasks, reduced until eight tiles fit. Otherwise,
/// whichever has less traffic: two to four tasks and bands whose tiles of A or B stay, while the tiles of the other
/// matrix are streamed once per band; or up to 16 tasks, a block of tiles of C that uses a tile of A for each of its
/// columns and a tile of B for each of its rows. Throws ResourceError if one task with two tiles does not fit.
ProductMemory plan_product(ProductTiles const& tiles, ProductDevice const& device);

/// The largest tile, a power of two up to `largest`, with which four tasks and eight tiles fit and there are at least
/// 16 tasks; smaller ones down to 512 to get enough tasks, and down to 16 to fit the memory.
std::uint64_t choose_tile(ProductShape const& shape, ProductDevice const& device, std::uint64_t largest);

/// The finished sums of a task, which start at 0 and add the products in ascending order of k. They are stored in
/// blocks of block_rows x block_columns numbers, row by row; numbers past the task's own are padding.
template <class Scalar>
struct TileSums {
  Scalar const* sums = nullptr;
  MatrixBlock block; ///< the block of C
  std::size_t block_rows = 1;
  std::size_t block_columns = 1;

  std::size_t blocks_across() const {
    return (static_cast<std::size_t>(block.num_columns) + block_columns - 1) / block_columns;
  }
};

/// Scaling of the sums of op(A) op(B): C = alpha * sum + beta * C0.
struct ProductScaling {
  double alpha = 1.0;
  double beta = 0.0; ///< ignored without C0
};

/// Writes the numbers of a tile row by row to `values` and returns their hash. A number is alpha * sum in double, or
/// with `added` fma(alpha, sum, beta * added), rounded once more to Scalar; never -0. The hash is the sum over all
/// tiles of the fingerprints of nonzero numbers, modulo 2^64 (see activation_fingerprint()), so it does not depend on
/// the tiles; it equals hash_of_block(). `added`: the numbers of C0 row by row, or null. Throws InputError, naming row
/// and column, if a number is not finite.
template <class Scalar>
std::uint64_t finish_tile(TileSums<Scalar> const& sums, ProductScaling const& scaling, Scalar const* added,
                          Scalar* values);

} // namespace varve
