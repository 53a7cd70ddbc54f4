#include "core/error.hpp"
#include "core/spare_vectors.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_access.hpp"
#include "io/hdf5_chunks.hpp"
#include "io/hdf5_guard.hpp"
#include "io/hdf5_matrix.hpp"
#include "io/hdf5_storage.hpp"
#include "io/hdf5_stored_chunks.hpp"
#include "io/input_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <utility>

/// The reading functions of io/hdf5.hpp.
namespace varve::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_text = std::size_t{1} << 16; // limit for a text attribute, in bytes

[[noreturn]] void fail_reading(std::string const& place, std::string const& what) {
  auto const why = reason();
  throw InputError(fmt::format("{}: {} cannot be read ({})", place, what, why));
}

Attribute open_attribute(hid_t object, std::string const& name, std::string const& place) {
  auto const found = H5Aexists(object, name.c_str());
  if (found == 0) throw InputError(fmt::format("{}: found no attribute \"{}\", expected one", place, name));
  Attribute attribute(found > 0 ? H5Aopen(object, name.c_str(), H5P_DEFAULT) : H5I_INVALID_HID);
  if (attribute.id() < 0) fail_reading(place, fmt::format("the attribute \"{}\"", name));
  return attribute;
}

void require_single(Attribute const& attribute, std::string const& name, std::string const& place) {
  Dataspace const space(H5Aget_space(attribute.id()));
  if (H5Sget_simple_extent_npoints(space.id()) != 1) {
    throw InputError(
        fmt::format("{}: found a list or nothing in the attribute \"{}\", expected one value", place, name));
  }
}

[[noreturn]] void fail_long_text(std::string const& name, std::string const& place) {
  throw InputError(
      fmt::format("{}: found more than {} bytes in the attribute \"{}\", expected no more", place, longest_text, name));
}

/// Opens an attribute that holds one number, together with its type.
std::pair<Attribute, Datatype> open_number(hid_t object, std::string const& name, std::string const& place) {
  constexpr std::size_t largest = 16; // in bytes
  auto attribute = open_attribute(object, name, place);
  require_single(attribute, name, place);
  Datatype type(H5Aget_type(attribute.id()));
  if (!is_number(H5Tget_class(type.id())) || H5Tget_size(type.id()) > largest) {
    throw InputError(fmt::format("{}: found no number in the attribute \"{}\", expected one", place, name));
  }
  require_standard(type, fmt::format("{}: the attribute \"{}\"", place, name));
  return {std::move(attribute), std::move(type)};
}

template <class Number>
Number read_number(Attribute const& attribute, std::string const& name, std::string const& place) {
  Number number{};
  if (H5Aread(attribute.id(), memory_type<Number>(), &number) < 0) {
    fail_reading(place, fmt::format("the attribute \"{}\"", name));
  }
  return number;
}

std::string read_variable_text(Attribute const& attribute, Datatype const& type, std::string const& name,
                               std::string const& place) {
  require_tried(attribute.id());
  Datatype const memory(H5Tcopy(H5T_C_S1));
  H5Tset_size(memory.id(), H5T_VARIABLE);
  H5Tset_cset(memory.id(), H5Tget_cset(type.id()));
  char* text = nullptr;
  if (H5Aread(attribute.id(), memory.id(), &text) < 0) fail_reading(place, fmt::format("the attribute \"{}\"", name));
  std::string result(text == nullptr ? "" : text, text == nullptr ? 0 : strnlen(text, longest_text + 1));
  H5free_memory(text);
  if (result.size() > longest_text) fail_long_text(name, place);
  return result;
}

