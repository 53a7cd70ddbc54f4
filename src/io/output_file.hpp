#pragma once

#include "io/partial_output.hpp"

#include <filesystem>
#include <optional>
#include <string_view>

namespace varve {

/// Whether a file appears when it is committed, or with the OutputFolder in whose partial_path() it lies.
enum class Appears { by_itself, with_folder };

/// A file that appears whole or not at all: bytes go to a PartialOutput beside it, commit() renames. Destroyed
/// without commit(), it removes what was written and leaves an older file of that name alone. A PATH that exists and is
/// neither file nor folder (a pipe, /dev/null) is written directly; a symbolic link is followed.
class OutputFile {
public:
  /// Creates the partial file. Throws UsageError if PATH is a folder, ResourceError if it cannot be created.
  explicit OutputFile(std::filesystem::path path, Appears appears = Appears::by_itself);
  ~OutputFile();
  OutputFile(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;

  /// Appends bytes. Throws ResourceError if the disk is full or fails.
  void write(std::string_view bytes);

  /// Makes the file appear under its name, once it is on the disk. Throws ResourceError if that fails, and InputError
  /// if an input has changed since it was read (see InputFiles).
  void commit();

  std::filesystem::path const& path() const { return path_; } ///< the final name

  /// For libraries that write by name.
  std::filesystem::path const& partial_path() const { return partial_ ? partial_->name() : path_; }

private:
  std::filesystem::path path_;
  std::optional<PartialOutput> partial_; ///< not for what is written directly
  int descriptor_ = -1;
  bool is_in_folder_ = false;
  bool is_committed_ = false;
};

/// Throws what OutputFile(path) would, and leaves nothing behind: for outputs that are written much later.
void require_writable(std::filesystem::path const& path);

/// The file or folder that the name of an output stands for: links followed, no separator at the end. Throws UsageError
/// if the name is empty, ResourceError if links lead nowhere but to themselves.
std::filesystem::path target_of(std::filesystem::path path);

/// A folder that appears whole or not at all: files are written into partial_path(), commit() renames it.
class OutputFolder {
public:
  /// Creates the partial folder. Throws UsageError if PATH is a file or a folder that is not empty, ResourceError if
  /// the folder cannot be created.
  explicit OutputFolder(std::filesystem::path path);

  /// Makes the folder appear under its name. Throws as OutputFile::commit does.
  void commit();

  std::filesystem::path const& path() const { return path_; }
  std::filesystem::path const& partial_path() const { return partial_->name(); }

private:
  std::filesystem::path path_;
  std::optional<PartialOutput> partial_;
};

} // namespace varve
