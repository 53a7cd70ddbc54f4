#include "io/hdf5_reserve.hpp"

#include "io/hdf5_access.hpp"
#include "io/whole_bytes.hpp"

#if H5_VERSION_GE(1, 14, 0)
#include <H5FDdevelop.h>
#endif

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

/// A file driver of HDF5 (its virtual file layer): as the one for files of the system, but it drops elements.
namespace varve::hdf5 {
namespace {

int last_error = 0; ///< errno of the last call of the system that failed; under hdf5::lock()

/// What HDF5 wants to hear of a call of the system.
herr_t status_of(bool is_done) {
  if (!is_done) last_error = errno;
  return is_done ? 0 : -1;
}

constexpr haddr_t largest_address = (haddr_t{1} << (8 * sizeof(off_t) - 1)) - 1;

struct ReservingFile {
  H5FD_t common; ///< first, because HDF5 knows a file by the address of this part
  int descriptor;
  haddr_t end_of_addresses;
  std::vector<std::uint64_t> places; ///< of elements that were dropped
};
static_assert(std::is_standard_layout_v<ReservingFile>);

ReservingFile& own(H5FD_t* file) { return *reinterpret_cast<ReservingFile*>(file); }
ReservingFile const& own(H5FD_t const* file) { return *reinterpret_cast<ReservingFile const*>(file); }

H5FD_t* open_reserving(char const* name, unsigned flags, hid_t /*access*/, haddr_t /*max_address*/) {
  int const descriptor = open(name, O_RDWR | O_CLOEXEC | ((flags & H5F_ACC_TRUNC) != 0 ? O_TRUNC : 0));
  if (status_of(descriptor >= 0) < 0) return nullptr;
  auto file = std::make_unique<ReservingFile>();
  file->descriptor = descriptor;
  return &file.release()->common;
}

herr_t close_reserving(H5FD_t* file) {
  std::unique_ptr<ReservingFile> const closed(&own(file));
  return status_of(close(closed->descriptor) == 0);
}

herr_t query_reserving(H5FD_t const* /*file*/, unsigned long* flags) {
  *flags = 0; // nothing is gathered: each write of elements is one chunk
  return 0;
}

haddr_t end_of_addresses(H5FD_t const* file, H5FD_mem_t /*type*/) { return own(file).end_of_addresses; }

herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
  own(file).end_of_addresses = address;
  return 0;
}

haddr_t end_of_file(H5FD_t const* file, H5FD_mem_t /*type*/) {
  auto const end = lseek(own(file).descriptor, 0, SEEK_END);
  return end < 0 ? HADDR_UNDEF : static_cast<haddr_t>(end);
}

herr_t give_handle(H5FD_t* file, hid_t /*access*/, void** handle) {
  *handle = file;
  return 0;
}

herr_t read_metadata(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address, std::size_t size,
                     void* buffer) {
  auto* const bytes = static_cast<char*>(buffer);
  auto const count = read_at(own(file).descriptor, address, bytes, size);
  if (count < 0) return status_of(false);
  std::memset(bytes + count, 0, size - static_cast<std::size_t>(count)); // behind the end are zeros
  return 0;
}

herr_t write_metadata(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t address, std::size_t size,
                      void const* buffer) {
  if (type == H5FD_MEM_DRAW) {
    own(file).places.push_back(address);
    return 0;
  }
  return status_of(write_at(own(file).descriptor, address, {static_cast<char const*>(buffer), size}));
}

/// Gives the file the length that HDF5 means it to have, beyond what has been written.
herr_t set_length(H5FD_t* file, hid_t /*transfer*/, hbool_t /*closing*/) {
  return status_of(ftruncate(own(file).descriptor, static_cast<off_t>(own(file).end_of_addresses)) == 0);
}

/// Outputs are locked already, see PartialOutput.
herr_t lock_nothing(H5FD_t* /*file*/, hbool_t /*for_writing*/) { return 0; }
herr_t unlock_nothing(H5FD_t* /*file*/) { return 0; }

hid_t reserving_driver() {
  static hid_t const driver = [] {
    static H5FD_class_t methods{};
#if H5_VERSION_GE(1, 14, 0)
    methods.version = H5FD_CLASS_VERSION;
    methods.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 1); // one for the tests of drivers
#endif
    methods.name = "varve_reserving";
    methods.maxaddr = largest_address;
    methods.fc_degree = H5F_CLOSE_WEAK;
    methods.open = open_reserving;
    methods.close = close_reserving;
    methods.query = query_reserving;
    methods.get_eoa = end_of_addresses;
    methods.set_eoa = set_end_of_addresses;
    methods.get_eof = end_of_file;
    methods.get_handle = give_handle;
    methods.read = read_metadata;
    methods.write = write_metadata;
    methods.truncate = set_length;
    methods.lock = lock_nothing;
    methods.unlock = unlock_nothing;
    H5FD_mem_t const kinds[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(kinds), std::end(kinds), std::begin(methods.fl_map));
    return H5FDregister(&methods);
  }();
  return driver;
}

} // namespace

File create_reserving_file(std::filesystem::path const& partial, std::filesystem::path const& path) {
  last_error = 0;
  // No two large chunks share a page: processes of several machines may write them to a file system that caches pages.
  constexpr hsize_t smallest_aligned = 65536;
  constexpr hsize_t page = 4096;
  auto access = file_access();
  H5Pset_alignment(access.id(), smallest_aligned, page);
  H5Pset_driver(access.id(), reserving_driver(), nullptr);
  return create_file(partial, path, access);
}

int take_reserving_error() { return std::exchange(last_error, 0); }

std::vector<std::uint64_t> reserved_places(File const& file, std::filesystem::path const& path) {
  void* handle = nullptr;
  require_written(H5Fget_vfd_handle(file.id(), H5P_DEFAULT, &handle), path);
  return own(static_cast<H5FD_t const*>(handle)).places;
}

} // namespace varve::hdf5
