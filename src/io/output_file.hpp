#pragma once

#include "io/whole_bytes.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace varve {

/// Throws ResourceError "PATH cannot be written: " and what the system says of the error (errno).
[[noreturn]] void fail_to_write(std::filesystem::path const& path, int error);
[[noreturn]] void fail_to_write(std::filesystem::path const& path, std::string_view why); ///< or why

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

/// Whether a file appears on its own commit(), or together with the OutputFolder whose partial_path() contains it.
enum class Appears { by_itself, with_folder };

/// What becomes PATH: a file or folder PATH.partial-<16 random hexadecimal digits> beside it (output_file.cpp).
class PartialOutput;

/// A file that appears whole or not at all: bytes go to a PartialOutput beside it, and commit() renames that. Without
/// commit(), the destructor removes what was written and leaves an existing file of that name unchanged. If PATH is
/// neither a regular file nor a folder (a pipe, /dev/null), it is written directly; symbolic links are followed.
class OutputFile {
public:
  /// Creates the partial file. Throws UsageError if PATH is a folder, ResourceError if the file cannot be created.
  explicit OutputFile(std::filesystem::path path, Appears appears = Appears::by_itself);
  ~OutputFile();
  OutputFile(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;

  /// Appends bytes. Throws ResourceError if the disk is full or fails.
  void write(std::string_view bytes);

  /// Syncs the file to the disk and makes it appear under its name. Throws ResourceError if that fails, or if the file
  /// has not as many bytes as write() was given; InputError if an input has changed since it was read (see InputFiles).
  void commit();

  /// The same for a file that was written by its partial name and is closed. are_in(partial_path()) reads back all of
  /// it and returns false, or throws InputError, unless it is what was written, whatever calls have returned until
  /// then; that becomes a ResourceError. Not called for a file that is written directly.
  void commit(std::function<bool(std::filesystem::path const&)> const& are_in);

  std::filesystem::path const& path() const { return path_; } ///< the final name

  /// The name to write to, for libraries that open files by name.
  std::filesystem::path const& partial_path() const;

private:
  int descriptor() const;
  void require_all_bytes() const;
  void appear();

  std::filesystem::path path_;
  std::unique_ptr<PartialOutput> partial_; ///< null if the file is written directly
  Descriptor direct_{-1};                  ///< for a file that is
  std::uint64_t num_bytes_ = 0;            ///< given to write()
  bool is_in_folder_ = false;
  bool is_committed_ = false;
};

/// Opens a new file in this folder for reading and writing. The file has no name, so it disappears with its descriptor
/// however the process ends. Throws ResourceError, naming the folder.
Descriptor open_temporary_file(std::filesystem::path const& folder);

/// Throws what OutputFile(path) would throw and leaves nothing behind. For outputs that are written much later.
void require_writable(std::filesystem::path const& path);

/// Throws ResourceError if the name is that of a pipe or a device, whose bytes cannot be read back.
void require_file_to_read_back(std::filesystem::path const& path);

/// The file or folder that the name of an output refers to: symbolic links are followed, a trailing separator is
/// removed. Throws UsageError if the name is empty, ResourceError if the links form a cycle.
std::filesystem::path target_of(std::filesystem::path path);

/// A folder that appears whole or not at all: files are written into partial_path(), and commit() renames that.
class OutputFolder {
public:
  /// Creates the partial folder. Throws UsageError if PATH is a file or a non-empty folder, ResourceError if the folder
  /// cannot be created.
  explicit OutputFolder(std::filesystem::path path);
  ~OutputFolder();

  /// Makes the folder appear under its name. Throws as OutputFile::commit does.
  void commit();

  std::filesystem::path const& partial_path() const;

private:
  std::filesystem::path path_;
  std::unique_ptr<PartialOutput> partial_;
};

} // namespace varve
