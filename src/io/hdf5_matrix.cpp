#include "io/hdf5_matrix.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/hdf5_access.hpp"
#include "io/hdf5_chunks.hpp"
#include "io/hdf5_storage.hpp"
#include "io/json_text.hpp"
#include "io/line_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

namespace varve::hdf5 {
namespace {

using Json = nlohmann::ordered_json;

int num_dimensions(Dataset const& dataset) {
  Dataspace const space(H5Dget_space(dataset.id()));
  return H5Sget_simple_extent_type(space.id()) == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space.id()) : 0;
}

/// Checks the type, and reads what HDF5 reads to find the numbers, so that a trial of the file comes upon all of it.
void finish_shape(Dataset const& dataset, MatrixShape& shape, std::string const& place) {
  Datatype const type(H5Dget_type(dataset.id()));
  shape.element_size = H5Tget_size(type.id());
  if (H5Tget_class(type.id()) != H5T_FLOAT || (shape.element_size != 4 && shape.element_size != 8))
    fail_at(place, "numbers of another type", "floating point of 32 or 64 bits");
  if (shape.num_rows == 0 || shape.num_columns == 0)
    fail_at(place, fmt::format("a matrix of {} x {}", shape.num_rows, shape.num_columns), "rows and columns");
  Properties const properties(H5Dget_create_plist(dataset.id()));
  if (H5Pget_layout(properties.id()) != H5D_CHUNKED) return;
  Dataspace const space(H5Dget_space(dataset.id()));
  hsize_t num_chunks = 0;
  if (H5Dget_num_chunks(dataset.id(), space.id(), &num_chunks) < 0)
    throw InputError(fmt::format("{}: its list of chunks cannot be read ({})", place, reason()));
}

/// The descriptor of a group in the layout DMATR.
void read_descriptor(hid_t group, MatrixShape& shape, std::string const& place) {
  auto object = parse_json(read_text(group, "binsparse", place), place + ": binsparse descriptor");
  if (object.is_object() && object.contains("binsparse")) object = Json(object["binsparse"]);
  if (!object.is_object()) fail_at(place, "a binsparse descriptor that is no JSON object", "one");
  auto const value_of = [&](char const* key) { return object.contains(key) ? object[key] : Json(); };
  auto const shown = [&](char const* key) {
    auto const value = value_of(key);
    return fmt::format("\"{}\": {} in the binsparse descriptor", key,
                       quote(value.is_string() ? value.get<std::string>() : json_text(value)));
  };
  if (value_of("format") != "DMATR") fail_at(place, shown("format"), "\"DMATR\", a dense matrix row by row");
  auto const sizes = value_of("shape");
  if (!sizes.is_array() || sizes.size() != 2 || !sizes[0].is_number_unsigned() || !sizes[1].is_number_unsigned())
    fail_at(place, shown("shape"), "two numbers");
  shape.num_rows = sizes[0].get<std::uint64_t>();
  shape.num_columns = sizes[1].get<std::uint64_t>();
  shape.is_list = true;
}

Dataset open_dense_group(hid_t group, std::string const& place, MatrixShape& shape) {
  read_descriptor(group, shape, place);
  auto numbers = open_chunked(group, "values", 1, place);
  auto const length = length_of(numbers, place + ": values");
  if (checked_multiply(shape.num_rows, shape.num_columns) != length)
    fail_at(place, fmt::format("{} values", length), fmt::format("{} x {}", shape.num_rows, shape.num_columns));
  finish_shape(numbers, shape, place);
  return numbers;
}

Dataset open_plain_dataset(hid_t parent, std::string const& name, std::string const& place, MatrixShape& shape) {
  auto dataset = open_chunked(parent, name, 2, place);
  if (num_dimensions(dataset) != 2)
    fail_at(place, fmt::format("a dataset of {} dimensions", num_dimensions(dataset)), "2");
  Dataspace const space(H5Dget_space(dataset.id()));
  std::array<hsize_t, 2> sizes{};
  H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr);
  shape.num_rows = sizes[0];
  shape.num_columns = sizes[1];
  finish_shape(dataset, shape, place);
  return dataset;
}

