#pragma once

#include <filesystem>

namespace varve {

/// What a file is, by its content.
enum class FileKind {
  absent,        ///< nothing of this name
  folder,        ///< a folder
  container,     ///< a file of Varve (FORMAT.md)
  idx,           ///< images or labels, perhaps compressed
  matrix_market, ///< a matrix, perhaps compressed
  text           ///< anything else
};

/// Throws InputError if the file cannot be read, if it is one of another program, which the Python package reads (HDF5,
/// NumPy, SciPy), or if its name says that it is a container and it is none.
FileKind kind_of(std::filesystem::path const& path);

/// True if the ending of a name says that the file is a container.
bool is_container_name(std::filesystem::path const& path);

} // namespace varve
