#pragma once

#include <filesystem>

namespace varve {

/// Writes the seeds of the targets that read files of other programs: folders below FOLDER.
void write_foreign_seeds(std::filesystem::path const& folder);

} // namespace varve
