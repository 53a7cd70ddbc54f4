#pragma once

#include "io/hdf5_guard.hpp"

#include <filesystem>
#include <string>

namespace varve {

/// The attribute `format` of an HDF5 file; empty if it has none, as files of other programs. Call it under
/// hdf5::guarded.
std::string declared_format(std::filesystem::path const& path);

/// True if an HDF5 file declares that it holds samples. Call it under hdf5::guarded.
bool says_samples(std::filesystem::path const& path);

/// The walk through all that Varve's readers read of an HDF5 file: of a network, of samples or of plain matrices,
/// whichever it declares to hold.
hdf5::Walk structure_walk(std::filesystem::path const& path);

} // namespace varve
