#pragma once

#include <filesystem>

namespace varve {

/// Reads all metadata of an HDF5 file that any of Varve's readers reads: for hdf5::try_out, under its lock, before it
/// is known what the file holds. Throws InputError.
void walk_hdf5(std::filesystem::path const& path);

} // namespace varve
