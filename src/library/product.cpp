#include <varve/product.hpp>

#include "core/error.hpp"
#include "io/dense_file.hpp"
#include "io/file_roles.hpp"
#include "library/crossing.hpp"
#include "products/product_engine.hpp"
#include "products/strided_matrix.hpp"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace varve::v0_3 {
namespace {

using varve::MatrixBlock;

/// A matrix that is read: its shape, its name in messages, and the function that reads it.
template <class Scalar>
struct Source {
  varve::ProductSide side;
  varve::ReadBlock<Scalar> read;
};

template <class Scalar, class Element>
Source<Scalar> open(DenseView<Element const> const& view, std::string const& role) {
  return {varve::ProductSide{role, view.num_rows, view.num_columns},
          [=](MatrixBlock const& block, Scalar* values) { varve::read_block(view, role, block, values); }};
}

template <class Scalar>
Source<Scalar> open(MatrixFile const& file, std::string const& /*role*/) {
  auto const matrix = std::make_shared<varve::DenseFile>(file.name);
  return {varve::ProductSide{matrix->path().string(), matrix->num_rows(), matrix->num_columns()},
          [matrix](MatrixBlock const& block, Scalar* values) { matrix->read(block, values); }};
}

template <class Scalar>
Source<Scalar> open(ProductOperand const& operand, std::string const& role, bool is_transposed = false) {
  auto source = std::visit([&](auto const& matrix) { return open<Scalar>(matrix, role); }, operand);
  source.side.is_transposed = is_transposed;
  return source;
}

/// Throws UsageError unless the output is no input and has a fitting name; removes what killed runs left beside it.
void check_files(ProductOperand const& a, ProductOperand const& b, ProductTarget const& c,
                 std::optional<ProductOperand> const& added) {
  varve::FileRoles files;
  auto const reads = [&](char const* role, ProductOperand const& operand) {
    if (auto const* const file = std::get_if<MatrixFile>(&operand)) files.reads(role, file->name);
  };
  reads("A", a);
  reads("B", b);
  if (added) reads("C0", *added);
  if (auto const* const file = std::get_if<MatrixFile>(&c)) {
    if (file->name.empty()) throw varve::UsageError("the name of the file for C is empty");
    files.writes("C", file->name, varve::Content::container);
  }
  files.require_sound();
  files.remove_leftovers();
}

/// One product, from open inputs to its output.
template <class Scalar>
class Product {
public:
  Product(ProductOperand const& a, ProductOperand const& b, ProductTarget const& c, ProductOptions const& options)
      : a_(open<Scalar>(a, "A", options.transpose_a)),
        b_(open<Scalar>(b, "B", options.transpose_b)),
        options_(options),
        scaling_{options.alpha, options.beta},
        backend_(options.backend.value_or(compiled_backends().front())) {
    if (options.added) added_ = open<Scalar>(*options.added, "C0");
    std::optional<varve::ProductSide> added_side;
    if (added_) added_side = added_->side;
    shape_ = varve::shape_of_product(a_.side, b_.side, added_side, sizeof(Scalar));
    open_target(c);
  }

  ProductResult run(Progress const& progress) {
    if (shape_.rows > 0 && shape_.columns > 0) {
      if (shape_.depth > 0) {
        compute(progress);
      } else {
        add_nothing();
      }
    }
    if (writer_) writer_->commit(hash_);
    return {shape_.rows, shape_.columns, tile_, hash_};
  }

private:
  static constexpr bool is_double = std::is_same_v<Scalar, double>;

  void open_target(ProductTarget const& target) {
    if (auto const* const file = std::get_if<MatrixFile>(&target)) {
      if (shape_.rows == 0 || shape_.columns == 0)
        varve::fail<varve::InputError>("a product of {} x {} numbers cannot be written to a file", shape_.rows,
                                       shape_.columns);
      writer_ = std::make_unique<varve::DenseFileWriter>(file->name, shape_.rows, shape_.columns,
                                                         is_double ? varve::Precision::double_precision
                                                                   : varve::Precision::single_precision);
      return;
    }
    auto const* const view = std::get_if<DenseView<Scalar>>(&target);
    if (view == nullptr)
      throw varve::UsageError(is_double ? "C holds float, but the precision of the product is double"
                                        : "C holds double, but the precision of the product is float");
    if (view->num_rows != shape_.rows || view->num_columns != shape_.columns)
      varve::fail<varve::InputError>("C has {} x {} numbers, expected {} x {} as in the product", view->num_rows,
                                     view->num_columns, shape_.rows, shape_.columns);
    memory_ = *view;
  }

