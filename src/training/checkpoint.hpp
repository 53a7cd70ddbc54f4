#pragma once

#include "io/network_file.hpp"
#include "network/network.hpp"
#include "training/trainer.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace varve {

/// A network in training, with all that is needed to continue with the same bits and to give the same results.
struct Checkpoint {
  Network network;
  TrainingRecord record;
  std::shared_ptr<Network const> best =
      {}; ///< of the best epoch; null: none, the network itself, or unknown (Varve 0.2)
};

/// The present state of a training: of a trainer with this recipe (JSON), and of its engine.
Checkpoint checkpoint_of(Trainer const& trainer, std::string recipe, Network network, OptimizerState state);

/// Lets a trainer and its engine go on from a checkpoint, which is of this name. Throws InputError if it does not fit.
void resume(Trainer& trainer, Training& engine, Checkpoint checkpoint, std::string const& place);

/// Writes a checkpoint. An existing file of that name becomes FILE.previous when the new one is complete, right before
/// that takes its place, so that one whole checkpoint exists whenever the process is killed. Throws what OutputFile
/// throws; if an input has changed since it was read, FILE and FILE.previous stay as they are.
void write_checkpoint(std::filesystem::path const& path, Checkpoint const& checkpoint);

/// The path FILE.previous.
std::filesystem::path previous_generation(std::filesystem::path const& path);

/// Reads the checkpoint in this file, or, if that cannot be read, in its previous generation; nullopt if neither file
/// exists. If it reads the previous generation, it passes the reason to `complain`. Throws InputError if files exist
/// but none can be read.
std::optional<Checkpoint> read_checkpoint(std::filesystem::path const& path,
                                          std::function<void(std::string const&)> const& complain);

/// Throws InputError unless the checkpoint's layers have the pattern and activation of those of `network`. If the
/// pattern changes in training (has_changes), only the numbers of inputs, outputs and edges must be equal.
void require_same_shape(Checkpoint const& checkpoint, Network const& network, std::string const& place,
                        bool has_changes = false);

/// The path FILE.lock beside a checkpoint FILE.
std::filesystem::path lock_of_checkpoint(std::filesystem::path const& path);

/// Keeps other runs away from a checkpoint during its lifetime. It locks (flock) the empty file FILE.lock, because FILE
/// itself is replaced again and again, and removes it at the end; a killed run leaves it behind, unlocked.
class CheckpointLock {
public:
  /// Waits up to this many seconds for another run, whose launcher may have been killed, to end. Throws InputError if
  /// the checkpoint stays in use, ResourceError if FILE.lock cannot be created. File systems without locks are
  /// accepted.
  explicit CheckpointLock(std::filesystem::path const& path, double patience = 10.0);
  ~CheckpointLock();
  CheckpointLock(CheckpointLock const&) = delete;
  CheckpointLock& operator=(CheckpointLock const&) = delete;

private:
  bool is_taken_by_this() const;

  std::filesystem::path name_;
  int descriptor_ = -1;
};

} // namespace varve
