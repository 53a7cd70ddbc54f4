#pragma once

#include <filesystem>

namespace varve {

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
  void open_file();
  bool is_taken_by_this() const;

  std::filesystem::path name_;
  int descriptor_ = -1;
};

} // namespace varve
