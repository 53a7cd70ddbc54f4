#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

/// Loaded before a program, these take the place of the C library's functions. They count the calls about files in one
/// folder, and let one of them fail. The environment says how:
///   VARVE_CALLS_FOLDER  the folder; calls about other files are not counted
///   VARVE_CALLS_LOG     file to which each call is appended, a line "FUNCTION PATH"; a call that fails has "! " before
///   VARVE_CALLS_AT      number of the call that fails, from 1; not set: none
///   VARVE_CALLS_HOW     ENOSPC, EIO or EINTR: once; full: ENOSPC for this and all later calls that take room; short:
///   half
///                       of the bytes are read or written; lost: the bytes are not written, and the call says that they
///                       were
/// A program may also say so itself: varve_fail_call().
namespace {

enum class How { none, no_space, io_error, interrupted, full, half, lost };

How how_of(std::string_view word) {
  return word == "ENOSPC"  ? How::no_space
         : word == "EIO"   ? How::io_error
         : word == "EINTR" ? How::interrupted
         : word == "full"  ? How::full
         : word == "short" ? How::half
         : word == "lost"  ? How::lost
                           : How::none;
}

struct Settings {
  std::string folder;
  int log = -1;
  std::atomic<long> at = 0;
  std::atomic<How> how = How::none;

  Settings() {
    auto const variable = [](char const* name) {
      char const* const value = getenv(name);
      return std::string(value == nullptr ? "" : value);
    };
    folder = variable("VARVE_CALLS_FOLDER");
    if (auto const name = variable("VARVE_CALLS_LOG"); !name.empty())
      log = static_cast<int>(
          syscall(SYS_openat, AT_FDCWD, name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    at = std::atol(variable("VARVE_CALLS_AT").c_str());
    how = how_of(variable("VARVE_CALLS_HOW"));
  }
};

Settings& settings() {
  static auto* const all = new Settings; // never destroyed: files are closed while the program ends
  return *all;
}

std::atomic<long> num_calls = 0;
std::atomic<bool> is_full = false;

std::string path_of(int descriptor) {
  char path[PATH_MAX];
  auto const link = "/proc/self/fd/" + std::to_string(descriptor);
  auto const length = readlink(link.c_str(), path, sizeof(path));
  return {path, length < 0 ? 0 : static_cast<std::size_t>(length)};
}

/// Counts a call. Returns what is wrong with it, and sets errno. takes_room: a full disk refuses it.
How wrong_with(char const* function, std::string const& path, bool takes_room) {
  auto const& told = settings();
  if (told.folder.empty() || !path.starts_with(told.folder)) return How::none;
  bool const is_it = ++num_calls == told.at;
  if (is_it && told.how == How::full) is_full = true;
  auto how = is_it && told.how != How::full ? told.how.load() : How::none;
  if (is_full && takes_room) how = How::full;
  auto const line = (how == How::none ? "" : "! ") + std::string(function) + " " + path + "\n";
  if (told.log >= 0) syscall(SYS_write, told.log, line.data(), line.size());
  if (how != How::none) errno = how == How::io_error ? EIO : how == How::interrupted ? EINTR : ENOSPC;
  return how;
}

bool is_refused(How how) {
  return how == How::no_space || how == How::io_error || how == How::interrupted || how == How::full;
}

/// A call that gives or takes bytes, which `real` does for so many of them.
template <class Real>
ssize_t transfer(char const* function, int descriptor, std::size_t size, bool writes, Real const& real) {
  auto const how = wrong_with(function, path_of(descriptor), writes);
  if (is_refused(how)) return -1;
  if (how == How::lost && writes) return static_cast<ssize_t>(size);
  return real(how == How::half ? std::max<std::size_t>(1, size / 2) : size);
}

int open_file(char const* function, int folder, char const* name, int flags, mode_t mode) {
  bool const creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  if (is_refused(wrong_with(function, name, creates))) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, name, flags, mode));
}

mode_t mode_of(int flags, va_list& rest) {
  bool const has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

FILE* open_stream(char const* function, char const* name, char const* mode) {
  if (is_refused(wrong_with("open", name, false))) return nullptr;
  return reinterpret_cast<FILE* (*)(char const*, char const*)>(dlsym(RTLD_NEXT, function))(name, mode);
}

ssize_t write_some(int descriptor, void const* bytes, std::size_t size) {
  return transfer("write", descriptor, size, true,
                  [&](std::size_t part) { return syscall(SYS_write, descriptor, bytes, part); });
}

ssize_t write_some_at(int descriptor, void const* bytes, std::size_t size, off_t place) {
  return transfer("pwrite", descriptor, size, true,
                  [&](std::size_t part) { return syscall(SYS_pwrite64, descriptor, bytes, part, place); });
}

ssize_t read_some_at(int descriptor, void* bytes, std::size_t size, off_t place) {
  return transfer("pread", descriptor, size, false,
                  [&](std::size_t part) { return syscall(SYS_pread64, descriptor, bytes, part, place); });
}

/// Several pieces of memory at once; half of them is half of the first.
ssize_t write_pieces(char const* function, int descriptor, iovec const* pieces, int count, off_t place,
                     bool has_place) {
  std::size_t size = 0;
  for (int piece = 0; piece < count; ++piece) size += pieces[piece].iov_len;
  return transfer(function, descriptor, size, true, [&](std::size_t part) -> ssize_t {
    iovec const first{pieces[0].iov_base, std::min(part, pieces[0].iov_len)};
    auto const* const given = part < size ? &first : pieces;
    int const number = part < size ? 1 : count;
    return has_place ? syscall(SYS_pwritev, descriptor, given, number, place, 0)
                     : syscall(SYS_writev, descriptor, given, number);
  });
}

int set_length(int descriptor, off_t length) {
  if (is_refused(wrong_with("ftruncate", path_of(descriptor), true))) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, descriptor, length));
}