std::string read_fixed_text(Attribute const& attribute, Datatype const& type, std::string const& name,
                            std::string const& place) {
  if (H5Tget_size(type.id()) > longest_text) fail_long_text(name, place);
  std::string text(H5Tget_size(type.id()), '\0');
  if (H5Aread(attribute.id(), type.id(), text.data()) < 0)
    fail_reading(place, fmt::format("the attribute \"{}\"", name));
  text.resize(std::min(text.find('\0'), text.size()));
  if (H5Tget_strpad(type.id()) == H5T_STR_SPACEPAD) text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

/// Reads the elements from `first` on by HDF5.
template <class Element>
void read_by_hdf5(Dataset const& dataset, std::uint64_t first, std::span<Element> elements, std::string const& place) {
  Dataspace const stored(H5Dget_space(dataset.id()));
  hsize_t const begin = first;
  hsize_t const length = elements.size();
  Dataspace const memory(H5Screate_simple(1, &length, nullptr));
  bool const is_list = H5Sget_simple_extent_ndims(stored.id()) == 1;
  if (is_list && H5Sselect_hyperslab(stored.id(), H5S_SELECT_SET, &begin, nullptr, &length, nullptr) < 0) {
    fail_reading(place, "a part of it");
  }
  if (H5Dread(dataset.id(), memory_type<Element>(), memory.id(), stored.id(), H5P_DEFAULT, elements.data()) < 0) {
    fail_reading(place, "its content");
  }
}

/// Reads a part of a list, converted to the type Element.
template <class Element>
std::vector<Element> read_elements(Dataset const& dataset, std::uint64_t first, std::uint64_t count,
                                   std::string const& place) {
  auto elements = SpareVectors<Element>::of_process().take(count);
  if (count == 0 || read_chunks(dataset, first, std::span(elements))) return elements;
  StoredChunks chunks(dataset, place);
  for (std::uint64_t done = 0; done < count;) {
    auto const length = std::min(chunks.elements_at_once(), count - done);
    chunks.for_each_part({first + done, 0}, {length, 1}, [&](auto const& begin, auto const& size, bool is_written) {
      auto const part = std::span(elements).subspan(begin[0] - first, size[0]);
      if (is_written) return read_by_hdf5(dataset, begin[0], part, place);
      std::ranges::fill(part, Element(0));
    });
    done += length;
  }
  return elements;
}

/// Callback that HDF5 calls before it follows a link into another file.
herr_t refuse_other_file(char const*, char const*, char const*, char const*, unsigned*, hid_t, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return -1;
}

/// Opens a group or dataset with open(properties); throws InputError if it lies in another file.
template <class Object, class Open>
Object open_in_this_file(hid_t kind, std::string const& what, std::string const& place, Open const& open) {
  bool lies_elsewhere = false;
  Properties const access(H5Pcreate(kind));
  H5Pset_elink_cb(access.id(), refuse_other_file, &lies_elsewhere);
  Object object(open(access.id()));
  if (lies_elsewhere) {
    throw InputError(fmt::format("{}: found a link to another file as {}, expected it in this file", place, what));
  }
  if (object.id() < 0) fail_reading(place, what);
  return object;
}

bool has_chunks_without_filters(Dataset const& dataset) {
  Properties const properties(H5Dget_create_plist(dataset.id()));
  return H5Pget_layout(properties.id()) == H5D_CHUNKED && H5Pget_nfilters(properties.id()) == 0;
}

/// Opens a dataset with chunks of this many dimensions and checks how it is stored. kept_chunks: bytes of chunks that
/// HDF5 keeps in memory, nullopt for its default. Chunks without filters are never kept: HDF5 1.10 would make room for
/// as many bytes as its index says of a chunk, and read on behind them; it reads numbers from the file without.
Dataset open_checked(hid_t parent, std::string const& name, int num_dimensions, std::optional<std::size_t> kept_chunks,
                     std::string const& place) {
  constexpr std::size_t num_slots = 12421; // a prime, as HDF5 asks, far above the number of chunks kept
  if (!has_child(parent, name)) throw InputError(fmt::format("{}: found no dataset \"{}\", expected one", place, name));
  auto const what = fmt::format("the dataset \"{}\"", name);
  auto const open = [&](std::optional<std::size_t> kept) {
    return open_in_this_file<Dataset>(H5P_DATASET_ACCESS, what, place, [&](hid_t access) {
      if (kept) H5Pset_chunk_cache(access, num_slots, *kept, 0.75);
      return H5Dopen2(parent, name.c_str(), access);
    });
  };
  auto dataset = open(kept_chunks);
  if (has_chunks_without_filters(dataset)) {
    dataset = Dataset(); // one that is open passes its cache on
    dataset = open(0);
  }
  Properties const properties(H5Dget_create_plist(dataset.id()));
  require_own_storage(properties, what, place);
  auto const named = fmt::format("{}: {}", place, name);
  require_whole(dataset, properties, named);
  require_modest(dataset, properties, named, num_dimensions);
  if (Datatype const type(H5Dget_type(dataset.id())); is_number(H5Tget_class(type.id()))) require_standard(type, named);
  return dataset;
}

} // namespace

File open_file(fs::path const& path) {
  auto const place = readable_place(path);
  auto const access = file_access();
  if (place != path) H5Pset_fapl_stdio(access.id()); // for pipes: the default driver requires the name of the file
  File file(H5Fopen(place.c_str(), H5F_ACC_RDONLY, access.id()));
  if (file.id() < 0) {
    auto const why = reason();
    std::ifstream const probe(place, std::ios::binary);
    if (!probe) throw InputError(fmt::format("{} cannot be read: {}", path.string(), std::strerror(errno)));
    throw InputError(fmt::format("{} is no whole HDF5 file ({})", path.string(), why));
  }
  return file;
}

bool has_child(hid_t parent, std::string const& name) {
  auto const found = H5Lexists(parent, name.c_str(), H5P_DEFAULT);
  if (found < 0) throw InputError(fmt::format("\"{}\" cannot be looked for ({})", name, reason()));
  return found > 0;
}

Group open_group(hid_t parent, std::string const& name, std::string const& place) {
  if (!has_child(parent, name)) throw InputError(fmt::format("{}: found no group \"{}\", expected one", place, name));
  return open_in_this_file<Group>(H5P_GROUP_ACCESS, fmt::format("the group \"{}\"", name), place,
                                  [&](hid_t access) { return H5Gopen2(parent, name.c_str(), access); });
}

