#include "io/file_roles.hpp"

#include "core/error.hpp"
#include "io/challenge.hpp"
#include "io/input_files.hpp"
#include "io/layer_description.hpp"
#include "io/layer_list.hpp"
#include "io/output_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// Determines whether two names refer to the same file.
struct FileIdentity {
  fs::path path;                                ///< absolute, without links
  std::optional<std::pair<dev_t, ino_t>> inode; ///< set if the file exists
  bool is_device = false;                       ///< true for /dev/null and terminals, where nothing can be overwritten
};

FileIdentity file_identity(fs::path const& path) {
  std::error_code error;
  FileIdentity identity;
  identity.path = fs::weakly_canonical(path, error);
  if (error) identity.path = fs::absolute(path, error).lexically_normal();
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return identity;
  identity.inode = {status.st_dev, status.st_ino};
  identity.is_device = S_ISCHR(status.st_mode);
  return identity;
}

bool are_one(FileIdentity const& left, FileIdentity const& right) {
  if (left.is_device || right.is_device) return false;
  return left.path == right.path || (left.inode && left.inode == right.inode);
}

/// True for FILE.1, FILE.2, ..., the journals of other ranks beside the journal FILE.
bool is_journal_of_rank(FileIdentity const& file, FileIdentity const& journal) {
  auto const name = file.path.string();
  auto const begin = journal.path.string() + ".";
  return name.starts_with(begin) && name.size() > begin.size() &&
         name.find_first_not_of("0123456789", begin.size()) == std::string::npos;
}

/// The layer files in a folder and in its sub-folders.
std::vector<fs::path> layer_files_below(fs::path const& folder, bool may_descend = true) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code no_folder;
    if (is_layer_file_name(entry->path().filename().string())) {
      files.push_back(entry->path());
    } else if (may_descend && entry->is_directory(no_folder)) {
      auto const below = layer_files_below(entry->path(), false);
      files.insert(files.end(), below.begin(), below.end());
    }
  }
  return files;
}

/// The files of other programs that a network or samples of this name consist of; none if they cannot be read, which
/// opening them reports.
std::vector<fs::path> files_of_list(fs::path const& path) {
  std::error_code error;
  try {
    bool const can_be_list =
        fs::is_directory(path, error) || (fs::is_regular_file(path, error) && is_layer_description(path));
    return can_be_list && is_layer_list(path) ? layer_list_files(path) : std::vector<fs::path>();
  } catch (Error const&) {
    return {};
  }
}

/// True if writing `output` would replace or add a layer file of the network in `folder`.
bool is_part_of_network(FileIdentity const& output, fs::path const& folder) {
  auto const is_output = [&](fs::path const& file) {
    struct stat status {};
    return stat(file.c_str(), &status) == 0 && output.inode == std::pair(status.st_dev, status.st_ino);
  };
  if (output.inode && std::ranges::any_of(layer_files_below(folder), is_output)) return true;
  if (!is_layer_file_name(output.path.filename().string())) return false;
  auto const network = file_identity(folder).path;
  return output.path.parent_path() == network || output.path.parent_path().parent_path() == network;
}

std::string shown(std::string const& role, fs::path const& path) { return fmt::format("{} {}", role, path.string()); }

/// The regular files that standard output and standard error are redirected to.
std::vector<std::pair<char const*, FileIdentity>> files_of_streams() {
  std::vector<std::pair<char const*, FileIdentity>> streams;
  for (auto const& [descriptor, name] :
       {std::pair(STDOUT_FILENO, "standard output"), std::pair(STDERR_FILENO, "standard error")}) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    streams.emplace_back(name, FileIdentity{{}, std::pair(status.st_dev, status.st_ino), false});
  }
  return streams;
}

bool is_one_of(std::string const& ending, std::vector<std::string_view> const& endings) {
  return std::ranges::find(endings, ending) != endings.end();
}