bool is_descriptor_there(hid_t group) { return H5Aexists(group, "binsparse") > 0; }

/// The kind of object behind a link within the file; H5I_BADID for links into other files.
H5I_type_t kind_of(hid_t parent, std::string const& name) {
  H5L_info_t link{};
  if (H5Lget_info(parent, name.c_str(), &link, H5P_DEFAULT) < 0 || link.type == H5L_TYPE_EXTERNAL) return H5I_BADID;
  auto const refuse = [](char const*, char const*, char const*, char const*, unsigned*, hid_t, void*) -> herr_t {
    return -1;
  };
  Properties const access(H5Pcreate(H5P_LINK_ACCESS));
  H5Pset_elink_cb(access.id(), refuse, nullptr);
  Handle<&H5Oclose> const object(H5Oopen(parent, name.c_str(), access.id()));
  return object.id() < 0 ? H5I_BADID : H5Iget_type(object.id());
}

/// The names of the datasets of two dimensions in the root group, two at most.
std::vector<std::string> find_matrices(File const& file, std::string const& place) {
  constexpr std::uint64_t most_names = 4096;
  auto const root = open_group(file.id(), "/", place);
  auto const count = num_children(root, place);
  if (count > most_names) fail_at(place, fmt::format("{} datasets and groups", count), "FILE:DATASET for such a file");
  std::vector<std::string> names;
  auto const take = [](hid_t, char const* name, H5L_info_t const*, void* target) -> herr_t {
    static_cast<std::vector<std::string>*>(target)->emplace_back(name);
    return 0;
  };
  if (H5Literate(root.id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, take, &names) < 0)
    throw InputError(fmt::format("{}: the names of its datasets cannot be read", place));
  std::erase_if(names, [&](std::string const& name) {
    if (kind_of(file.id(), name) != H5I_DATASET) return true;
    return num_dimensions(Dataset(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT))) != 2;
  });
  return names;
}

/// Selects a block in the dataspace of its dataset. Returns a negative number if HDF5 refuses.
herr_t select(Dataspace const& stored, MatrixShape const& shape, MatrixBlock const& block) {
  if (shape.is_list) {
    hsize_t const first = block.first_row * shape.num_columns + block.first_column;
    hsize_t const stride = shape.num_columns;
    hsize_t const count = block.num_rows;
    hsize_t const length = block.num_columns;
    return H5Sselect_hyperslab(stored.id(), H5S_SELECT_SET, &first, &stride, &count, &length);
  }
  std::array<hsize_t, 2> const first = {block.first_row, block.first_column};
  std::array<hsize_t, 2> const count = {block.num_rows, block.num_columns};
  return H5Sselect_hyperslab(stored.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr);
}

