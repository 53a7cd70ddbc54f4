#include "io/matrix_dataset.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/finite_block.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_guard.hpp"
#include "io/hdf5_matrix.hpp"
#include "io/hdf5_plain.hpp"
#include "io/line_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <vector>

namespace varve {

/// The open file; use and destroy it under the lock.
struct MatrixDataset::Contents {
  hdf5::File file;
  hdf5::Dataset numbers;
  hdf5::MatrixShape shape;
  std::optional<hdf5::StoredChunks> chunks; // of `numbers`
  std::optional<hdf5::PlainPlace> plain;
};

namespace {

namespace fs = std::filesystem;

std::string place_of(MatrixName const& name) {
  return name.dataset.empty() ? name.path.string() : fmt::format("{}: {}", name.path.string(), quote(name.dataset));
}

/// Calls work(rows) on host threads, for parts of a block that are whole rows.
template <class Work>
void for_each_part(MatrixBlock const& block, Work const& work) {
  constexpr std::uint64_t numbers_at_a_time = std::uint64_t{1} << 16U;
  auto const num_rows = std::max<std::uint64_t>(1, numbers_at_a_time / std::max<std::uint64_t>(1, block.num_columns));
  for_each_on_host_threads((block.num_rows + num_rows - 1) / num_rows, [&](std::size_t part) {
    auto const first = part * num_rows;
    work(MatrixBlock{block.first_row + first, std::min(num_rows, block.num_rows - first), block.first_column,
                     block.num_columns});
  });
}

} // namespace

MatrixName parse_matrix_name(std::string const& name) {
  std::error_code error;
  if (fs::exists(name, error)) return {name, ""};
  for (auto colon = name.rfind(':'); colon != std::string::npos && colon > 0; colon = name.rfind(':', colon - 1))
    if (fs::exists(name.substr(0, colon), error)) return {name.substr(0, colon), name.substr(colon + 1)};
  return {name, ""};
}

MatrixDataset::MatrixDataset(std::string const& full_name) {
  auto const name = parse_matrix_name(full_name);
  path_ = name.path;
  place_ = place_of(name);
  auto const lock = hdf5::lock();
  auto const open = [&] {
    auto contents = std::make_unique<Contents>();
    contents->file = hdf5::open_file(path_);
    contents->numbers = hdf5::open_matrix(contents->file, name.dataset, place_, contents->shape);
    contents->chunks.emplace(contents->numbers, place_);
    contents->plain = hdf5::plain_place(contents->numbers, contents->shape);
    return contents;
  };
  hdf5::Walk const walk{"dense matrix " + name.dataset, [&](hdf5::Share share) {
                          if (share.number == 0) open();
                        }};
  try {
    contents_ = hdf5::guarded(path_, walk, open);
  } catch (std::bad_alloc const&) {
    throw ResourceError(fmt::format("{} needs more memory than there is to read its structure", place_));
  }
  auto const length = H5Iget_name(contents_->numbers.id(), nullptr, 0);
  stored_at_.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  H5Iget_name(contents_->numbers.id(), stored_at_.data(), stored_at_.size() + 1);
  num_rows_ = contents_->shape.num_rows;
  num_columns_ = contents_->shape.num_columns;
  stored_ = contents_->shape.element_size == sizeof(float) ? Precision::single_precision : Precision::double_precision;
}

MatrixDataset::~MatrixDataset() {
  auto const lock = hdf5::lock();
  contents_.reset();
}

template <class Stored>
void MatrixDataset::read_stored(MatrixBlock const& block, Stored* values) const {
  if (contents_->plain && hdf5::read_plain(*contents_->plain, contents_->shape, block, values)) return;
  auto const lock = hdf5::lock();
  hdf5::read_block(contents_->numbers, *contents_->chunks, contents_->shape, block, values, place_);
}

template <class Scalar>
void MatrixDataset::read_rounded(MatrixBlock const& block, Scalar* values) const {
  VARVE_REQUIRE(block.first_row + block.num_rows <= num_rows_ && block.first_column + block.num_columns <= num_columns_,
                "a block lies outside its matrix");
  auto const place_of = [&](MatrixBlock const& rows) { return (rows.first_row - block.first_row) * block.num_columns; };
  bool const is_float = stored_ == Precision::single_precision;
  if (is_float == std::is_same_v<Scalar, float>) {
    read_stored(block, values);
    for_each_part(block, [&](MatrixBlock const& rows) { require_finite(rows, values + place_of(rows), place_); });
    return;
  }
  // Converted here, because HDF5 does not say how it rounds.
  constexpr std::uint64_t numbers_at_a_time = std::uint64_t{1} << 20U;
  auto const rows_at_a_time =
      std::max<std::uint64_t>(1, numbers_at_a_time / std::max<std::uint64_t>(1, block.num_columns));
  using Stored = std::conditional_t<std::is_same_v<Scalar, float>, double, float>;
  std::vector<Stored> numbers;
  for (std::uint64_t row = 0; row < block.num_rows; row += rows_at_a_time) {
    auto const num_rows = std::min(rows_at_a_time, block.num_rows - row);
    MatrixBlock const part{block.first_row + row, num_rows, block.first_column, block.num_columns};
    numbers.resize(part.size());
    read_stored(part, numbers.data());
    for_each_part(part, [&](MatrixBlock const& rows) {
      auto const* const from = numbers.data() + place_of(rows) - place_of(part);
      require_finite(rows, from, place_);
      std::transform(from, from + rows.size(), values + place_of(rows),
                     [](Stored value) { return static_cast<Scalar>(value); });
      require_finite(rows, values + place_of(rows), place_, from);
    });
  }
}

void MatrixDataset::read(MatrixBlock const& block, float* values) const { read_rounded(block, values); }

void MatrixDataset::read(MatrixBlock const& block, double* values) const { read_rounded(block, values); }

} // namespace varve
