#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

/// RAII handles and helpers over the C API of HDF5. HDF5 errors become one sentence; `place` says where, as in "net.h5:
/// layer 3". Hold lock() during every use, including destruction.
namespace varve::hdf5 {

/// Locks the library, which only one thread at a time may enter, silences HDF5's own error output and
/// notes where it lacks memory (note_lack_of_memory).
[[nodiscard]] std::unique_lock<std::recursive_mutex> lock();

/// Owns an HDF5 identifier and closes it on destruction. HDF5 hands data to the disk when it closes, so whoever has
/// written through a handle closes it with a check (close_written); the destructor is for what was only read and for
/// outputs that are given up.
template <auto Close>
class Handle {
public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) Close(id_);
  }

  hid_t id() const { return id_; }

  /// Closes it now, if it is open. Returns false if HDF5 fails: what was written through it may be lost.
  [[nodiscard]] bool close() {
    auto const id = std::exchange(id_, H5I_INVALID_HID);
    return id < 0 || Close(id) >= 0;
  }

private:
  hid_t id_ = H5I_INVALID_HID;
};

using File = Handle<&H5Fclose>;
using Group = Handle<&H5Gclose>;
using Dataset = Handle<&H5Dclose>;
using Attribute = Handle<&H5Aclose>;
using Dataspace = Handle<&H5Sclose>;
using Datatype = Handle<&H5Tclose>;
using Properties = Handle<&H5Pclose>;

/// True if the file begins with the HDF5 signature; false for folders and what does not exist. Throws InputError if it
/// cannot be read.
bool has_signature(std::filesystem::path const& path);

/// True if the name of a file says that it is HDF5: it ends with .h5 or .hdf5.
bool is_hdf5_name(std::filesystem::path const& path);

/// has_signature(), for files that may be text instead. Throws InputError for a regular file without the signature that
/// is named so: it is damaged or empty, and would pass for text without lines.
bool is_hdf5_and_not_text(std::filesystem::path const& path);

// Reading functions. All throw InputError "PLACE ...". They refuse groups and datasets in other files (external links,
// external storage) and virtual datasets, so that the bytes of one file determine everything that is read.

File open_file(std::filesystem::path const& path);
bool has_child(hid_t parent, std::string const& name);
Group open_group(hid_t parent, std::string const& name, std::string const& place);
Dataset open_dataset(hid_t parent, std::string const& name, std::string const& place);

/// Number of links in a group.
std::uint64_t num_children(Group const& group, std::string const& place);

/// Reads a text attribute of fixed or variable length, up to 64 KiB.
std::string read_text(hid_t object, std::string const& name, std::string const& place);
/// Reads an attribute that is a whole number >= 0, of any numeric type.
std::uint64_t read_count(hid_t object, std::string const& name, std::string const& place);
double read_real(hid_t object, std::string const& name, std::string const& place);

/// Number of elements of a one-dimensional dataset; 1 for a scalar.
std::uint64_t length_of(Dataset const& dataset, std::string const& place);
bool is_scalar(Dataset const& dataset);

/// Reads the elements [first, first + count) of a list or scalar of any integer or floating-point type.
std::vector<double> read_reals(Dataset const& dataset, std::uint64_t first, std::uint64_t count,
                               std::string const& place);

/// Reads the elements [first, first + count) of a list or scalar of any integer type. `Index` is std::uint32_t or
/// std::uint64_t. A number too large for Index becomes the largest Index; a negative number throws InputError.
template <class Index>
std::vector<Index> read_indices(Dataset const& dataset, std::uint64_t first, std::uint64_t count,
                                std::string const& place);

// Writing functions. All throw ResourceError "PATH cannot be written ...".

/// Creates a file in the format of HDF5 1.10, whose metadata carries checksums. `partial` is the file to create or
/// overwrite; `path` is the name for messages.
File create_file(std::filesystem::path const& partial, std::filesystem::path const& path);
Group create_group(hid_t parent, std::string const& name, std::filesystem::path const& path);
void write_text(hid_t object, std::string const& name, std::string const& text, std::filesystem::path const& path);
void write_integer(hid_t object, std::string const& name, std::uint64_t number, std::filesystem::path const& path);
void write_real(hid_t object, std::string const& name, double number, std::filesystem::path const& path);

/// Writes a list, converted to the type `stored`, with a checksum per chunk. If `compressed`, lists of at least 4 KiB
/// are shuffled and deflated.
template <class Element>
void write_list(hid_t parent, std::string const& name, hid_t stored, std::vector<Element> const& elements,
                bool compressed, std::filesystem::path const& path);

/// Writes a scalar dataset.
void write_scalar(hid_t parent, std::string const& name, double number, std::filesystem::path const& path);

/// An appendable list, stored compressed in chunks with checksums.
class GrowingList {
public:
  GrowingList() = default;
  GrowingList(hid_t parent, std::string const& name, hid_t stored, std::filesystem::path path);

  template <class Element>
  void append(Element const* elements, std::uint64_t count);

  /// Hands what is left to the operating system; nothing can be appended after that.
  void close();

  std::uint64_t length() const { return length_; }
  Dataset const& dataset() const { return dataset_; }

private:
  Dataset dataset_;
  std::filesystem::path path_;
  std::uint64_t length_ = 0;
};

/// Closes a file that was written: all of it is then in the hands of the operating system. Its groups and lists must be
/// closed before.
void close_file(File& file, std::filesystem::path const& path);

} // namespace varve::hdf5
