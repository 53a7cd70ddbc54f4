#pragma once

#include <filesystem>

namespace varve {

/// Opens a new file in this folder to read and write; it has no name, so that it goes with its descriptor, however the
/// process ends. Throws ResourceError, naming the folder. The caller closes the descriptor.
int open_temporary_file(std::filesystem::path const& folder);

} // namespace varve
