#include "io/dense_file.hpp"
#include "products/plain_product.hpp"

#include <varve/error.hpp>
#include <varve/product.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

// Products through the public header have the bits of plain loops, from and to memory and files.
namespace varve::test {
namespace {

namespace face = varve::v0_3;
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::uint64_t rows = 75;
constexpr std::uint64_t depth = 130;
constexpr std::uint64_t columns = 90;

template <class Scalar>
face::DenseView<Scalar const> view_of(Dense<Scalar> const& matrix) {
  return face::DenseView<Scalar const>::by_rows(matrix.values.data(), matrix.num_rows, matrix.num_columns);
}

/// A matrix whose numbers lie far apart, in any of eight orders, among others that nobody may write.
template <class Scalar>
class Scattered {
public:
  Scattered(std::uint64_t num_rows, std::uint64_t num_columns, bool by_columns, bool upwards, bool leftwards)
      : memory_(6 * num_rows * num_columns + 6, guard) {
    auto const n = static_cast<std::ptrdiff_t>(by_columns ? num_rows : num_columns);
    std::ptrdiff_t const row_stride = by_columns ? 2 : 3 * n;
    std::ptrdiff_t const column_stride = by_columns ? 3 * n : 2;
    view_ = {memory_.data(), num_rows, num_columns, row_stride, column_stride};
    if (upwards) flip(view_.row_stride, num_rows);
    if (leftwards) flip(view_.column_stride, num_columns);
  }

  face::DenseView<Scalar> view() const { return view_; }
  Scalar& at(std::uint64_t row, std::uint64_t column) const {
    return view_.data[static_cast<std::ptrdiff_t>(row) * view_.row_stride +
                      static_cast<std::ptrdiff_t>(column) * view_.column_stride];
  }
  std::size_t num_untouched() const {
    return static_cast<std::size_t>(std::count(memory_.begin(), memory_.end(), guard));
  }
  std::size_t size() const { return memory_.size(); }

private:
  static constexpr Scalar guard = 1000;

  void flip(std::ptrdiff_t& stride, std::uint64_t count) {
    view_.data += static_cast<std::ptrdiff_t>(count - 1) * stride;
    stride = -stride;
  }

  std::vector<Scalar> memory_;
  face::DenseView<Scalar> view_;
};

template <class Scalar>
class PublicProduct : public ::testing::Test {
protected:
  PublicProduct() {
    options_.precision = sizeof(Scalar) == 8 ? face::Precision::double_precision : face::Precision::single_precision;
  }

  face::DenseView<Scalar> c() { return face::DenseView<Scalar>::by_rows(c_.data(), rows, columns); }