  void compute(Progress const& progress) {
    auto const limit =
        options_.device_memory_limit ? *options_.device_memory_limit : varve::default_product_memory(backend_);
    tile_ = options_.tile ? *options_.tile : varve::default_product_tile<Scalar>(shape_, backend_, limit);
    auto const tiles = varve::tiles_of(shape_, tile_);
    varve::ProductInputs<Scalar> inputs{a_.read, b_.read, options_.transpose_a, options_.transpose_b, {}};
    auto const num_steps = tiles.num_tasks() * tiles.num_steps();
    std::uint64_t num_done = 0;
    if (progress) inputs.before_step = [&] { progress(num_done++, num_steps); };
    auto const engine = std::make_unique<varve::ProductEngine<Scalar>>(backend_, tiles, limit, inputs);
    auto const order = varve::order_of_tasks(tiles, engine->memory().order);
    std::size_t num_begun = 0;
    auto const next = [&]() -> std::optional<std::uint64_t> {
      if (num_begun == order.size()) return std::nullopt;
      return order[num_begun++];
    };
    engine->run(next, [&](std::uint64_t, varve::TileSums<Scalar> const& sums) { take(sums); });
    if (progress) progress(num_steps, num_steps);
  }

  /// C = beta C0, or 0: the sums of no products, row by row.
  void add_nothing() {
    std::vector<Scalar> const sums(shape_.columns);
    for (std::uint64_t row = 0; row < shape_.rows; ++row)
      take({sums.data(), {row, 1, 0, shape_.columns}, 1, static_cast<std::size_t>(shape_.columns)});
  }

  /// Scales finished sums and stores them.
  void take(varve::TileSums<Scalar> const& sums) {
    auto const size = static_cast<std::size_t>(sums.block.size());
    values_.resize(size);
    if (added_) {
      added_values_.resize(size);
      added_->read(sums.block, added_values_.data());
    }
    hash_ += varve::finish_tile(sums, scaling_, added_ ? added_values_.data() : nullptr, values_.data());
    if (writer_) {
      writer_->write(sums.block, values_.data());
    } else {
      varve::write_block(memory_, sums.block, values_.data());
    }
  }

  Source<Scalar> a_, b_;
  std::optional<Source<Scalar>> added_;
  ProductOptions const& options_;
  varve::ProductScaling scaling_;
  varve::Backend backend_;
  varve::ProductShape shape_;
  DenseView<Scalar> memory_; ///< C, unless it goes to a file
  std::unique_ptr<varve::DenseFileWriter> writer_;
  std::vector<Scalar> values_, added_values_; ///< of a tile
  std::uint64_t tile_ = 0;
  std::uint64_t hash_ = 0;
};

} // namespace

MatrixDescription describe_matrix(MatrixFile const& file) {
  varve::DenseFile const matrix(file.name);
  bool const is_double = matrix.stored() == varve::Precision::double_precision;
  return {matrix.num_rows(), matrix.num_columns(),
          is_double ? Precision::double_precision : Precision::single_precision};
}

ProductResult multiply(ProductOperand const& a, ProductOperand const& b, ProductTarget const& c,
                       ProductOptions const& options, Progress const& progress) {
  require_kokkos();
  for (auto const& [name, number] : {std::pair("alpha", options.alpha), std::pair("beta", options.beta)})
    if (!std::isfinite(number)) varve::fail<varve::UsageError>("{} is {}, expected a finite number", name, number);
  check_files(a, b, c, options.added);
  Turn const turn;
  return options.precision == Precision::double_precision ? Product<double>(a, b, c, options).run(progress)
                                                          : Product<float>(a, b, c, options).run(progress);
}

} // namespace varve::v0_3
