#include "io/input_files.hpp"

#include "core/error.hpp"
#include "io/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// Identifies a file: device and inode.
using Identity = std::pair<dev_t, ino_t>;

Identity identity_of(struct stat const& status) { return {status.st_dev, status.st_ino}; }

/// The inputs of this process that are being watched.
struct Watched {
  std::mutex guard;
  bool is_on = false;
  std::map<fs::path, struct stat> files; ///< state of each file when it was first opened
  std::map<Identity, Descriptor> pipes;  ///< the temporary files that hold the bytes of pipes
};

Watched& watched() {
  static Watched all;
  return all;
}

std::string what_differs(struct stat const& first, struct stat const& now) {
  if (identity_of(first) != identity_of(now)) return "it is another file now";
  if (first.st_size != now.st_size) return fmt::format("it had {} bytes and has {} now", first.st_size, now.st_size);
  bool const is_same_time = first.st_mtim.tv_sec == now.st_mtim.tv_sec && first.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
  return is_same_time ? "" : "it was written meanwhile";
}

/// Throws InputError if a file is no longer what it was when it was first opened.
void require_same(fs::path const& path, struct stat const& first) {
  struct stat now {};
  auto const what = stat(path.c_str(), &now) == 0 ? what_differs(first, now) : std::strerror(errno);
  if (!what.empty()) fail<InputError>("{} changed while it was read: {}", path.string(), what);
}

/// Opens a pipe for reading. One that this process holds already, as /dev/stdin or /dev/fd/N name it, is taken as it
/// is: to open a named pipe a second time would wait for a second writer.
int open_pipe(fs::path const& path) {
  std::string const name = path == "/dev/stdin" ? "/dev/fd/0" : path.string();
  for (std::string const folder : {"/dev/fd/", "/proc/self/fd/"}) {
    auto const number = name.starts_with(folder) ? name.substr(folder.size()) : "";
    if (number.empty() || number.size() > 6 || number.find_first_not_of("0123456789") != std::string::npos) continue;
    return fcntl(std::stoi(number), F_DUPFD_CLOEXEC, 0);
  }
  return open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

/// Copies a pipe, to its end, into a temporary file and returns that.
Descriptor keep_bytes_of_pipe(fs::path const& path) {
  std::error_code error;
  auto folder = fs::temp_directory_path(error);
  if (error) folder = "/tmp";
  Descriptor const pipe(open_pipe(path));
  if (pipe.number() < 0) fail_to_read(path, errno);
  auto kept = open_temporary_file(folder);
  std::vector<char> buffer(std::size_t{1} << 18);
  for (;;) {
    auto const count = read(pipe.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_read(path, errno);
    if (count == 0) return kept;
    if (write_all(kept.number(), {buffer.data(), static_cast<std::size_t>(count)})) continue;
    fail<ResourceError>(
        "{} is a pipe, and its bytes cannot be kept in the folder {}: {}; set TMPDIR to a folder with more room",
        path.string(), folder.string(), std::strerror(errno));
  }
}

void require_file_or_pipe(fs::path const& path, struct stat const& status) {
  auto const refuse = [&](char const* what) {
    fail<InputError>("{} is {}, expected a file or a pipe", path.string(), what);
  };
  bool const is_empty_device = S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3); // /dev/null
  if ((S_ISCHR(status.st_mode) && !is_empty_device) || S_ISBLK(status.st_mode)) refuse("a device");
  if (S_ISSOCK(status.st_mode)) refuse("a socket");
}

} // namespace

InputFiles::InputFiles() {
  auto& all = watched();
  std::lock_guard const lock(all.guard);
  VARVE_REQUIRE(!std::exchange(all.is_on, true), "inputs are watched twice");
}

InputFiles::~InputFiles() {
  auto& all = watched();
  std::lock_guard const lock(all.guard);
  all.pipes.clear();
  all.files.clear();
  all.is_on = false;
}

fs::path readable_place(fs::path const& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return path;
  require_file_or_pipe(path, status);
  auto& all = watched();
  std::lock_guard const lock(all.guard);
  if (!all.is_on) return path;
  if (S_ISREG(status.st_mode)) {
    auto const [place, is_new] = all.files.emplace(path, status);
    if (!is_new) require_same(path, place->second);
  }
  if (!S_ISFIFO(status.st_mode)) return path;
  auto const identity = identity_of(status);
  if (!all.pipes.contains(identity)) all.pipes.emplace(identity, keep_bytes_of_pipe(path));
  return fmt::format("/proc/self/fd/{}", all.pipes.at(identity).number());
}

void fail_to_read(fs::path const& path, int error) {
  fail<InputError>("{} cannot be read: {}", path.string(), std::strerror(error));
}

Descriptor open_input(fs::path const& path) {
  Descriptor file(open(readable_place(path).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) fail_to_read(path, errno);
  struct stat status {};
  if (fstat(file.number(), &status) == 0 && S_ISDIR(status.st_mode))
    fail<InputError>("{} is a folder, expected a file", path.string());
  return file;
}

std::string bytes_of_file(fs::path const& path, std::uint64_t first, std::size_t count) {
  Descriptor const file(open(readable_place(path).c_str(), O_RDONLY | O_CLOEXEC));
  bool const is_missing = file.number() < 0 && (errno == ENOENT || errno == ENOTDIR);
  if (is_missing) return {};
  if (file.number() < 0) fail_to_read(path, errno);
  std::string bytes(count, '\0');
  auto const found = read_at(file.number(), first, bytes.data(), count);
  if (found < 0 && errno != EISDIR) fail_to_read(path, errno);
  bytes.resize(static_cast<std::size_t>(std::max<std::int64_t>(found, 0)));
  return bytes;
}

bool is_pipe(fs::path const& path) {
  std::error_code error;
  return fs::is_fifo(path, error);
}

void release_input(fs::path const& path) {
  auto& all = watched();
  std::lock_guard const lock(all.guard);
  auto const file = all.files.find(path);
  if (file == all.files.end()) return;
  require_same(path, file->second);
  all.files.erase(file);
}

void require_unchanged_inputs() {
  auto& all = watched();
  std::lock_guard const lock(all.guard);
  for (auto const& [path, first] : all.files) require_same(path, first);
}

} // namespace varve
