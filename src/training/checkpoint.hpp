#pragma once

#include "io/network_file.hpp"
#include "network/network.hpp"
#include "training/trainer.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace varve {

/// A network in training, with all that is needed to go on from there with the same bits.
struct Checkpoint {
  Network network;
  TrainingRecord record;
};

/// Writes a checkpoint. The file of that name, if there is one, becomes FILE.previous first, so that one whole
/// checkpoint is there at any time, whenever the process is killed. Throws as OutputFile does.
void write_checkpoint(std::filesystem::path const& path, Checkpoint const& checkpoint);

/// FILE.previous
std::filesystem::path previous_generation(std::filesystem::path const& path);

/// The checkpoint in this file, or else in its previous generation; nullopt if there is neither. `complain` hears why
/// the file could not be read where the previous one is taken. Throws InputError if neither can be read.
std::optional<Checkpoint> read_checkpoint(std::filesystem::path const& path,
                                          std::function<void(std::string const&)> const& complain);

/// Throws InputError unless the checkpoint's layers have the pattern and activation of those of `network`.
void require_same_shape(Checkpoint const& checkpoint, Network const& network, std::string const& place);

} // namespace varve
