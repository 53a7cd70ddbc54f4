#include "io/hdf5_storage.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace varve::hdf5 {
namespace {

/// Where HDF5 ends what it reads, which the file says itself; 0 if HDF5 does not know it.
haddr_t end_of_addresses(Dataset const& dataset) {
  File const file(H5Iget_file_id(dataset.id()));
  haddr_t end = 0;
  if (H5Fget_eoa(file.id(), &end) >= 0) return end;
  return size_of_file(dataset); // a pipe's file: HDF5 tells the end of addresses for its default driver alone
}

/// The number of bytes that the elements of a dataset take.
std::uint64_t bytes_of(Dataset const& dataset) {
  Dataspace const space(H5Dget_space(dataset.id()));
  Datatype const type(H5Dget_type(dataset.id()));
  auto const elements = static_cast<std::uint64_t>(std::max<hssize_t>(H5Sget_simple_extent_npoints(space.id()), 0));
  return capped_multiply(elements, H5Tget_size(type.id()));
}

/// IEEE's half precision in the byte order of `base`, a type of single precision.
Datatype half_like(hid_t base) {
  Datatype half(H5Tcopy(base));
  H5Tset_fields(half.id(), 15, 10, 5, 0, 10);
  H5Tset_size(half.id(), 2);
  H5Tset_ebias(half.id(), 15);
  return half;
}

template <std::size_t count>
bool is_one_of(Datatype const& type, std::array<hid_t, count> const& standard) {
  return std::any_of(standard.begin(), standard.end(), [&](hid_t one) { return H5Tequal(type.id(), one) > 0; });
}

/// An upper bound on the uncompressed bytes of a dataset that were ever written, limited by the size of the file.
std::uint64_t written_bytes(Dataset const& dataset, Dataspace const& space, std::uint64_t chunk_bytes) {
  constexpr std::uint64_t best_compression = 1032; // highest ratio that deflate reaches
  auto const stored = std::min<std::uint64_t>(H5Dget_storage_size(dataset.id()), size_of_file(dataset));
  if (chunk_bytes == 0) return stored;
  hsize_t num_chunks = 0;
  if (H5Dget_num_chunks(dataset.id(), space.id(), &num_chunks) < 0) return 0;
  return std::min(capped_multiply(num_chunks, chunk_bytes), capped_multiply(stored, best_compression));
}

/// Bytes per chunk; 0 if the dataset is contiguous. Throws InputError if the chunks or the dataset have another number
/// of dimensions (1 or 2), or the chunks are empty: HDF5 would search for the next chunk forever.
std::uint64_t bytes_of_chunk(Properties const& properties, Dataspace const& space, std::uint64_t element_size,
                             int num_dimensions, std::string const& place) {
  std::array<hsize_t, 2> lengths = {0, 0};
  if (H5Pget_layout(properties.id()) != H5D_CHUNKED) return 0;
  int const dimensions = H5Pget_chunk(properties.id(), num_dimensions, lengths.data());
  std::uint64_t const length = num_dimensions == 1 ? lengths[0] : capped_multiply(lengths[0], lengths[1]);
  if (dimensions != num_dimensions || length == 0) {
    throw InputError(fmt::format("{}: found chunks of {} dimensions and {} elements, expected {} dimension{}", place,
                                 dimensions, length, num_dimensions, num_dimensions == 1 ? "" : "s"));
  }
  if (int const found = H5Sget_simple_extent_ndims(space.id()); found != num_dimensions) {
    throw InputError(fmt::format("{}: found chunks of a dataset of {} dimensions, expected {} dimension{}", place,
                                 found, num_dimensions, num_dimensions == 1 ? "" : "s"));
  }
  return capped_multiply(length, element_size);
}

} // namespace

hsize_t size_of_file(Dataset const& dataset) {
  File const file(H5Iget_file_id(dataset.id()));
  hsize_t size = 0;
  return H5Fget_filesize(file.id(), &size) < 0 ? 0 : size;
}