/// Reads a block of numbers, which go to `values` row by row with so many columns.
template <class Scalar>
void read_by_hdf5(Dataset const& dataset, MatrixShape const& shape, MatrixBlock const& block, hid_t type,
                  Scalar* values, std::uint64_t num_columns, std::string const& place) {
  Dataspace const stored(H5Dget_space(dataset.id()));
  std::array<hsize_t, 2> const rows = {block.num_rows, num_columns};
  std::array<hsize_t, 2> const first = {0, 0};
  std::array<hsize_t, 2> const count = {block.num_rows, block.num_columns};
  Dataspace const memory(H5Screate_simple(2, rows.data(), nullptr));
  if (select(stored, shape, block) < 0 ||
      H5Sselect_hyperslab(memory.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dread(dataset.id(), type, memory.id(), stored.id(), H5P_DEFAULT, values) < 0)
    throw InputError(fmt::format("{}: its numbers cannot be read ({})", place, reason()));
}

/// True if all chunks of rows of a matrix that is stored as a list were written; checks them.
bool are_written(StoredChunks& chunks, MatrixShape const& shape, MatrixBlock const& block) {
  bool all = true;
  for (auto row = block.first_row; row < block.first_row + block.num_rows; ++row) {
    chunks.for_each_part({row * shape.num_columns + block.first_column, 0}, {block.num_columns, 1},
                         [&](auto const&, auto const&, bool is_written) { all = all && is_written; });
  }
  return all;
}

template <class Scalar>
void read_numbers(Dataset const& dataset, StoredChunks& chunks, MatrixShape const& shape, MatrixBlock const& block,
                  hid_t type, Scalar* values, std::string const& place) {
  VARVE_REQUIRE(sizeof(Scalar) == shape.element_size, "numbers are read in the size in which they are stored");
  if (block.size() == 0 || (!shape.is_list && read_chunks(dataset, block, values))) return;
  auto const at_once =
      shape.is_list ? chunks.list_rows_at_once(block.num_columns) : chunks.rows_at_once(block.num_columns);
  for (std::uint64_t row = 0; row < block.num_rows;) {
    MatrixBlock const rows{block.first_row + row, std::min(at_once, block.num_rows - row), block.first_column,
                           block.num_columns};
    if (shape.is_list) {
      if (!are_written(chunks, shape, rows))
        throw InputError(fmt::format("{}: found rows that were never written, expected all", place));
      read_by_hdf5(dataset, shape, rows, type, values + row * block.num_columns, block.num_columns, place);
    } else {
      chunks.for_each_part({rows.first_row, rows.first_column}, {rows.num_rows, rows.num_columns},
                           [&](auto const& first, auto const& count, bool is_written) {
                             MatrixBlock const part{first[0], count[0], first[1], count[1]};
                             auto* const to = values + (part.first_row - block.first_row) * block.num_columns +
                                              part.first_column - block.first_column;
                             if (is_written)
                               return read_by_hdf5(dataset, shape, part, type, to, block.num_columns, place);
                             for (std::uint64_t line = 0; line < part.num_rows; ++line)
                               std::fill_n(to + line * block.num_columns, part.num_columns, Scalar(0));
                           });
    }
    row += rows.num_rows;
  }
}

} // namespace

Dataset open_matrix(File const& file, std::string const& name, std::string const& place, MatrixShape& shape) {
  if (name.empty()) {
    if (is_descriptor_there(file.id())) return open_dense_group(file.id(), place, shape);
    if (has_child(file.id(), "matrix")) return open_plain_dataset(file.id(), "matrix", place, shape);
    auto const names = find_matrices(file, place);
    if (names.size() != 1) {
      fail_at(place, fmt::format("{} datasets of two dimensions", names.size()),
              names.empty() ? "a dense matrix" : "one, or FILE:DATASET");
    }
    return open_plain_dataset(file.id(), names.front(), place, shape);
  }
  // The groups of a path are opened one by one, so that each link can be refused.
  auto group = open_group(file.id(), "/", place);
  auto rest = name;
  for (auto slash = rest.find('/'); slash != std::string::npos; slash = rest.find('/')) {
    if (slash > 0) group = open_group(group.id(), rest.substr(0, slash), place);
    rest.erase(0, slash + 1);
  }
  if (rest.empty() || kind_of(group.id(), rest) == H5I_GROUP) {
    auto const matrix = open_group(group.id(), rest.empty() ? "." : rest, place);
    if (!is_descriptor_there(matrix.id())) fail_at(place, "a group without a binsparse descriptor", "a dense matrix");
    return open_dense_group(matrix.id(), place, shape);
  }
  return open_plain_dataset(group.id(), rest, place, shape);
}

void read_block(Dataset const& dataset, StoredChunks& chunks, MatrixShape const& shape, MatrixBlock const& block,
                float* values, std::string const& place) {
  read_numbers(dataset, chunks, shape, block, H5T_NATIVE_FLOAT, values, place);
}

void read_block(Dataset const& dataset, StoredChunks& chunks, MatrixShape const& shape, MatrixBlock const& block,
                double* values, std::string const& place) {
  read_numbers(dataset, chunks, shape, block, H5T_NATIVE_DOUBLE, values, place);
}

} // namespace varve::hdf5
