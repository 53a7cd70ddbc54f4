#pragma once

#include <filesystem>
#include <functional>
#include <vector>

namespace varve {

/// A file or folder that is written as PATH.partial-<16 random hexadecimal digits> beside PATH and renamed when
/// complete. It is locked (flock) during its lifetime, which distinguishes leftovers of a killed process from outputs
/// of a running one.
class PartialOutput {
public:
  enum class Kind { file, folder };

  /// Creates the empty partial output. It never follows a link and never reuses an existing file. Throws ResourceError,
  /// naming PATH.
  PartialOutput(std::filesystem::path const& path, Kind kind);

  /// Removes the partial output unless appear() was called.
  ~PartialOutput();
  PartialOutput(PartialOutput const&) = delete;
  PartialOutput& operator=(PartialOutput const&) = delete;

  std::filesystem::path const& name() const { return name_; }
  int descriptor() const { return descriptor_; } ///< descriptor of the partial file, open for writing

  /// Syncs the content to the disk, renames it to PATH, and syncs the new name. Throws ResourceError.
  void appear();

private:
  void create(Kind kind);

  std::filesystem::path path_;
  std::filesystem::path name_;
  int descriptor_ = -1;
};

/// Throws ResourceError "PATH cannot be written: " and what the system says of the error (errno).
[[noreturn]] void fail_to_write(std::filesystem::path const& path, int error);

/// Removes the partial files of PATH that killed processes left, and the partial folders that hold layer files
/// (nN-lK.tsv) or nothing; a folder of such a name that holds anything else is the user's, as is what `is_needed`
/// accepts. Returns those that cannot be removed, or that may belong to a running process because the file system has
/// no locks.
std::vector<std::filesystem::path>
remove_leftovers(std::filesystem::path const& path,
                 std::function<bool(std::filesystem::path const&)> const& is_needed = {});

/// Installs handlers that remove all partial outputs of this process before a signal ends it (SIGTERM, SIGINT, SIGHUP,
/// SIGQUIT, SIGUSR1, SIGXCPU, SIGPIPE). Ignored signals stay ignored. Call it once, from the main thread. Throws
/// ResourceError if the thread that waits for them cannot be started.
void remove_partial_outputs_on_signals();

/// Syncs the folder that contains `file`, so that its new name is on the disk. Throws ResourceError if the disk fails.
void sync_folder_of(std::filesystem::path const& file);

} // namespace varve
