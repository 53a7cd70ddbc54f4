#include "io/file_roles.hpp"

#include "core/error.hpp"
#include "io/challenge.hpp"
#include "io/input_files.hpp"
#include "io/output_file.hpp"
#include "io/text_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// The endings that fit a content, and what the error says of others.
struct Endings {
  Content content;
  std::string_view own;
  char const* what;
  char const* expected;
};
constexpr std::array all_endings = {
    Endings{Content::container, ".safetensors", "safetensors are written", ".safetensors"},
    Endings{Content::lines, ".tsv .txt .csv .tab", "lines of numbers are written",
            ".tsv, .tsv.gz, .tsv.xz or .tsv.zst"},
    Endings{Content::plain_lines, ".tsv .txt .csv .tab", "lines that are not compressed are written", ".tsv"},
    Endings{Content::json, ".json .jsonl", "JSON is written", ".json"},
    Endings{Content::journal, ".journal", "a journal is written", ".journal"}};

/// The endings of formats that nothing is written in, compression included.
constexpr std::string_view endings_of_others = ".gz .xz .zst .bz2 .lz4 .lzma .z .zip .7z .tar .tgz .npy .npz .mtx .mat "
                                               ".onnx .h5 .hdf5 .hdf .he5 .pt .pth .parquet "
                                               ".arrow .md .html .htm .xml .yaml .yml .toml .pdf .png .svg .jpg";

/// Throws UsageError, which begins with `shown`, if the ending of a file name belongs to a format other than that of
/// the content, whether it is written in capitals or not. Unknown endings fit every content, and network_or_samples
/// takes all endings, because there they choose the format.
void require_fitting_ending(std::string const& shown, fs::path const& path, Content content) {
  auto const endings = std::ranges::find(all_endings, content, &Endings::content);
  if (endings == all_endings.end()) return; // unknown endings of networks and samples are refused later
  // of lines with the ending of a compression that is carried out, the ending before that one counts
  bool const is_compressed = content == Content::lines && compression_of_name(path) != Compression::none;
  auto ending = (is_compressed ? path.stem() : path).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) { return std::tolower(letter); });
  auto const is_among = [&](std::string_view list) {
    auto const words = words_of(list);
    return std::ranges::find(words, ending) != words.end();
  };
  bool const is_known = is_among(endings_of_others) || std::ranges::any_of(all_endings, is_among, &Endings::own);
  if (!is_known || is_among(endings->own)) return;
  fail<UsageError>("{} has an ending of another format: {}, expected {}", shown, endings->what, endings->expected);
}

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

/// The layer files in a folder and in its sub-folders; none if it is no folder.
std::vector<fs::path> layer_files_below(fs::path const& folder) {
  constexpr auto options =
      fs::directory_options::follow_directory_symlink | fs::directory_options::skip_permission_denied;
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, options, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry.depth() > 0) entry.disable_recursion_pending();
    if (is_layer_file_name(entry->path().filename().string())) files.push_back(entry->path());
  }
  return files;
}

/// The input and, if it is a network of several files, those files.
std::vector<FileIdentity> files_of_input(fs::path const& input) {
  std::vector<FileIdentity> files = {file_identity(input)};
  for (auto const& file : layer_files_below(input)) files.push_back(file_identity(file));
  return files;
}

/// True if `output` would replace or add a file of the network in `folder`: it lies in that folder, or in a sub-folder
/// and has the name of a layer file. (Where a folder holds other files besides, they decide what network it is.)
bool lies_in_network(FileIdentity const& output, fs::path const& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  auto const parent = output.path.parent_path();
  if (parent == folder) return true;
  return parent.parent_path() == folder && is_layer_file_name(output.path.filename().string());
}

