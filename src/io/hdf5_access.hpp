#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>

/// Helpers that reading and writing share: HDF5's error messages, memory types, file access properties.
namespace varve::hdf5 {

/// The innermost reason that HDF5 gives for its last failure.
std::string reason();

/// The access properties with which all files are opened and created.
Properties file_access();

/// hdf5::create_file() with these access properties, which get the version of the format.
File create_file(std::filesystem::path const& partial, std::filesystem::path const& path, Properties const& access);

/// Throws ResourceError "PATH cannot be written" and HDF5's reason.
[[noreturn]] void fail_writing(std::filesystem::path const& path);

/// fail_writing() if HDF5 returned a failure; returns the identifier.
hid_t require_written(hid_t id, std::filesystem::path const& path);
void require_written(herr_t status, std::filesystem::path const& path);

/// Closes what was written through a handle; fail_writing() if HDF5 fails.
template <auto Close>
void close_written(Handle<Close>& handle, std::filesystem::path const& path) {
  if (!handle.close()) fail_writing(path);
}

/// The HDF5 type of an Element in memory.
template <class Element>
hid_t memory_type() {
  if constexpr (std::is_same_v<Element, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<Element, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<Element, std::uint32_t>) return H5T_NATIVE_UINT32;
  if constexpr (std::is_same_v<Element, std::uint64_t>) return H5T_NATIVE_UINT64;
}

} // namespace varve::hdf5
