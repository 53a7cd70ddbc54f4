#include "io/binsparse.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/hdf5_chunks.hpp"
#include "io/json_text.hpp"
#include "io/line_error.hpp"
#include "io/row_check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace varve::binsparse {
namespace {

using Json = nlohmann::ordered_json;
using Layout = MatrixParts::Layout;

constexpr char const* binsparse_version = "0.1.0";

/// A member of a JSON object as text for messages.
std::string shown(Json const& object, char const* key) {
  if (!object.contains(key)) return fmt::format("no \"{}\" in the binsparse descriptor", key);
  return fmt::format("\"{}\": {} in the binsparse descriptor", key, quote(json_text(object[key])));
}

std::uint64_t read_count(Json const& value, std::uint64_t largest, std::string const& place, std::string const& found) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > largest) {
    fail_at(place, found, fmt::format("a number from 0 to {}", largest));
  }
  return value.get<std::uint64_t>();
}

/// Parses the "binsparse" object of an attribute, whether or not it is nested in an object with that key.
Json parse_object(std::string const& text, std::string const& place) {
  auto object = parse_json(text, place + ": binsparse descriptor");
  if (object.is_object() && object.contains("binsparse")) object = Json(object["binsparse"]);
  if (!object.is_object()) fail_at(place, "a binsparse descriptor that is no JSON object", "one");
  return object;
}

std::string type_name(hid_t type) {
  auto const bits = 8 * H5Tget_size(type);
  if (H5Tget_class(type) == H5T_FLOAT) return fmt::format("float{}", bits);
  return fmt::format("{}int{}", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "", bits);
}

std::string stored_type(hdf5::Group const& group, char const* name, std::filesystem::path const& path) {
  auto const dataset = hdf5::open_dataset(group.id(), name, path.string());
  hdf5::Datatype const type(H5Dget_type(dataset.id()));
  return type_name(type.id());
}

hdf5::Dataset open_list(hdf5::Group const& group, char const* name, std::uint64_t length, std::string const& place) {
  auto dataset = hdf5::open_dataset(group.id(), name, place);
  auto const found = hdf5::length_of(dataset, fmt::format("{}: {}", place, name));
  if (found != length) {
    fail_at(place, fmt::format("{} numbers in {}", found, name), fmt::format("{} as the descriptor says", length));
  }
  return dataset;
}

/// The list that says to which row or column the entries of a matrix belong.
struct OuterList {
  char const* name;
  std::uint64_t length;
};

OuterList outer_list(Descriptor const& descriptor) {
  switch (descriptor.layout) {
  case Layout::by_rows:
    return {"pointers_to_1", descriptor.num_rows + 1};
  case Layout::by_columns:
    return {"pointers_to_1", descriptor.num_columns + 1};
  case Layout::pairs:
    break;
  }
  return {"indices_0", descriptor.num_entries};
}

Layout read_layout(Json const& object, Formats formats, std::string const& place) {
  auto const format = object.contains("format") ? object["format"] : Json();
  if (format == "CSR") return Layout::by_rows;
  if (formats == Formats::rows_only) fail_at(place, shown(object, "format"), "\"CSR\"");
  if (format == "CSC") return Layout::by_columns;
  if (format == "COO" || format == "COOR" || format == "COOC") return Layout::pairs;
  fail_at(place, shown(object, "format"), "\"CSR\", \"CSC\" or \"COO\"");
}

/// Reads and checks the row pointers first ... last, so that the entries they point to can be read.
std::vector<EdgeOffset> read_pointers(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first,
                                      std::uint64_t last, std::string const& place) {
  auto const list = open_list(group, "pointers_to_1", descriptor.num_rows + 1, place);
  auto pointers = hdf5::read_indices<EdgeOffset>(list, first, last - first + 1, place + ": pointers_to_1");
  if (first == 0 && pointers.front() != 0)
    fail_at(place, fmt::format("the first row pointer {}", pointers.front()), "0");
  if (last == descriptor.num_rows && pointers.back() != descriptor.num_entries) {
    fail_at(place, fmt::format("the last row pointer {}", pointers.back()),
            fmt::format("the number of stored values, {}", descriptor.num_entries));
  }
  for (std::size_t row = 0; row + 1 < pointers.size(); ++row) {
    if (pointers[row] > pointers[row + 1] || pointers[row + 1] > descriptor.num_entries) {
      fail_at(place, fmt::format("the row pointer {} after row {}", pointers[row + 1], first + row),
              fmt::format("{} to {}", pointers[row], descriptor.num_entries));
    }
  }
  return pointers;
}

/// Reads the columns of the entries from `first` on into a new block of the memory; false if read_rows has to.
template <class Column>
bool read_ready_columns(hdf5::Dataset const& list, EdgeOffset first, SampleMemory& memory, ReadySamples& samples) {
  auto const count = samples.num_entries();
  auto const block = memory.take(capped_multiply(count, sizeof(Column)));
  if (!block) return false;
  std::span<Column> const columns(static_cast<Column*>(block.get()), count);
  RowCheck<Column> check(samples.row_pointers, samples.num_neurons, columns);
  if (!hdf5::read_chunks<Column>(list, first, columns, [&](auto part) { return check.accepts(part); })) return false;
  samples.columns = columns.data();
  samples.memory = block;
  return check.accepts_borders();
}

