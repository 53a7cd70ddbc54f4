#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace varve {

/// What an output holds, as far as the ending of its name may contradict that.
enum class Content { network_or_samples, hdf5, lines, json, journal };

/// All files that one command reads and writes, with the options that name them: collected, and checked before anything
/// is read or written, so that nothing is lost.
class FileRoles {
public:
  /// `role` is the option, for messages; empty paths are left out.
  void reads(std::string const& role, std::filesystem::path const& path);
  void writes(std::string const& role, std::filesystem::path const& path, Content content);

  /// Throws UsageError if an output is an input or another output (by another name or link, too), lies among the layer
  /// files of a network that is read, is where standard output or standard error goes, or has an ending that belongs to
  /// another format; ResourceError if the name of an output is a link that leads back to itself.
  void require_sound() const;

  /// Throws InputError if an input is a pipe and there are several ranks: only one of them could read it.
  void require_readable_by(std::size_t num_ranks) const;

  /// Removes what killed runs left of these outputs. Returns what may belong to a run that lives.
  std::vector<std::filesystem::path> remove_leftovers() const;

private:
  struct File {
    std::string role;
    std::filesystem::path path;
    Content content = Content::lines;
  };

  std::vector<File> inputs_;
  std::vector<File> outputs_;
};

} // namespace varve
