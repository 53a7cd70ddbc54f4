#pragma once

#include <filesystem>
#include <vector>

namespace varve {

/// A file or folder that is written under the name PATH.partial-<16 random hexadecimal digits> beside PATH, to be
/// renamed once it is whole. It is locked (flock) while it lives, so that what a killed process left is told from what
/// another process is writing.
class PartialOutput {
public:
  enum class Kind { file, folder };

  /// Creates it, empty; never follows a link and never takes over what exists. Throws ResourceError, naming PATH.
  PartialOutput(std::filesystem::path const& path, Kind kind);

  /// Removes it, unless it has appeared.
  ~PartialOutput();
  PartialOutput(PartialOutput const&) = delete;
  PartialOutput& operator=(PartialOutput const&) = delete;

  std::filesystem::path const& name() const { return name_; }
  int descriptor() const { return descriptor_; } ///< of a file: open to write

  /// Brings it to the disk, renames it to PATH, and brings the new name to the disk. Throws ResourceError.
  void appear();

private:
  void create(Kind kind);

  std::filesystem::path path_;
  std::filesystem::path name_;
  int descriptor_ = -1;
};

/// Removes the partial files and folders of PATH that killed processes have left. Returns those that cannot be removed,
/// or that may belong to a living process because the file system has no locks.
std::vector<std::filesystem::path> remove_leftovers(std::filesystem::path const& path);

/// From now on signals that end the process (SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGXCPU, SIGPIPE) remove all
/// partial outputs of this process first. Signals that are ignored stay so. Call once, from the main thread.
void remove_partial_outputs_on_signals();

/// Brings the names within the folder that holds `file` to the disk.
void sync_folder_of(std::filesystem::path const& file);

} // namespace varve
