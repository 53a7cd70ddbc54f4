#include "io/matrix_writer.hpp"

#include "core/error.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_access.hpp"
#include "io/output_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace varve {

struct MatrixWriter::Contents {
  OutputFile output;
  Precision precision;
  hdf5::File file;
  hdf5::Dataset matrix;

  Contents(std::filesystem::path const& path, std::uint64_t num_rows, std::uint64_t num_columns, Precision wanted)
      : output(path), precision(wanted) {
    file = hdf5::create_file(output.partial_path(), path);
    std::array<hsize_t, 2> const sizes = {num_rows, num_columns};
    std::array<hsize_t, 2> const chunk = {std::clamp<hsize_t>(num_rows, 1, chunk_rows),
                                          std::clamp<hsize_t>(num_columns, 1, chunk_rows)};
    hdf5::Dataspace const space(H5Screate_simple(2, sizes.data(), nullptr));
    hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_obj_track_times(properties.id(), false); // equal contents give equal files
    H5Pset_chunk(properties.id(), 2, chunk.data());
    H5Pset_fletcher32(properties.id());
    H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER);
    hdf5::Properties const access(H5Pcreate(H5P_DATASET_ACCESS));
    H5Pset_chunk_cache(access.id(), 12421, std::size_t{64} << 20U, 0.75);
    matrix = hdf5::Dataset(
        H5Dcreate2(file.id(), "matrix", stored_type(), space.id(), H5P_DEFAULT, properties.id(), access.id()));
    if (matrix.id() < 0) fail();
  }

  hid_t stored_type() const { return precision == Precision::single_precision ? H5T_IEEE_F32LE : H5T_IEEE_F64LE; }

  [[noreturn]] void fail() const {
    auto const why = hdf5::reason();
    throw ResourceError(fmt::format("{} cannot be written ({})", output.path().string(), why));
  }

  void write(MatrixBlock const& block, hid_t type, void const* values) const {
    if (block.size() == 0) return;
    std::array<hsize_t, 2> const first = {block.first_row, block.first_column};
    std::array<hsize_t, 2> const count = {block.num_rows, block.num_columns};
    hdf5::Dataspace const stored(H5Dget_space(matrix.id()));
    hdf5::Dataspace const memory(H5Screate_simple(2, count.data(), nullptr));
    auto status = H5Sselect_hyperslab(stored.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr);
    if (status >= 0) status = H5Dwrite(matrix.id(), type, memory.id(), stored.id(), H5P_DEFAULT, values);
    if (status < 0) fail();
  }
};

MatrixWriter::MatrixWriter(std::filesystem::path const& path, std::uint64_t num_rows, std::uint64_t num_columns,
                           Precision precision) {
  auto const lock = hdf5::lock();
  contents_ = std::make_unique<Contents>(path, num_rows, num_columns, precision);
}

MatrixWriter::~MatrixWriter() {
  auto const lock = hdf5::lock();
  contents_.reset();
}

void MatrixWriter::write(MatrixBlock const& block, float const* values) {
  VARVE_REQUIRE(contents_ && contents_->precision == Precision::single_precision, "a matrix takes its own precision");
  auto const lock = hdf5::lock();
  contents_->write(block, H5T_NATIVE_FLOAT, values);
}

void MatrixWriter::write(MatrixBlock const& block, double const* values) {
  VARVE_REQUIRE(contents_ && contents_->precision == Precision::double_precision, "a matrix takes its own precision");
  auto const lock = hdf5::lock();
  contents_->write(block, H5T_NATIVE_DOUBLE, values);
}

void MatrixWriter::commit() {
  VARVE_REQUIRE(contents_, "a matrix is committed twice");
  auto const lock = hdf5::lock();
  auto const& path = contents_->output.path();
  hdf5::write_text(contents_->file.id(), "format", "varve-matrix", path);
  hdf5::write_integer(contents_->file.id(), "version", 1, path);
  hdf5::flush(contents_->file, path);
  contents_->matrix = {};
  contents_->file = {};
  contents_->output.commit();
  contents_.reset();
}

} // namespace varve
