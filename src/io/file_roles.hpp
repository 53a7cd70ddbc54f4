#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace varve {

/// The kind of content of an output; it decides which file name endings are refused. `lines` may be compressed, as the
/// ending says; `plain_lines` is never compressed.
enum class Content { network_or_samples, container, lines, plain_lines, json, journal };

/// All files that a command reads and writes, with the options that name them. They are collected and checked before
/// anything is read or written, so that no file is overwritten by mistake.
class FileRoles {
public:
  /// `role` is the option that names the file, for messages. Empty paths are ignored.
  void reads(std::string const& role, std::filesystem::path const& path) {
    if (!path.empty()) inputs_.push_back({role, path});
  }
  void writes(std::string const& role, std::filesystem::path const& path, Content content) {
    if (!path.empty()) outputs_.push_back({role, path, content});
  }

  /// Throws UsageError if an output is an input or another output (also under another name or through a link), lies in
  /// the folder of a network that is read, is the file that standard output or standard error goes to, or has the
  /// ending of another format. Throws ResourceError if the name of an output is a cyclic link, or a pipe or device
  /// where a file is to be read back.
  void require_sound() const;

  /// Throws InputError if an input, or a file of a network that is an input, is a pipe and there are several ranks,
  /// because only one rank could read it. Opens no pipe.
  void require_readable_by(std::size_t num_ranks) const;

  /// Removes the partial files that killed runs left beside these outputs, but for inputs and outputs of this run.
  /// Returns those it kept because they may belong to a live run.
  std::vector<std::filesystem::path> remove_leftovers() const;

private:
  struct File {
    std::string role;
    std::filesystem::path path;
    Content content = Content::lines;

    std::string shown() const { return role + " " + path.string(); } ///< for messages
  };

  std::vector<File> inputs_;
  std::vector<File> outputs_;
};

} // namespace varve