void* map(void* wanted, std::size_t size, int protection, int flags, int descriptor, off_t place) {
  bool const is_file = descriptor >= 0 && (flags & MAP_ANONYMOUS) == 0;
  if (is_file && is_refused(wrong_with("mmap", path_of(descriptor), false))) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, wanted, size, protection, flags, descriptor, place));
}

} // namespace

extern "C" {

/// Lets call number `at`, counted from now, fail in this way (0: none). Returns the number of calls counted before.
__attribute__((visibility("default"))) long varve_fail_call(long at, char const* how) {
  settings().at = at;
  settings().how = how_of(how);
  is_full = false;
  return num_calls.exchange(0);
}

int open(char const* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto const mode = mode_of(flags, rest);
  va_end(rest);
  return open_file("open", AT_FDCWD, name, flags, mode);
}

int open64(char const* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto const mode = mode_of(flags, rest);
  va_end(rest);
  return open_file("open", AT_FDCWD, name, flags, mode);
}

int openat(int folder, char const* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto const mode = mode_of(flags, rest);
  va_end(rest);
  return open_file("open", folder, name, flags, mode);
}

FILE* fopen(char const* name, char const* mode) { return open_stream("fopen", name, mode); }
FILE* fopen64(char const* name, char const* mode) { return open_stream("fopen64", name, mode); }

ssize_t read(int descriptor, void* bytes, std::size_t size) {
  return transfer("read", descriptor, size, false,
                  [&](std::size_t part) { return syscall(SYS_read, descriptor, bytes, part); });
}

ssize_t pread(int descriptor, void* bytes, std::size_t size, off_t place) {
  return read_some_at(descriptor, bytes, size, place);
}
ssize_t pread64(int descriptor, void* bytes, std::size_t size, off_t place) {
  return read_some_at(descriptor, bytes, size, place);
}

ssize_t write(int descriptor, void const* bytes, std::size_t size) { return write_some(descriptor, bytes, size); }
ssize_t pwrite(int descriptor, void const* bytes, std::size_t size, off_t place) {
  return write_some_at(descriptor, bytes, size, place);
}
ssize_t pwrite64(int descriptor, void const* bytes, std::size_t size, off_t place) {
  return write_some_at(descriptor, bytes, size, place);
}

ssize_t writev(int descriptor, iovec const* pieces, int count) {
  return write_pieces("writev", descriptor, pieces, count, 0, false);
}
ssize_t pwritev(int descriptor, iovec const* pieces, int count, off_t place) {
  return write_pieces("pwritev", descriptor, pieces, count, place, true);
}
ssize_t pwritev64(int descriptor, iovec const* pieces, int count, off_t place) {
  return write_pieces("pwritev", descriptor, pieces, count, place, true);
}

int ftruncate(int descriptor, off_t length) noexcept { return set_length(descriptor, length); }
int ftruncate64(int descriptor, off_t length) noexcept { return set_length(descriptor, length); }

int fsync(int descriptor) {
  if (is_refused(wrong_with("fsync", path_of(descriptor), false))) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

/// As in Linux, the descriptor is closed even if the call fails.
int close(int descriptor) {
  auto const how = wrong_with("close", path_of(descriptor), false);
  int const error = errno;
  int const status = static_cast<int>(syscall(SYS_close, descriptor));
  if (!is_refused(how)) return status;
  errno = error;
  return -1;
}

int mkdir(char const* name, mode_t mode) noexcept {
  if (is_refused(wrong_with("mkdir", name, true))) return -1;
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, name, mode));
}

int rename(char const* from, char const* to) noexcept {
  if (is_refused(wrong_with("rename", from, true))) return -1;
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

void* mmap(void* wanted, std::size_t size, int protection, int flags, int descriptor, off_t place) noexcept {
  return map(wanted, size, protection, flags, descriptor, place);
}
void* mmap64(void* wanted, std::size_t size, int protection, int flags, int descriptor, off_t place) noexcept {
  return map(wanted, size, protection, flags, descriptor, place);
}
}
