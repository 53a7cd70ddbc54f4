#pragma once

#include "io/hdf5.hpp"
#include "io/network_file.hpp"

namespace varve {

/// Writes the group `training` into an open network file. Hold hdf5::lock().
void write_training_record(hid_t file, TrainingRecord const& record, std::filesystem::path const& path);

} // namespace varve
