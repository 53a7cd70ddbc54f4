#pragma once

#include "io/hdf5.hpp"
#include "io/network_file.hpp"

#include <cstdint>
#include <filesystem>

namespace varve {

/// Writes the group `training` into an open network file. Hold hdf5::lock().
void write_training_record(hid_t file, TrainingRecord const& record, std::filesystem::path const& path);

/// A checksum of all that a record holds, and of the one in a network file. The latter needs memory for one layer.
/// Throws as read_training_record() does.
std::uint64_t sum_of(TrainingRecord const& record);
std::uint64_t sum_of_training_record(std::filesystem::path const& path);

} // namespace varve