/// Entries that are not stored are 0 in Varve. A file may give them another value ("fill" and the list "fill_value").
void require_zero_fill(hdf5::Group const& group, Json const& object, std::string const& place) {
  if (!object.contains("fill") || object["fill"] == false) return;
  if (object["fill"] != true) fail_at(place, shown(object, "fill"), "true or false");
  auto const list = open_list(group, "fill_value", 1, place);
  auto const value = hdf5::read_reals(list, 0, 1, place + ": fill_value").front();
  if (value != 0.0) fail_at(place, fmt::format("the fill value {}", value), "0 for all entries that are not stored");
}

} // namespace

Descriptor read_descriptor(hdf5::Group const& group, std::string const& place, Formats formats) {
  auto const object = parse_object(hdf5::read_text(group.id(), "binsparse", place), place);
  auto const text_of = [&](char const* key) { return object.contains(key) ? object[key] : Json(); };
  if (text_of("version") != "0.1" && text_of("version") != binsparse_version)
    fail_at(place, shown(object, "version"), "\"0.1.0\"");
  auto const layout = read_layout(object, formats, place);
  if (formats == Formats::all && object.contains("structure"))
    fail_at(place, shown(object, "structure"), "none: all entries are stored");
  require_zero_fill(group, object, place);
  auto const shape = text_of("shape");
  if (!shape.is_array() || shape.size() != 2) fail_at(place, shown(object, "shape"), "two numbers");

  Descriptor descriptor;
  descriptor.layout = layout;
  constexpr std::uint64_t largest_index = std::numeric_limits<NeuronIndex>::max();
  constexpr std::uint64_t largest_count = std::uint64_t{1} << 60;
  descriptor.num_rows = read_count(shape[0], largest_count, place, shown(object, "shape"));
  descriptor.num_columns = read_count(shape[1], largest_index, place, shown(object, "shape"));
  descriptor.num_entries =
      read_count(text_of("number_of_stored_values"), largest_count, place, shown(object, "number_of_stored_values"));
  if (descriptor.num_entries > capped_multiply(descriptor.num_rows, descriptor.num_columns)) {
    fail_at(place,
            fmt::format("{} stored values in a matrix of the shape {} x {}", descriptor.num_entries,
                        descriptor.num_rows, descriptor.num_columns),
            "each entry of a matrix once");
  }
  auto const types = text_of("data_types");
  if (!types.is_object() || !types.contains("values") || !types["values"].is_string()) {
    fail_at(place, shown(object, "data_types"), "an object that names the type of the values");
  }
  auto const type = types["values"].get<std::string>();
  if (type.find("complex") != std::string::npos) fail_at(place, "values of the type " + quote(type), "real numbers");
  auto const num_values = hdf5::length_of(hdf5::open_dataset(group.id(), "values", place), place + ": values");
  descriptor.is_iso = num_values == 1 && (descriptor.num_entries != 1 || type.starts_with("iso["));
  return descriptor;
}

void require_arrays(hdf5::Group const& group, Descriptor const& descriptor, std::string const& place) {
  auto const outer = outer_list(descriptor);
  open_list(group, outer.name, outer.length, place);
  open_list(group, "indices_1", descriptor.num_entries, place);
  open_list(group, "values", descriptor.is_iso ? 1 : descriptor.num_entries, place);
}

MatrixParts read_parts(hdf5::Group const& group, Descriptor const& descriptor, std::string const& place) {
  auto const outer = outer_list(descriptor);
  auto const read = [&]<class Index>(char const* name, std::uint64_t length, std::vector<Index>& indices) {
    auto const list = open_list(group, name, length, place);
    indices = hdf5::read_indices<Index>(list, 0, length, fmt::format("{}: {}", place, name));
  };
  MatrixParts parts;
  parts.layout = descriptor.layout;
  parts.num_rows = descriptor.num_rows;
  parts.num_columns = descriptor.num_columns;
  bool const has_pointers = parts.layout != Layout::pairs;
  if (has_pointers) read(outer.name, outer.length, parts.pointers);
  if (!has_pointers) read(outer.name, outer.length, parts.rows);
  read("indices_1", descriptor.num_entries, parts.layout == Layout::by_columns ? parts.rows : parts.columns);
  auto const num_values = descriptor.is_iso ? 1 : descriptor.num_entries;
  auto const values = open_list(group, "values", num_values, place);
  parts.values = hdf5::read_reals(values, 0, num_values, place + ": values");
  return parts;
}

