#include "io/matrix_writer.hpp"

#include "core/error.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_access.hpp"
#include "io/hdf5_matrix.hpp"
#include "io/hdf5_reserve.hpp"
#include "io/output_file.hpp"
#include "io/partial_output.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// Creates the dataset, in chunks as `places` says.
hdf5::Dataset create_matrix(hdf5::File const& file, hid_t stored, MatrixPlaces const& places) {
  std::array<hsize_t, 2> const sizes = {places.sizes[0], places.sizes[1]};
  std::array<hsize_t, 2> const chunk = {places.chunk[0], places.chunk[1]};
  hdf5::Dataspace const space(H5Screate_simple(2, sizes.data(), nullptr));
  hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(properties.id(), false); // equal contents give equal files
  H5Pset_chunk(properties.id(), 2, chunk.data());
  H5Pset_fletcher32(properties.id());
  H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER);
  return hdf5::Dataset(hdf5::require_written(
      H5Dcreate2(file.id(), "matrix", stored, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT), places.name));
}

/// Writes a file that lacks the numbers of the matrix only, and finds the places of its chunks.
void write_frame(MatrixPlaces& places, hid_t stored) {
  auto file = hdf5::create_reserving_file(places.file, places.name);
  auto matrix = create_matrix(file, stored, places);
  std::vector<char> const any(places.chunk_bytes() + MatrixPlaces::checksum_bytes);
  for (hsize_t row = 0; row < places.sizes[0]; row += places.chunk[0]) {
    for (hsize_t column = 0; column < places.sizes[1]; column += places.chunk[1]) {
      std::array<hsize_t, 2> const first = {row, column};
      hdf5::require_written(H5Dwrite_chunk(matrix.id(), H5P_DEFAULT, 0, first.data(), any.size(), any.data()),
                            places.name);
    }
  }
  hdf5::close_written(matrix, places.name);
  places.addresses = hdf5::reserved_places(file, places.name);
  hdf5::write_text(file.id(), "format", "varve-matrix", places.name);
  hdf5::write_integer(file.id(), "version", 1, places.name);
  hdf5::close_file(file, places.name);
}

/// True if the file says of each chunk that it lies where MatrixChunks has written it. Throws InputError if it is
/// broken.
bool are_found(MatrixPlaces const& places, fs::path const& path) {
  auto const lock = hdf5::lock();
  auto const file = hdf5::open_file(path);
  hdf5::MatrixShape shape;
  auto const matrix = hdf5::open_matrix(file, "", path.string(), shape);
  if (shape.num_rows != places.sizes[0] || shape.num_columns != places.sizes[1]) return false;
  for (std::uint64_t number = 0; number < places.addresses.size(); ++number) {
    auto const block = places.block_of(number);
    std::array<hsize_t, 2> const first = {block.first_row, block.first_column};
    unsigned skipped_filters = 0;
    haddr_t address = 0;
    hsize_t size = 0;
    bool const is_known = H5Dget_chunk_info_by_coord(matrix.id(), first.data(), &skipped_filters, &address, &size) >= 0;
    if (!is_known || skipped_filters != 0 || address != places.addresses[number] ||
        size != places.chunk_bytes() + MatrixPlaces::checksum_bytes)
      return false;
  }
  return true;
}

} // namespace

struct MatrixWriter::Contents {
  OutputFile output;
  Precision precision;
  std::unique_ptr<MatrixChunks> chunks;

  Contents(fs::path const& path, std::uint64_t num_rows, std::uint64_t num_columns, Precision wanted)
      : output(path), precision(wanted) {
    bool const is_single = precision == Precision::single_precision;
    MatrixPlaces places;
    places.file = output.partial_path();
    places.name = output.path();
    places.sizes = {num_rows, num_columns};
    places.chunk = {std::clamp<std::uint64_t>(num_rows, 1, chunk_rows),
                    std::clamp<std::uint64_t>(num_columns, 1, chunk_rows)};
    places.element_size = is_single ? sizeof(float) : sizeof(double);
    {
      auto const lock = hdf5::lock();
      try {
        write_frame(places, is_single ? H5T_IEEE_F32LE : H5T_IEEE_F64LE);
      } catch (ResourceError const&) {
        if (int const error = hdf5::take_reserving_error(); error != 0) fail_to_write(places.name, error);
        throw;
      }
    }
    chunks = std::make_unique<MatrixChunks>(std::move(places));
  }
};

MatrixWriter::MatrixWriter(fs::path const& path, std::uint64_t num_rows, std::uint64_t num_columns, Precision precision)
    : contents_(std::make_unique<Contents>(path, num_rows, num_columns, precision)) {}

MatrixWriter::~MatrixWriter() = default;

MatrixPlaces const& MatrixWriter::places() const { return contents_->chunks->places(); }

void MatrixWriter::write(MatrixBlock const& block, float const* values) {
  VARVE_REQUIRE(contents_ && contents_->precision == Precision::single_precision, "a matrix takes its own precision");
  contents_->chunks->write(block, reinterpret_cast<char const*>(values));
}

void MatrixWriter::write(MatrixBlock const& block, double const* values) {
  VARVE_REQUIRE(contents_ && contents_->precision == Precision::double_precision, "a matrix takes its own precision");
  contents_->chunks->write(block, reinterpret_cast<char const*>(values));
}

void MatrixWriter::commit() {
  VARVE_REQUIRE(contents_, "a matrix is committed twice");
  contents_->chunks->finish();
  contents_->output.commit([&](fs::path const& path) { return are_found(places(), path); });
  contents_.reset();
}

} // namespace varve