  Dense<Scalar> a_ = random_dense<Scalar>(rows, depth, 1);
  Dense<Scalar> b_ = random_dense<Scalar>(depth, columns, 2);
  Dense<Scalar> expected_ = plain_product(a_, b_);
  std::vector<Scalar> c_ = std::vector<Scalar>(rows * columns);
  face::ProductOptions options_;
};

using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(PublicProduct, Scalars);

TYPED_TEST(PublicProduct, HasTheBitsOfPlainLoopsOnEveryBackendAndTile) {
  auto const hash = face::multiply(view_of(this->a_), view_of(this->b_), this->c(), this->options_).hash;
  EXPECT_EQ(this->c_, this->expected_.values);
  for (auto const backend : face::compiled_backends()) {
    for (std::size_t const tile : {7U, 64U, 4096U}) {
      this->options_.backend = backend;
      this->options_.tile = tile;
      std::ranges::fill(this->c_, TypeParam(0));
      auto const result = face::multiply(view_of(this->a_), view_of(this->b_), this->c(), this->options_);
      EXPECT_EQ(this->c_, this->expected_.values) << tile;
      EXPECT_EQ(result.hash, hash);
      EXPECT_EQ(result.tile, tile);
      EXPECT_EQ(result.num_rows, rows);
      EXPECT_EQ(result.num_columns, columns);
    }
  }
}

TYPED_TEST(PublicProduct, TakesAnyStrides) {
  this->options_.tile = 32;
  for (unsigned order = 0; order < 8; ++order) {
    SCOPED_TRACE(order);
    auto const bit = [&](unsigned number) { return ((order >> number) & 1U) != 0; };
    Scattered<TypeParam> const a(rows, depth, bit(0), bit(1), bit(2));
    Scattered<TypeParam> const b(depth, columns, bit(1), bit(2), bit(0));
    Scattered<TypeParam> const c(rows, columns, bit(2), bit(0), bit(1));
    for (std::uint64_t row = 0; row < rows; ++row)
      for (std::uint64_t k = 0; k < depth; ++k) a.at(row, k) = this->a_.at(row, k);
    for (std::uint64_t k = 0; k < depth; ++k)
      for (std::uint64_t column = 0; column < columns; ++column) b.at(k, column) = this->b_.at(k, column);
    face::multiply(a.view(), b.view(), c.view(), this->options_);
    EXPECT_EQ(c.num_untouched(), c.size() - rows * columns);
    for (std::uint64_t row = 0; row < rows; ++row)
      for (std::uint64_t column = 0; column < columns; ++column)
        ASSERT_EQ(c.at(row, column), this->expected_.at(row, column)) << row << ' ' << column;
  }
}

TYPED_TEST(PublicProduct, TransposesScalesAndAddsInPlace) {
  auto const a = transposed(this->a_);
  auto const b = transposed(this->b_);
  auto const added = random_dense<TypeParam>(rows, columns, 3);
  this->c_ = added.values;
  this->options_.tile = 32;
  this->options_.transpose_a = this->options_.transpose_b = true;
  this->options_.alpha = 0.1;
  this->options_.beta = -0.3;
  this->options_.added = this->c();
  face::multiply(view_of(a), view_of(b), this->c(), this->options_);
  for (std::size_t i = 0; i < this->c_.size(); ++i) {
    auto const sum = static_cast<double>(this->expected_.values[i]);
    ASSERT_EQ(this->c_[i], static_cast<TypeParam>(std::fma(0.1, sum, -0.3 * static_cast<double>(added.values[i]))));
  }
}

TYPED_TEST(PublicProduct, OfNoTermsIsZeroAndOfNoRowsIsNothing) {
  Dense<TypeParam> const a{3, 0, {}};
  Dense<TypeParam> const b{0, 2, {}};
  std::vector<TypeParam> c(6, TypeParam(5));
  auto const c_view = face::DenseView<TypeParam>::by_rows(c.data(), 3, 2);
  this->options_.added = c_view;
  this->options_.beta = 0.5;
  face::multiply(view_of(a), view_of(b), c_view, this->options_);
  EXPECT_EQ(c, std::vector<TypeParam>(6, TypeParam(2.5)));
  this->options_.added.reset();
  EXPECT_EQ(face::multiply(view_of(a), view_of(b), c_view, this->options_).hash, 0U);
  EXPECT_EQ(c, std::vector<TypeParam>(6));
  Dense<TypeParam> const none{0, depth, {}};
  auto const empty = face::DenseView<TypeParam>::by_rows(c.data(), 0, columns);
  EXPECT_EQ(face::multiply(view_of(none), view_of(this->b_), empty, this->options_).num_rows, 0U);
}

TYPED_TEST(PublicProduct, ReadsAndWritesFiles) {
  auto const folder = fs::path(::testing::TempDir()) / ("varve_public_product_" + std::to_string(sizeof(TypeParam)));
  fs::create_directories(folder);
  auto const path = [&](char const* name) { return (folder / name).string(); };
  DenseFileWriter writer(path("a.safetensors"), rows, depth, Precision::single_precision);
  auto const a = random_dense<float>(rows, depth, 7);
  writer.write({0, rows, 0, depth}, a.values.data());
  writer.commit();
  auto const description = face::describe_matrix({path("a.safetensors")});
  EXPECT_EQ(description.num_rows, rows);
  EXPECT_EQ(description.num_columns, depth);
  EXPECT_EQ(description.precision, face::Precision::single_precision);
  this->options_.tile = 32;
  auto const result = face::multiply(face::MatrixFile{path("a.safetensors")}, view_of(this->b_),
                                     face::MatrixFile{path("c.safetensors")}, this->options_);
  Dense<TypeParam> const rounded{rows, depth, {a.values.begin(), a.values.end()}};
  auto const expected = plain_product(rounded, this->b_);
  DenseFile const c(path("c.safetensors"));
  EXPECT_EQ(c.stored(), sizeof(TypeParam) == 8 ? Precision::double_precision : Precision::single_precision);
  c.read({0, rows, 0, columns}, this->c_.data());
  EXPECT_EQ(this->c_, expected.values);
  EXPECT_EQ(face::multiply(face::MatrixFile{path("a.safetensors")}, view_of(this->b_), this->c(), this->options_).hash,
            result.hash);
  EXPECT_THAT([&] { face::multiply(view_of(this->a_), view_of(this->b_), face::MatrixFile{path("c.json")}); },
              ThrowsMessage<face::UsageError>(HasSubstr("C " + path("c.json") + " has an ending of another format")));
  EXPECT_THAT(
      [&] {
        face::multiply(face::MatrixFile{path("c.safetensors")}, view_of(this->b_),
                       face::MatrixFile{path("c.safetensors")});
      },
      ThrowsMessage<face::UsageError>(HasSubstr("would replace what A")));
  EXPECT_THAT([&] { face::describe_matrix({path("none.safetensors")}); },
              ThrowsMessage<face::InputError>(HasSubstr("none.safetensors")));
  fs::remove_all(folder);
}

TYPED_TEST(PublicProduct, AfterAnExceptionLeavesNoFileAndMayBeCalledAgain) {
  auto const path = fs::path(::testing::TempDir()) / "varve_stopped_product.safetensors";
  fs::remove(path);
  this->options_.tile = 32;
  std::size_t last = 0;
  std::size_t all = 0;
  auto const stop = [&](std::size_t done, std::size_t total) {
    all = total;
    if (done == 3) throw std::domain_error("enough");
    last = done;
  };
  EXPECT_THROW(
      face::multiply(view_of(this->a_), view_of(this->b_), face::MatrixFile{path.string()}, this->options_, stop),
      std::domain_error);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(last, 2U);
  EXPECT_EQ(all, 3U * 3U * 3U) << "tiles of 32 x 32 in steps of 64";
  face::multiply(view_of(this->a_), view_of(this->b_), this->c(), this->options_,
                 [&](std::size_t done, std::size_t) { last = done; });
  EXPECT_EQ(last, all);
  EXPECT_EQ(this->c_, this->expected_.values);
}

TYPED_TEST(PublicProduct, RefusesWhatDoesNotFit) {
  auto const a = view_of(this->a_);
  auto const b = view_of(this->b_);
  auto const refuses = [&](auto const& error, std::string const& text, auto const& call) {
    EXPECT_THAT(call, ThrowsMessage<std::decay_t<decltype(error)>>(HasSubstr(text)));
  };
  face::InputError const input("");
  face::UsageError const usage("");
  auto& options = this->options_;
  refuses(input, "B has 75 rows, expected 130, the columns of A", [&] { face::multiply(a, a, this->c(), options); });
  auto const narrow = face::DenseView<TypeParam>::by_rows(this->c_.data(), rows, 1);
  refuses(input, "C has 75 x 1 numbers, expected 75 x 90", [&] { face::multiply(a, b, narrow, options); });
  refuses(usage, "the name of the file for C is empty", [&] { face::multiply(a, b, face::MatrixFile{}, options); });
  auto other = options;
  other.precision = sizeof(TypeParam) == 4 ? face::Precision::double_precision : face::Precision::single_precision;
  refuses(usage, "but the precision of the product is", [&] { face::multiply(a, b, this->c(), other); });
  other = options;
  other.added = a;
  refuses(input, "C0 has 75 x 130 numbers, expected 75 x 90", [&] { face::multiply(a, b, this->c(), other); });
  other = options;
  other.alpha = std::numeric_limits<double>::quiet_NaN();
  refuses(usage, "alpha is nan, expected a finite number", [&] { face::multiply(a, b, this->c(), other); });
  other = options;
  other.tile = 0;
  refuses(usage, "a tile has 0 rows", [&] { face::multiply(a, b, this->c(), other); });
  other.tile = 64;
  other.device_memory_limit = 100;
  EXPECT_THROW(face::multiply(a, b, this->c(), other), face::ResourceError);
  this->b_.at(97, 3) = std::numeric_limits<TypeParam>::infinity();
  refuses(input, "B: found inf in row 97, column 3 (from 0)", [&] { face::multiply(a, b, this->c(), options); });
  this->b_.at(97, 3) = std::numeric_limits<TypeParam>::max();
  this->a_.at(2, 97) = 2;
  refuses(input, "the number of the product in row 2, column 3", [&] { face::multiply(a, b, this->c(), options); });
}

TEST(PublicProductOfTwoPrecisions, RoundsToItsOwn) {
  auto const a = random_dense<double>(rows, depth, 5);
  auto const b = random_dense<float>(depth, columns, 6);
  Dense<float> const rounded{rows, depth, {a.values.begin(), a.values.end()}};
  std::vector<float> c(rows * columns);
  auto const c_view = face::DenseView<float>::by_rows(c.data(), rows, columns);
  face::multiply(view_of(a), view_of(b), c_view);
  EXPECT_EQ(c, plain_product(rounded, b).values);
  auto large = a;
  large.at(70, 100) = 1e300;
  EXPECT_THAT([&] { face::multiply(view_of(large), view_of(b), c_view); },
              ThrowsMessage<face::InputError>(HasSubstr("row 70, column 100 (from 0), expected a finite number that "
                                                        "float can hold")));
}

} // namespace
} // namespace varve::test