SparseMatrix read_rows(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first, std::uint64_t last,
                       std::string const& place) {
  VARVE_REQUIRE(first <= last && last <= descriptor.num_rows, "row range lies outside the file");
  SparseMatrix matrix;
  matrix.num_rows = last - first;
  matrix.num_columns = descriptor.num_columns;
  matrix.row_pointers = read_pointers(group, descriptor, first, last, place);
  auto const begin = matrix.row_pointers.front();
  auto const count = matrix.row_pointers.back() - begin;
  for (auto& pointer : matrix.row_pointers) pointer -= begin;

  auto const indices = open_list(group, "indices_1", descriptor.num_entries, place);
  matrix.column_indices = hdf5::read_indices<NeuronIndex>(indices, begin, count, place + ": indices_1");
  auto const values = open_list(group, "values", descriptor.is_iso ? 1 : descriptor.num_entries, place);
  matrix.values = descriptor.is_iso ? hdf5::read_reals(values, 0, 1, place + ": values")
                                    : hdf5::read_reals(values, begin, count, place + ": values");
  return matrix;
}

std::optional<ReadySamples> read_ready_rows(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first,
                                            std::uint64_t last, std::string const& place, SampleMemory& memory) {
  VARVE_REQUIRE(first <= last && last <= descriptor.num_rows, "row range lies outside the file");
  ReadySamples samples;
  samples.num_neurons = descriptor.num_columns;
  samples.row_pointers = read_pointers(group, descriptor, first, last, place);
  auto const begin = samples.row_pointers.front();
  for (auto& pointer : samples.row_pointers) pointer -= begin;

  auto const indices = open_list(group, "indices_1", descriptor.num_entries, place);
  bool const is_narrow = memory.is_narrow() && fit_narrow_columns(descriptor.num_columns);
  bool const is_read = is_narrow ? read_ready_columns<std::uint16_t>(indices, begin, memory, samples)
                                 : read_ready_columns<NeuronIndex>(indices, begin, memory, samples);
  if (!is_read) return std::nullopt;
  auto const values = open_list(group, "values", descriptor.is_iso ? 1 : descriptor.num_entries, place);
  samples.values = descriptor.is_iso ? hdf5::read_reals(values, 0, 1, place + ": values")
                                     : hdf5::read_reals(values, begin, samples.num_entries(), place + ": values");
  bool const are_finite = std::ranges::all_of(samples.values, [](double value) { return std::isfinite(value); });
  return are_finite ? std::optional(std::move(samples)) : std::nullopt;
}

EdgeOffset count_entries(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first,
                         std::uint64_t last, std::string const& place) {
  VARVE_REQUIRE(first <= last && last <= descriptor.num_rows, "row range lies outside the file");
  auto const begin = read_pointers(group, descriptor, first, first, place).front();
  auto const end = read_pointers(group, descriptor, last, last, place).front();
  if (begin > end || end > descriptor.num_entries) {
    fail_at(place, fmt::format("the row pointer {} at row {}", end, last),
            fmt::format("{} to {}", begin, descriptor.num_entries));
  }
  return end - begin;
}

hid_t index_type(std::uint64_t largest) {
  if (largest <= std::numeric_limits<std::uint8_t>::max()) return H5T_STD_U8LE;
  if (largest <= std::numeric_limits<std::uint16_t>::max()) return H5T_STD_U16LE;
  if (largest <= std::numeric_limits<std::uint32_t>::max()) return H5T_STD_U32LE;
  return H5T_STD_U64LE;
}

bool fit_float(std::vector<double> const& values) {
  return std::ranges::all_of(values, [](double value) { return double(float(value)) == value; });
}

void write_descriptor(hdf5::Group const& group, Descriptor const& descriptor, std::filesystem::path const& path) {
  auto const values = stored_type(group, "values", path);
  nlohmann::json object;
  object["version"] = binsparse_version;
  object["format"] = "CSR";
  object["shape"] = {descriptor.num_rows, descriptor.num_columns};
  object["number_of_stored_values"] = descriptor.num_entries;
  object["data_types"]["pointers_to_1"] = stored_type(group, "pointers_to_1", path);
  object["data_types"]["indices_1"] = stored_type(group, "indices_1", path);
  object["data_types"]["values"] = descriptor.is_iso ? fmt::format("iso[{}]", values) : values;
  hdf5::write_text(group.id(), "binsparse", nlohmann::json{{"binsparse", object}}.dump(), path);
}

void write_matrix(hdf5::Group const& group, SparseMatrix const& matrix, std::filesystem::path const& path) {
  auto const largest_index = matrix.num_columns == 0 ? 0 : matrix.num_columns - 1;
  hdf5::write_list(group.id(), "pointers_to_1", index_type(matrix.num_entries()), matrix.row_pointers, true, path);
  hdf5::write_list(group.id(), "indices_1", index_type(largest_index), matrix.column_indices, true, path);
  hdf5::write_list(group.id(), "values", fit_float(matrix.values) ? H5T_IEEE_F32LE : H5T_IEEE_F64LE, matrix.values,
                   false, path);
  write_descriptor(group, {matrix.num_rows, matrix.num_columns, matrix.num_entries(), matrix.is_iso()}, path);
}

} // namespace varve::binsparse