Dataset open_dataset(hid_t parent, std::string const& name, std::string const& place) {
  return open_checked(parent, name, 1, std::nullopt, place);
}

Dataset open_chunked(hid_t parent, std::string const& name, int num_dimensions, std::string const& place) {
  constexpr std::size_t kept_bytes = std::size_t{64} << 20U;
  return open_checked(parent, name, num_dimensions, kept_bytes, place);
}

std::uint64_t num_children(Group const& group, std::string const& place) {
  H5G_info_t info{};
  if (H5Gget_info(group.id(), &info) < 0) fail_reading(place, "the group");
  return info.nlinks;
}

std::string read_text(hid_t object, std::string const& name, std::string const& place) {
  auto const attribute = open_attribute(object, name, place);
  require_single(attribute, name, place);
  Datatype const type(H5Aget_type(attribute.id()));
  if (H5Tget_class(type.id()) != H5T_STRING) {
    throw InputError(fmt::format("{}: found no text in the attribute \"{}\", expected some", place, name));
  }
  bool const is_variable = H5Tis_variable_str(type.id()) > 0;
  return is_variable ? read_variable_text(attribute, type, name, place) : read_fixed_text(attribute, type, name, place);
}

std::uint64_t read_count(hid_t object, std::string const& name, std::string const& place) {
  auto const [attribute, type] = open_number(object, name, place);
  auto const fail = [&, &shown_name = name](auto number) {
    throw InputError(
        fmt::format("{}: found {} in the attribute \"{}\", expected a whole number from 0", place, number, shown_name));
  };
  if (H5Tget_class(type.id()) == H5T_INTEGER && H5Tget_sign(type.id()) == H5T_SGN_NONE)
    return read_number<std::uint64_t>(attribute, name, place);
  if (H5Tget_class(type.id()) == H5T_INTEGER) {
    auto const number = read_number<std::int64_t>(attribute, name, place);
    if (number < 0) fail(number);
    return static_cast<std::uint64_t>(number);
  }
  constexpr double largest_exact = 9007199254740992.0; // 2^53
  auto const number = read_number<double>(attribute, name, place);
  if (!(number >= 0.0 && number <= largest_exact) || std::floor(number) != number) fail(number);
  return static_cast<std::uint64_t>(number);
}

double read_real(hid_t object, std::string const& name, std::string const& place) {
  return read_number<double>(open_number(object, name, place).first, name, place);
}

bool is_scalar(Dataset const& dataset) {
  Dataspace const space(H5Dget_space(dataset.id()));
  return H5Sget_simple_extent_type(space.id()) == H5S_SCALAR;
}

std::uint64_t length_of(Dataset const& dataset, std::string const& place) {
  Dataspace const space(H5Dget_space(dataset.id()));
  auto const type = H5Sget_simple_extent_type(space.id());
  auto const dimensions = H5Sget_simple_extent_ndims(space.id());
  if (type != H5S_SCALAR && (type != H5S_SIMPLE || dimensions != 1)) {
    throw InputError(fmt::format("{}: found {} dimensions, expected 1", place, dimensions));
  }
  return static_cast<std::uint64_t>(H5Sget_simple_extent_npoints(space.id()));
}

std::vector<double> read_reals(Dataset const& dataset, std::uint64_t first, std::uint64_t count,
                               std::string const& place) {
  Datatype const type(H5Dget_type(dataset.id()));
  if (!is_number(H5Tget_class(type.id()))) {
    throw InputError(
        fmt::format("{}: found a type that is no real number, expected integers or floating point", place));
  }
  return read_elements<double>(dataset, first, count, place);
}

template <class Index>
std::vector<Index> read_indices(Dataset const& dataset, std::uint64_t first, std::uint64_t count,
                                std::string const& place) {
  Datatype const type(H5Dget_type(dataset.id()));
  if (H5Tget_class(type.id()) != H5T_INTEGER) {
    throw InputError(fmt::format("{}: found a type that is no integer, expected integers", place));
  }
  // HDF5 converts numbers out of range to the nearest number in range. At the upper end this is harmless, because every
  // limit is checked later.
  if (H5Tget_sign(type.id()) == H5T_SGN_NONE) return read_elements<Index>(dataset, first, count, place);
  auto const numbers = read_elements<std::int64_t>(dataset, first, count, place);
  std::vector<Index> indices(numbers.size());
  for (std::size_t entry = 0; entry < numbers.size(); ++entry) {
    if (numbers[entry] < 0) {
      throw InputError(fmt::format("{}: found {} at position {}, expected no negative number", place, numbers[entry],
                                   first + entry));
    }
    auto const number = static_cast<std::uint64_t>(numbers[entry]);
    indices[entry] = static_cast<Index>(std::min<std::uint64_t>(number, std::numeric_limits<Index>::max()));
  }
  return indices;
}
template std::vector<std::uint32_t> read_indices(Dataset const&, std::uint64_t, std::uint64_t, std::string const&);
template std::vector<std::uint64_t> read_indices(Dataset const&, std::uint64_t, std::uint64_t, std::string const&);

} // namespace varve::hdf5
