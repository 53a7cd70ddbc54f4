#pragma once

#include "core/device_stream.hpp"
#include "core/execution.hpp"
#include "core/views.hpp"
#include "products/add_tile.hpp"
#include "products/product_kernels.hpp"

namespace varve {

/// ProductKernels on an execution space whose tiles are packed in blocks of `Rows` and `Columns` lines; all but adding
/// products.
template <class ExecutionSpace, class Scalar, int Rows, int Columns>
class PackedProduct : public ProductKernels<Scalar> {
public:
  DeviceMemory const& memory() const override { return device_memory(to_backend<ExecutionSpace>()); }
  int block_rows() const override { return Rows; }
  int block_columns() const override { return Columns; }

  void pack(Stream const& lane, TileKey::Operand operand, LooseTile const& shape, std::span<Scalar const> loose,
            std::span<Scalar> packed) const override {
    auto const& space = instance_of<ExecutionSpace>(lane);
    if (operand == TileKey::Operand::a) {
      pack_tile<Rows>(space, shape, view_of(loose), view_of(packed));
    } else {
      pack_tile<Columns>(space, shape, view_of(loose), view_of(packed));
    }
  }

protected:
  template <class Number>
  static ArrayView<Number> view_of(std::span<Number> numbers) {
    return ArrayView<Number>(numbers.data(), numbers.size());
  }
};

/// With Varve's kernel: one chain of fma for each sum.
template <class ExecutionSpace, class Scalar>
class ProductKernelsOn final : public PackedProduct<ExecutionSpace, Scalar, ProductBlocks<ExecutionSpace, Scalar>::rows,
                                                    ProductBlocks<ExecutionSpace, Scalar>::columns> {
public:
  void add_tile(Stream const& lane, PlannedStep const& step, std::span<Scalar const> a, std::span<Scalar const> b,
                std::span<Scalar> sums, int num_lanes) const override {
    TileStep<Scalar> const tile{this->view_of(a), this->view_of(b), this->view_of(sums), step.num_rows,
                                step.num_columns, step.depth,       step.is_first};
    varve::add_tile(instance_of<ExecutionSpace>(lane), tile, num_lanes);
  }
};

} // namespace varve
