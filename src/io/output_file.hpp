#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace varve {

/// A file that appears whole or not at all: bytes go to PATH.partial-<pid> beside it, commit() renames. Destroyed
/// without commit(), it removes what was written and leaves an older file of that name alone. A PATH that exists and is
/// neither file nor folder (a pipe, /dev/null) is written directly; a symbolic link is followed.
class OutputFile {
public:
  /// Creates the partial file. Throws UsageError if PATH is a folder, ResourceError if it cannot be created.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;

  /// Appends bytes. Throws ResourceError if the disk is full or fails.
  void write(std::string_view bytes);

  /// Makes the file appear under its name. Throws ResourceError if that fails.
  void commit();

  std::filesystem::path const& path() const { return path_; }            ///< the final name
  std::filesystem::path const& partial_path() const { return partial_; } ///< for libraries that write by name

private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// Throws what OutputFile(path) would, and leaves nothing behind: for outputs that are written much later.
void require_writable(std::filesystem::path const& path);

/// A folder that appears whole or not at all: files are written into partial_path(), commit() renames it.
class OutputFolder {
public:
  /// Creates the partial folder. Throws UsageError if PATH is a file or a folder that is not empty, ResourceError if
  /// the folder cannot be created.
  explicit OutputFolder(std::filesystem::path path);
  ~OutputFolder();
  OutputFolder(OutputFolder const&) = delete;
  OutputFolder& operator=(OutputFolder const&) = delete;

  /// Makes the folder appear under its name. Throws ResourceError if that fails.
  void commit();

  std::filesystem::path const& path() const { return path_; }
  std::filesystem::path const& partial_path() const { return partial_; }

private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  bool committed_ = false;
};

} // namespace varve
