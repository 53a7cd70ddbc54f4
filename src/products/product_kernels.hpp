#pragma once

#include "core/device_memory.hpp"
#include "products/product_schedule.hpp"

#include <memory>
#include <span>

namespace varve {

/// The kernels of a product on a backend. They do not fence.
template <class Scalar>
class ProductKernels {
public:
  virtual ~ProductKernels() = default;

  virtual DeviceMemory const& memory() const = 0;

  /// Lines of a block in which tiles are packed: rows of op(A) and columns of op(B). The sums of a tile of C are stored
  /// in blocks of this many rows and columns.
  virtual int block_rows() const = 0;
  virtual int block_columns() const = 0;

  /// Packs the numbers of a tile into blocks. `loose`: the numbers as they were read.
  virtual void pack(Stream const& lane, TileKey::Operand operand, LooseTile const& shape, std::span<Scalar const> loose,
                    std::span<Scalar> packed) const = 0;

  /// Adds the products of a step to the sums of its task, or sets them in its first step. `a`, `b`: packed tiles.
  /// `num_lanes`: number of steps that run concurrently.
  virtual void add_tile(Stream const& lane, PlannedStep const& step, std::span<Scalar const> a,
                        std::span<Scalar const> b, std::span<Scalar> sums, int num_lanes) const = 0;
};

/// Varve's kernels of one backend (backend_of_kernels()), with the memory of a backend that runs them, in a source file
/// that CMake generates from backend.cpp.in.
template <Backend backend, class Scalar>
std::unique_ptr<ProductKernels<Scalar>> product_kernels_of(DeviceMemory const& memory);

/// The same kernels of a library, in a source file that CMake generates from library.cpp.in in builds with Kokkos
/// Kernels.
template <Backend backend, class Scalar>
std::unique_ptr<ProductKernels<Scalar>> library_kernels_of(DeviceMemory const& memory);

} // namespace varve
