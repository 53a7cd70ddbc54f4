#include "io/matrix_file.hpp"

#include "io/input_files.hpp"
#include "io/matrix_market.hpp"
#include "io/matrix_parts.hpp"
#include "io/npy.hpp"
#include "io/npz.hpp"
#include "io/plain_binsparse.hpp"
#include "io/zip_file.hpp"

#include <cstdlib>
#include <system_error>

namespace varve {

namespace fs = std::filesystem;

std::optional<MatrixFormat> matrix_format(fs::path const& path) {
  std::error_code error;
  if (!fs::is_regular_file(readable_place(path), error)) return std::nullopt;
  if (is_plain_binsparse(path)) return MatrixFormat::binsparse;
  if (is_npy(path)) return MatrixFormat::npy;
  if (is_zip(path)) return MatrixFormat::npz;
  if (is_matrix_market(path)) return MatrixFormat::matrix_market;
  return std::nullopt;
}

SparseMatrix read_matrix(fs::path const& path, MatrixFormat format) {
  switch (format) {
  case MatrixFormat::npy:
    return read_npy_matrix(path);
  case MatrixFormat::npz:
    return read_npz(path);
  case MatrixFormat::matrix_market:
    return read_matrix_market(path);
  case MatrixFormat::binsparse:
    return read_plain_matrix(path);
  }
  std::abort();
}

std::unique_ptr<SampleReader> open_matrix_samples(fs::path const& path, MatrixFormat format,
                                                  OptionalSampleRange const& range) {
  if (format == MatrixFormat::npy) return open_npy_samples(path, range);
  return samples_of_matrix(read_matrix(path, format), path, range);
}

} // namespace varve
