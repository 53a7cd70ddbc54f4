#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace varve::hdf5 {

/// Creates a file like create_file(), but in this one HDF5 only reserves the room of elements: H5Dwrite_chunk gives a
/// chunk its place in the file and in the index, and its bytes are dropped. The caller writes them itself, to
/// reserved_places(), before or after the file is closed; HDF5 writes one chunk at a time on one thread. A chunk that
/// is never written holds zeros, which is also what a chunk of zeros with its Fletcher-32 checksum looks like.
/// `path` is named in errors. Throws ResourceError.
File create_reserving_file(std::filesystem::path const& partial, std::filesystem::path const& path);

/// The addresses of the chunks that were written to such a file, in the order of the writes. The first element of the
/// file has address 0.
std::vector<std::uint64_t> reserved_places(File const& file, std::filesystem::path const& path);

/// The system's error (errno) behind a failure since the last such file was created, which HDF5 does not tell; then 0.
int take_reserving_error();

} // namespace varve::hdf5
