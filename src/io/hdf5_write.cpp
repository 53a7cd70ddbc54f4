#include "core/error.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

/// The writing functions of io/hdf5.hpp.
namespace varve::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t smallest_compressed = 4096; // in bytes
constexpr hsize_t chunk_elements = hsize_t{1} << 16;
constexpr unsigned deflate_level = 4;

/// Creation properties without time stamps, so that equal contents give equal files.
Properties without_times(hid_t kind) {
  Properties properties(H5Pcreate(kind));
  H5Pset_obj_track_times(properties.id(), false);
  return properties;
}

/// Creation properties of a list. It is stored in chunks, because only chunks can be compressed and carry checksums
/// (Fletcher-32 of the stored bytes).
Properties list_properties(bool compressed, hsize_t length) {
  auto properties = without_times(H5P_DATASET_CREATE);
  if (length == 0) return properties;
  auto const num_chunks = (length + chunk_elements - 1) / chunk_elements;
  // equal chunks: the last one takes as much room as the others
  hsize_t const chunk = (length + num_chunks - 1) / num_chunks;
  H5Pset_chunk(properties.id(), 1, &chunk);
  if (compressed) {
    H5Pset_shuffle(properties.id());
    H5Pset_deflate(properties.id(), deflate_level);
  }
  H5Pset_fletcher32(properties.id());
  return properties;
}

void write_attribute(hid_t object, std::string const& name, hid_t stored, hid_t memory, void const* value,
                     fs::path const& path) {
  Dataspace const space(H5Screate(H5S_SCALAR));
  Attribute attribute(H5Acreate2(object, name.c_str(), stored, space.id(), H5P_DEFAULT, H5P_DEFAULT));
  require_written(attribute.id(), path);
  require_written(H5Awrite(attribute.id(), memory, value), path);
  close_written(attribute, path);
}

} // namespace

hid_t require_written(hid_t id, fs::path const& path) {
  if (id < 0) fail_writing(path);
  return id;
}
void require_written(herr_t status, fs::path const& path) {
  if (status < 0) fail_writing(path);
}

void fail_writing(fs::path const& path) {
  auto const why = reason();
  throw ResourceError(fmt::format("{} cannot be written ({})", path.string(), why));
}

File create_file(fs::path const& partial, fs::path const& path) { return create_file(partial, path, file_access()); }

File create_file(fs::path const& partial, fs::path const& path, Properties const& access) {
  H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_LATEST);
  H5Pset_fclose_degree(access.id(), H5F_CLOSE_SEMI); // else closing waits, without an error, for what is still open
  auto const properties = without_times(H5P_FILE_CREATE);
  return File(require_written(H5Fcreate(partial.c_str(), H5F_ACC_TRUNC, properties.id(), access.id()), path));
}

Group create_group(hid_t parent, std::string const& name, fs::path const& path) {
  auto const properties = without_times(H5P_GROUP_CREATE);
  return Group(require_written(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, properties.id(), H5P_DEFAULT), path));
}

void write_text(hid_t object, std::string const& name, std::string const& text, fs::path const& path) {
  Datatype const type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.id(), std::max<std::size_t>(text.size(), 1));
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  write_attribute(object, name, type.id(), type.id(), text.c_str(), path);
}

void write_integer(hid_t object, std::string const& name, std::uint64_t number, fs::path const& path) {
  write_attribute(object, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &number, path);
}

void write_real(hid_t object, std::string const& name, double number, fs::path const& path) {
  write_attribute(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &number, path);
}

template <class Element>
void write_list(hid_t parent, std::string const& name, hid_t stored, std::vector<Element> const& elements,
                bool compressed, fs::path const& path) {
  hsize_t const length = elements.size();
  bool const is_large = length * H5Tget_size(stored) >= smallest_compressed;
  Dataspace const space(H5Screate_simple(1, &length, nullptr));
  auto const properties = list_properties(compressed && is_large, length);
  Dataset dataset(H5Dcreate2(parent, name.c_str(), stored, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  require_written(dataset.id(), path);
  if (length > 0)
    require_written(H5Dwrite(dataset.id(), memory_type<Element>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()),
                    path);
  close_written(dataset, path);
}
template void write_list(hid_t, std::string const&, hid_t, std::vector<double> const&, bool, fs::path const&);
template void write_list(hid_t, std::string const&, hid_t, std::vector<std::uint32_t> const&, bool, fs::path const&);
template void write_list(hid_t, std::string const&, hid_t, std::vector<std::uint64_t> const&, bool, fs::path const&);

void write_scalar(hid_t parent, std::string const& name, double number, fs::path const& path) {
  Dataspace const space(H5Screate(H5S_SCALAR));
  auto const properties = without_times(H5P_DATASET_CREATE);
  H5Pset_layout(properties.id(), H5D_COMPACT); // stored in the header of the dataset, which has a checksum
  Dataset dataset(
      H5Dcreate2(parent, name.c_str(), H5T_IEEE_F64LE, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  require_written(dataset.id(), path);
  require_written(H5Dwrite(dataset.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &number), path);
  close_written(dataset, path);
}

GrowingList::GrowingList(hid_t parent, std::string const& name, hid_t stored, fs::path path) : path_(std::move(path)) {
  hsize_t const begin = 0;
  hsize_t const unlimited = H5S_UNLIMITED;
  Dataspace const space(H5Screate_simple(1, &begin, &unlimited));
  auto const properties = list_properties(true, chunk_elements);
  dataset_ = Dataset(H5Dcreate2(parent, name.c_str(), stored, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  require_written(dataset_.id(), path_);
}

template <class Element>
void GrowingList::append(Element const* elements, std::uint64_t count) {
  if (count == 0) return;
  hsize_t const begin = length_;
  hsize_t const added = count;
  hsize_t const length = begin + added;
  require_written(H5Dset_extent(dataset_.id(), &length), path_);
  Dataspace const stored(H5Dget_space(dataset_.id()));
  Dataspace const memory(H5Screate_simple(1, &added, nullptr));
  require_written(H5Sselect_hyperslab(stored.id(), H5S_SELECT_SET, &begin, nullptr, &added, nullptr), path_);
  require_written(H5Dwrite(dataset_.id(), memory_type<Element>(), memory.id(), stored.id(), H5P_DEFAULT, elements),
                  path_);
  length_ = length;
}
template void GrowingList::append(double const*, std::uint64_t);
template void GrowingList::append(std::uint32_t const*, std::uint64_t);
template void GrowingList::append(std::uint64_t const*, std::uint64_t);

void GrowingList::close() { close_written(dataset_, path_); }

void close_file(File& file, fs::path const& path) {
  require_written(H5Fflush(file.id(), H5F_SCOPE_LOCAL), path); // closing may not be tried again after a failure
  if (!file.close()) fail_writing(path);
}

} // namespace varve::hdf5
