#pragma once

#include <filesystem>

namespace varve {

/// Opens a new file in this folder for reading and writing. The file has no name, so it disappears with its descriptor
/// however the process ends. Throws ResourceError, naming the folder. The caller closes the descriptor.
int open_temporary_file(std::filesystem::path const& folder);

} // namespace varve