void require_standard(Datatype const& type, std::string const& place) {
  bool is_standard = false;
  if (H5Tget_class(type.id()) == H5T_INTEGER) {
    is_standard =
        is_one_of(type, std::array{H5T_STD_I8LE, H5T_STD_U8LE, H5T_STD_I8BE, H5T_STD_U8BE, H5T_STD_I16LE, H5T_STD_U16LE,
                                   H5T_STD_I16BE, H5T_STD_U16BE, H5T_STD_I32LE, H5T_STD_U32LE, H5T_STD_I32BE,
                                   H5T_STD_U32BE, H5T_STD_I64LE, H5T_STD_U64LE, H5T_STD_I64BE, H5T_STD_U64BE});
  } else {
    is_standard =
        is_one_of(type, std::array{H5T_IEEE_F64LE, H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_IEEE_F32BE, H5T_NATIVE_LDOUBLE});
    if (!is_standard && H5Tget_size(type.id()) == 2) {
      auto const half = half_like(H5T_IEEE_F32LE);
      auto const reversed = half_like(H5T_IEEE_F32BE);
      is_standard = is_one_of(type, std::array{half.id(), reversed.id()});
    }
  }
  if (is_standard) return;
  throw InputError(
      fmt::format("{}: found a type of numbers of {} bytes that no computer uses, expected integers of 1 to 8 bytes or "
                  "IEEE floating point",
                  place, H5Tget_size(type.id())));
}

void require_own_storage(Properties const& properties, std::string const& what, std::string const& place) {
  auto const layout = H5Pget_layout(properties.id());
  bool const is_virtual = layout == H5D_VIRTUAL;
  int const num_files = is_virtual ? 0 : H5Pget_external_count(properties.id());
  if (layout < 0 || num_files < 0)
    throw InputError(fmt::format("{}: {} cannot be read: HDF5 does not say how it is stored", place, what));
  if (!is_virtual && num_files == 0) return;
  throw InputError(
      fmt::format("{}: found {} with its numbers {}, expected them in this file", place, what,
                  is_virtual ? "in other datasets (virtual storage)" : "in another file (external storage)"));
}

void require_whole(Dataset const& dataset, Properties const& properties, std::string const& place) {
  auto const layout = H5Pget_layout(properties.id());
  auto const bytes = bytes_of(dataset);
  auto stored = bytes;
  if (layout == H5D_COMPACT) stored = H5Dget_storage_size(dataset.id());
  if (auto const begin = H5Dget_offset(dataset.id()); layout == H5D_CONTIGUOUS && begin != HADDR_UNDEF) {
    auto const end = end_of_addresses(dataset);
    stored = std::min<std::uint64_t>(bytes, end - std::min(begin, end));
  }
  if (stored == bytes) return;
  throw InputError(fmt::format("{}: found {} bytes stored for {} bytes of elements", place, stored, bytes));
}

void require_modest(Dataset const& dataset, Properties const& properties, std::string const& place,
                    int num_dimensions) {
  constexpr std::uint64_t always_modest = std::uint64_t{16} << 20;
  constexpr std::uint64_t most_times = 4;
  constexpr std::uint64_t largest_element = 16; // in bytes
  Dataspace const space(H5Dget_space(dataset.id()));
  Datatype const type(H5Dget_type(dataset.id()));
  auto const element_size = static_cast<std::uint64_t>(H5Tget_size(type.id()));
  if (element_size < 1 || element_size > largest_element) {
    throw InputError(fmt::format("{}: found elements of {} bytes, expected numbers of 1 to {} bytes", place,
                                 element_size, largest_element));
  }
  auto const elements = static_cast<std::uint64_t>(std::max<hssize_t>(H5Sget_simple_extent_npoints(space.id()), 0));
  auto const bytes = capped_multiply(elements, element_size);
  auto const chunk_bytes = bytes_of_chunk(properties, space, element_size, num_dimensions, place);
  auto const most_chunk_bytes = std::max(always_modest, capped_multiply(most_times, bytes));
  if (chunk_bytes > most_chunk_bytes) {
    throw InputError(fmt::format("{}: found chunks of {} bytes for {} elements, expected no more than {} bytes", place,
                                 chunk_bytes, elements, most_chunk_bytes));
  }
  bool const has_few_chunks = chunk_bytes == 0 || bytes / chunk_bytes <= chunks_at_once;
  if (bytes <= always_modest && has_few_chunks) return;
  auto const written = written_bytes(dataset, space, chunk_bytes);
  if (bytes > capped_multiply(most_times, written)) {
    throw InputError(fmt::format("{}: found {} elements of which no more than {} were ever written, expected all",
                                 place, elements, written / element_size));
  }
}

} // namespace varve::hdf5
