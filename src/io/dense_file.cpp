#include "io/dense_file.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/output_file.hpp"
#include "io/text_file.hpp"
#include "io/whole_bytes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using container::NumberType;

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

/// Calls work(first, at, count) for the runs of bytes of a block that lie together in the file: `first` is the byte of
/// a run in the matrix, `at` that in the block.
template <class Work>
void for_each_run(MatrixBlock const& block, std::uint64_t num_columns, std::size_t element_size, Work const& work) {
  bool const has_whole_rows = block.num_columns == num_columns;
  auto const count = (has_whole_rows ? block.size() : block.num_columns) * element_size;
  for (std::uint64_t at = 0; at < block.size() * element_size; at += count) {
    auto const row = block.first_row + at / (block.num_columns * element_size);
    work((row * num_columns + block.first_column) * element_size, at, count);
  }
}

/// hash_of_block() of all numbers of a file, which have this type.
template <class Scalar>
std::uint64_t hash_of_file(fs::path const& path) {
  constexpr std::uint64_t numbers_at_a_time = std::uint64_t{1} << 22U;
  DenseFile const matrix(path);
  auto const num_columns = matrix.num_columns();
  auto const num_rows = std::max<std::uint64_t>(1, numbers_at_a_time / std::max<std::uint64_t>(1, num_columns));
  std::vector<Scalar> values;
  std::uint64_t hash = 0;
  for (std::uint64_t row = 0; row < matrix.num_rows(); row += num_rows) {
    MatrixBlock const band{row, std::min(num_rows, matrix.num_rows() - row), 0, num_columns};
    values.resize(band.size());
    matrix.read(band, values.data());
    hash += hash_of_block(band, values.data());
  }
  return hash;
}

} // namespace

DenseFile::DenseFile(fs::path const& path) : file_(std::make_unique<container::File>(path)) {
  file_->require_kind("matrix", {"shape"});
  auto const shape = container::shape_in(file_->description(), path.string());
  matrix_ = &file_->array("matrix", {NumberType::f32, NumberType::f64});
  if (!std::ranges::equal(matrix_->shape, shape))
    fail_at(path.string(), fmt::format("a matrix of the shape {}", fmt::join(matrix_->shape, " x ")),
            fmt::format("{}", fmt::join(shape, " x ")));
  file_->require_no_others();
  num_rows_ = shape[0];
  num_columns_ = shape[1];
}

DenseFile::~DenseFile() = default;

Precision DenseFile::stored() const {
  return matrix_->type == NumberType::f32 ? Precision::single_precision : Precision::double_precision;
}

template <class Stored, class Scalar>
void DenseFile::read_rows(MatrixBlock const& block, Scalar* values) const {
  VARVE_REQUIRE(block.first_row + block.num_rows <= num_rows_ && block.first_column + block.num_columns <= num_columns_,
                "a block lies outside its matrix");
  auto const place = file_->path().string();
  for_each_part(block, [&](MatrixBlock const& part) {
    auto* const to = values + (part.first_row - block.first_row) * block.num_columns;
    std::vector<Stored> numbers(std::is_same_v<Stored, Scalar> ? 0 : part.size());
    auto* const from = std::is_same_v<Stored, Scalar> ? reinterpret_cast<Stored*>(to) : numbers.data();
    auto* const bytes = reinterpret_cast<char*>(from);
    for_each_run(part, num_columns_, sizeof(Stored), [&](std::uint64_t first, std::uint64_t at, std::uint64_t count) {
      file_->read_bytes(*matrix_, first, {bytes + at, count});
    });
    require_finite(part, from, place);
    if constexpr (!std::is_same_v<Stored, Scalar>) {
      std::transform(from, from + part.size(), to, [](Stored value) { return static_cast<Scalar>(value); });
      require_finite(part, to, place, from);
    }
  });
}

void DenseFile::read(MatrixBlock const& block, float* values) const {
  matrix_->type == NumberType::f32 ? read_rows<float>(block, values) : read_rows<double>(block, values);
}

void DenseFile::read(MatrixBlock const& block, double* values) const {
  matrix_->type == NumberType::f32 ? read_rows<float>(block, values) : read_rows<double>(block, values);
}

DenseFileWriter::DenseFileWriter(fs::path const& path, std::uint64_t num_rows, std::uint64_t num_columns,
                                 Precision precision)
    : description_{{"kind", "matrix"}, {"version", 1}, {"shape", {num_rows, num_columns}}}, num_columns_(num_columns) {
  auto const type = precision == Precision::single_precision ? NumberType::f32 : NumberType::f64;
  file_.emplace(path, 1, 128);
  place_ = file_->reserve("matrix", type, {num_rows, num_columns});
  element_size_ = container::size_of(type);
  open_file();
}

DenseFileWriter::DenseFileWriter(std::string_view place) {
  auto const found = nlohmann::json::from_cbor(place, true, false);
  if (!found.is_array() || found.size() != 5) throw InputError("the place of a matrix was not sent whole");
  place_ = {found[0].get<std::string>(), found[1].get<std::string>(), found[2].get<std::uint64_t>()};
  num_columns_ = found[3].get<std::uint64_t>();
  element_size_ = found[4].get<std::uint64_t>();
  open_file();
}

void DenseFileWriter::open_file() {
  descriptor_ = Descriptor(open(place_.file.c_str(), O_WRONLY | O_CLOEXEC));
  if (descriptor_.number() < 0) fail_to_write(place_.name, errno);
}

std::string DenseFileWriter::place() const {
  auto const bytes = // names need not be UTF-8, as the text of JSON is
      nlohmann::json::to_cbor({place_.file.string(), place_.name.string(), place_.begin, num_columns_, element_size_});
  return {bytes.begin(), bytes.end()};
}

void DenseFileWriter::write_bytes(MatrixBlock const& block, char const* values, std::size_t element_size) {
  VARVE_REQUIRE(descriptor_.number() >= 0 && element_size == element_size_, "a matrix takes its own precision");
  for_each_part(block, [&](MatrixBlock const& part) {
    auto const* const from = values + (part.first_row - block.first_row) * block.num_columns * element_size;
    for_each_run(part, num_columns_, element_size, [&](std::uint64_t first, std::uint64_t at, std::uint64_t count) {
      if (!write_at(descriptor_.number(), place_.begin + first, {from + at, count})) fail_to_write(place_.name, errno);
    });
  });
}

void DenseFileWriter::finish() {
  if (fsync(descriptor_.number()) != 0 && errno != EINVAL && errno != ENOTSUP) fail_to_write(place_.name, errno);
  if (close(descriptor_.release()) != 0) fail_to_write(place_.name, errno);
}

void DenseFileWriter::commit(std::optional<std::uint64_t> hash) {
  VARVE_REQUIRE(file_ && descriptor_.number() >= 0, "a matrix is committed twice");
  finish();
  file_->commit(description_, [&](fs::path const& path) {
    return !hash || *hash == (element_size_ == sizeof(float) ? hash_of_file<float>(path) : hash_of_file<double>(path));
  });
}

template <class Stored>
void fail_not_finite(MatrixBlock const& block, std::uint64_t offset, std::string const& place, Stored found,
                     char const* precision) {
  fail<InputError>("{}: found {} in row {}, column {} (from 0), expected a finite number that {} can hold", place,
                   found, block.first_row + offset / block.num_columns, block.first_column + offset % block.num_columns,
                   precision);
}

template void fail_not_finite(MatrixBlock const&, std::uint64_t, std::string const&, float, char const*);
template void fail_not_finite(MatrixBlock const&, std::uint64_t, std::string const&, double, char const*);

} // namespace varve
