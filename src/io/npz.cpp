#include "io/npz.hpp"

#include "core/error.hpp"
#include "io/line_error.hpp"
#include "io/matrix_parts.hpp"
#include "io/npy.hpp"
#include "io/zip_file.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// The members of an archive, read as arrays of one dimension.
class Arrays {
public:
  explicit Arrays(std::filesystem::path const& path) : archive_(path), place_(path.string()) {
    if (archive_.has("format.npy") && archive_.has("shape.npy") && archive_.has("data.npy")) return;
    throw InputError(fmt::format("{}: found a ZIP archive without the members format.npy, shape.npy and data.npy, "
                                 "expected a sparse matrix of SciPy (scipy.sparse.save_npz)",
                                 place_));
  }

  NpyStream open(std::string const& name) const {
    return {archive_.open(name + ".npy"), fmt::format("{}: {}.npy", place_, name)};
  }

  std::vector<std::uint64_t> indices(std::string const& name) const {
    auto stream = open_list(name);
    auto numbers = stream.read_indices(stream.header().num_elements());
    stream.require_end();
    return numbers;
  }

  std::vector<double> reals(std::string const& name) const {
    auto stream = open_list(name);
    auto numbers = stream.read_reals(stream.header().num_elements());
    stream.require_end();
    return numbers;
  }

private:
  NpyStream open_list(std::string const& name) const {
    auto stream = open(name);
    if (stream.header().shape.size() == 1) return stream;
    throw InputError(fmt::format("{}: {}.npy: found an array of {} dimensions, expected 1", place_, name,
                                 stream.header().shape.size()));
  }

  ZipFile archive_;
  std::string place_;
};

} // namespace

SparseMatrix read_npz(std::filesystem::path const& path) {
  Arrays const arrays(path);
  auto const place = path.string();
  auto const format = arrays.open("format").read_text();
  auto const shape = arrays.indices("shape");
  if (shape.size() != 2)
    throw InputError(fmt::format("{}: shape.npy: found {} numbers, expected 2", place, shape.size()));
  MatrixParts parts;
  parts.num_rows = shape[0];
  parts.num_columns = shape[1];
  if (format == "csr") {
    parts.columns = to_neurons(arrays.indices("indices"));
    parts.pointers = arrays.indices("indptr");
  } else if (format == "csc") {
    parts.layout = MatrixParts::Layout::by_columns;
    parts.rows = to_neurons(arrays.indices("indices"));
    parts.pointers = arrays.indices("indptr");
  } else if (format == "coo") {
    parts.layout = MatrixParts::Layout::pairs;
    parts.rows = to_neurons(arrays.indices("row"));
    parts.columns = to_neurons(arrays.indices("col"));
  } else {
    throw InputError(fmt::format("{}: found SciPy's sparse format {}, expected csr, csc or coo (SciPy: tocsr())", place,
                                 quote(format)));
  }
  parts.values = arrays.reals("data");
  auto const num_entries = parts.layout == MatrixParts::Layout::by_columns ? parts.rows.size() : parts.columns.size();
  if (parts.values.size() != num_entries) {
    throw InputError(fmt::format("{}: data.npy: found {} values for {} entries, expected one for each", place,
                                 parts.values.size(), num_entries));
  }
  return to_matrix(std::move(parts), place);
}

} // namespace varve