/// Throws UsageError if the ending of a file name belongs to a format other than that of the content.
void require_fitting_ending(std::string const& role, fs::path const& path, Content content) {
  bool const is_compressed = compression_of_name(path) != Compression::none;
  auto const ending = is_compressed ? path.stem().extension().string() : path.extension().string();
  bool const names_hdf5 = is_one_of(ending, {".h5", ".hdf5"});
  bool const names_json = ending == ".json";
  bool const names_lines = is_one_of(ending, {".tsv", ".txt", ".csv"});
  auto const require = [&](bool fits, char const* what, char const* expected) {
    if (fits) return;
    throw UsageError(
        fmt::format("{} has an ending of another format: {}, expected {}", shown(role, path), what, expected));
  };
  switch (content) {
  case Content::network_or_samples:
    return; // the ending chooses the format; unknown endings are refused later
  case Content::hdf5:
    return require(!is_compressed && !names_json && !names_lines, "HDF5 is written", ".h5 or .hdf5");
  case Content::lines:
    return require(!names_hdf5 && !names_json, "lines of numbers are written", ".tsv, .tsv.gz, .tsv.xz or .tsv.zst");
  case Content::json:
    return require(!is_compressed && !names_hdf5 && !names_lines, "JSON is written", ".json");
  case Content::journal:
    return require(!is_compressed && !names_hdf5 && !names_json && !names_lines, "a journal is written", ".journal");
  }
}

} // namespace

void FileRoles::reads(std::string const& role, fs::path const& path) {
  if (!path.empty()) inputs_.push_back({role, path});
}

void FileRoles::writes(std::string const& role, fs::path const& path, Content content) {
  if (!path.empty()) outputs_.push_back({role, path, content});
}

void FileRoles::require_sound() const {
  auto const streams = files_of_streams();
  std::vector<FileIdentity> earlier;
  for (auto const& output : outputs_) {
    require_fitting_ending(output.role, output.path, output.content);
    auto const here = file_identity(target_of(output.path));
    auto const collides = [&](FileIdentity const& other) {
      return are_one(here, other) || (output.content == Content::journal && is_journal_of_rank(other, here));
    };
    for (auto const& [name, stream] : streams) {
      if (!are_one(here, stream)) continue;
      throw UsageError(
          fmt::format("{} is the file that {} goes to; give it another name", shown(output.role, output.path), name));
    }
    for (auto const& input : inputs_) {
      std::error_code error;
      bool const is_network = fs::is_directory(input.path, error) && is_part_of_network(here, input.path);
      bool const is_listed = std::ranges::any_of(
          files_of_list(input.path), [&](fs::path const& file) { return are_one(here, file_identity(file)); });
      if (!is_network && !is_listed && !collides(file_identity(input.path))) continue;
      throw UsageError(fmt::format("{} would replace what {} reads; give it another name",
                                   shown(output.role, output.path), shown(input.role, input.path)));
    }
    for (std::size_t number = 0; number < earlier.size(); ++number) {
      auto const& other = outputs_[number];
      bool const is_journals = other.content == Content::journal && is_journal_of_rank(here, earlier[number]);
      if (!is_journals && !collides(earlier[number])) continue;
      throw UsageError(fmt::format("{} and {} are one file; give each its own", shown(other.role, other.path),
                                   shown(output.role, output.path)));
    }
    earlier.push_back(here);
  }
}

void FileRoles::require_readable_by(std::size_t num_ranks) const {
  for (auto const& input : inputs_) {
    if (num_ranks == 1 || !is_pipe(input.path)) continue;
    throw InputError(fmt::format("{} is a pipe, which only one of {} ranks could read; give a file",
                                 shown(input.role, input.path), num_ranks));
  }
}

std::vector<fs::path> FileRoles::remove_leftovers() const {
  std::vector<fs::path> kept;
  for (auto const& output : outputs_) {
    if (output.content == Content::journal) continue; // journals grow in place
    auto const left = varve::remove_leftovers(target_of(output.path));
    kept.insert(kept.end(), left.begin(), left.end());
  }
  return kept;
}

} // namespace varve