/// The first pipe that an input is or, if it is the folder of a network, holds, there or among the layer files of its
/// sub-folders. Opens no pipe.
std::optional<fs::path> pipe_of_input(fs::path const& input) {
  std::error_code error;
  auto files = layer_files_below(input);
  for (fs::directory_iterator entry(input, error), end; !error && entry != end; entry.increment(error))
    files.push_back(entry->path());
  files.push_back(input);
  auto const pipe = std::ranges::find_if(files, is_pipe);
  return pipe == files.end() ? std::nullopt : std::optional(*pipe);
}

/// True if `file` is `folder` or lies below it.
bool lies_at_or_below(fs::path const& file, fs::path const& folder) {
  return std::ranges::mismatch(folder, file).in1 == folder.end();
}

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

} // namespace

void FileRoles::require_sound() const {
  auto const streams = files_of_streams();
  std::vector<std::vector<FileIdentity>> inputs; // each with its files
  for (auto const& input : inputs_) inputs.push_back(files_of_input(input.path));
  std::vector<FileIdentity> earlier;
  for (auto const& output : outputs_) {
    auto const here = file_identity(target_of(output.path));
    auto const collides = [&](FileIdentity const& other) {
      return are_one(here, other) || (output.content == Content::journal && is_journal_of_rank(other, here));
    };
    for (auto const& [name, stream] : streams) {
      if (!are_one(here, stream)) continue;
      fail<UsageError>("{} is the file that {} goes to; give it another name", output.shown(), name);
    }
    for (std::size_t number = 0; number < inputs.size(); ++number) {
      auto const& input = inputs_[number];
      if (std::ranges::any_of(inputs[number], collides)) {
        fail<UsageError>("{} would replace what {} reads; give it another name", output.shown(), input.shown());
      }
      if (lies_in_network(here, inputs[number].front().path)) {
        fail<UsageError>("{} would become a part of the folder that {} reads; give it another folder", output.shown(),
                         input.shown());
      }
    }
    require_fitting_ending(output.shown(), output.path, output.content);
    if (output.content == Content::container) require_file_to_read_back(output.path);
    for (std::size_t number = 0; number < earlier.size(); ++number) {
      auto const& other = outputs_[number];
      bool const is_journals = other.content == Content::journal && is_journal_of_rank(here, earlier[number]);
      if (!is_journals && !collides(earlier[number])) continue;
      fail<UsageError>("{} and {} are one file; give each its own", other.shown(), output.shown());
    }
    earlier.push_back(here);
  }
}

void FileRoles::require_readable_by(std::size_t num_ranks) const {
  if (num_ranks == 1) return;
  for (auto const& input : inputs_) {
    auto const pipe = pipe_of_input(input.path);
    if (!pipe) continue;
    auto const name = input.shown();
    auto const what = *pipe == input.path ? fmt::format("{} is a pipe", name)
                                          : fmt::format("{} reads the pipe {}", name, pipe->string());
    fail<InputError>("{}, which only one of {} ranks could read; give a file", what, num_ranks);
  }
}

std::vector<fs::path> FileRoles::remove_leftovers() const {
  std::vector<FileIdentity> needed; // collected once there is something to remove
  auto const collect_needed = [&] {
    for (auto const& input : inputs_) {
      auto const files = files_of_input(input.path);
      needed.insert(needed.end(), files.begin(), files.end());
    }
    for (auto const& output : outputs_) needed.push_back(file_identity(target_of(output.path)));
  };
  auto const is_needed = [&](fs::path const& left) {
    if (needed.empty()) collect_needed();
    auto const here = file_identity(left);
    return std::ranges::any_of(needed, [&](FileIdentity const& file) {
      return are_one(here, file) || lies_at_or_below(file.path, here.path);
    });
  };
  std::vector<fs::path> kept;
  for (auto const& output : outputs_) {
    if (output.content == Content::journal) continue; // journals grow in place
    auto const left = varve::remove_leftovers(target_of(output.path), is_needed);
    kept.insert(kept.end(), left.begin(), left.end());
  }
  return kept;
}

} // namespace varve
