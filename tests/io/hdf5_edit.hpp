#pragma once

#include "io/files.hpp"
#include "io/hdf5.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

/// Changes a file that Varve wrote into one that it must refuse, or into one that another program would have written.
namespace varve::testing {

inline hdf5::File open_to_edit(std::filesystem::path const& path) {
  return hdf5::File(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
}

/// A dataset of a file, open to look at how it is stored.
struct StoredDataset {
  StoredDataset(std::filesystem::path const& path, std::string const& name)
      : file(hdf5::open_file(path)), dataset(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT)) {}

  hid_t id() const { return dataset.id(); }

  std::unique_lock<std::recursive_mutex> lock = hdf5::lock();
  hdf5::File file;
  hdf5::Dataset dataset;
};

inline void remove_link(std::filesystem::path const& path, std::string const& name) {
  auto const lock = hdf5::lock();
  auto const file = open_to_edit(path);
  ASSERT_GE(H5Ldelete(file.id(), name.c_str(), H5P_DEFAULT), 0);
}

inline void remove_attribute(std::filesystem::path const& path, std::string const& object, std::string const& name) {
  auto const lock = hdf5::lock();
  auto const file = open_to_edit(path);
  ASSERT_GE(H5Adelete_by_name(file.id(), object.c_str(), name.c_str(), H5P_DEFAULT), 0);
}

/// Makes the index of a dataset in HDF5's first format say that the chunk beginning at these elements takes `size`
/// bytes.
inline void claim_chunk_size(std::filesystem::path const& path, std::string const& name,
                             std::vector<hsize_t> const& begin, std::uint32_t size) {
  unsigned mask = 0;
  haddr_t place = 0;
  hsize_t found = 0;
  {
    StoredDataset const dataset(path, name);
    ASSERT_GE(H5Dget_chunk_info_by_coord(dataset.id(), begin.data(), &mask, &place, &found), 0);
  }
  auto const append = [](std::string& bytes, auto number) {
    bytes.append(reinterpret_cast<char const*>(&number), sizeof number);
  };
  std::string entry; // size, filters left out, begin, 0 for the bytes of an element, place
  append(entry, static_cast<std::uint32_t>(found));
  append(entry, std::uint32_t{mask});
  for (auto const coordinate : begin) append(entry, std::uint64_t{coordinate});
  append(entry, std::uint64_t{0});
  append(entry, std::uint64_t{place});
  auto bytes = read_bytes(path);
  auto const at = bytes.find(entry);
  ASSERT_NE(at, std::string::npos) << name;
  bytes.replace(at, sizeof size, reinterpret_cast<char const*>(&size), sizeof size);
  write_bytes(path, bytes);
}

/// Replaces an attribute by a text, of fixed or of variable length.
inline void replace_text(std::filesystem::path const& path, std::string const& object, std::string const& name,
                         std::string const& text, bool variable = false) {
  auto const lock = hdf5::lock();
  auto const file = open_to_edit(path);
  hdf5::Group const group(H5Gopen2(file.id(), object.c_str(), H5P_DEFAULT));
  if (H5Aexists(group.id(), name.c_str()) > 0) H5Adelete(group.id(), name.c_str());
  if (!variable) return hdf5::write_text(group.id(), name, text, path);
  hdf5::Datatype const type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.id(), H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  hdf5::Dataspace const space(H5Screate(H5S_SCALAR));
  hdf5::Attribute const attribute(
      H5Acreate2(group.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT));
  char const* const letters = text.c_str();
  ASSERT_GE(H5Awrite(attribute.id(), type.id(), &letters), 0);
}

/// Replaces an attribute by a number.
inline void replace_number(std::filesystem::path const& path, std::string const& object, std::string const& name,
                           double number) {
  auto const lock = hdf5::lock();
  auto const file = open_to_edit(path);
  hdf5::Group const group(H5Gopen2(file.id(), object.c_str(), H5P_DEFAULT));
  if (H5Aexists(group.id(), name.c_str()) > 0) H5Adelete(group.id(), name.c_str());
  hdf5::write_real(group.id(), name, number, path);
}

/// Replaces a dataset by a list of a given stored type.
inline void replace_list(std::filesystem::path const& path, std::string const& name, hid_t stored,
                         std::vector<double> const& numbers) {
  auto const lock = hdf5::lock();
  auto const file = open_to_edit(path);
  ASSERT_GE(H5Ldelete(file.id(), name.c_str(), H5P_DEFAULT), 0);
  hdf5::write_list(file.id(), name, stored, numbers, false, path);
}

} // namespace varve::testing
