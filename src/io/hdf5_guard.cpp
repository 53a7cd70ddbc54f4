#include "io/hdf5_guard.hpp"

#include "core/host.hpp"
#include "io/input_files.hpp"
#include "io/whole_bytes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace varve::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

/// Limits for a child process; reading the metadata of a good file needs a tiny part of them.
struct Limits {
  std::uint64_t memory_bytes = 64 * mebibyte; ///< in addition to what the process uses at the fork
  std::uint64_t cpu_seconds = 2;
  std::uint64_t clock_seconds = 30; ///< generous, because file systems may be slow
};

Limits limits_for(std::uint64_t file_size) {
  Limits limits;
  auto const growth = file_size / (16 * mebibyte);
  limits.memory_bytes += std::min(file_size, 1024 * mebibyte);
  limits.cpu_seconds += growth;
  limits.clock_seconds += 10 * growth;
  return limits;
}

/// Identifies a version of a file: device, inode, size and times.
using FileVersion = std::array<std::uint64_t, 7>;

FileVersion version_of(struct stat const& status) {
  auto const number = [](auto value) { return static_cast<std::uint64_t>(value); };
  return {number(status.st_dev),         number(status.st_ino),          number(status.st_size),
          number(status.st_mtim.tv_sec), number(status.st_mtim.tv_nsec), number(status.st_ctim.tv_sec),
          number(status.st_ctim.tv_nsec)};
}

/// The first byte of a child's report; a child that dies reports nothing.
enum class Verdict : char { fine = 'f', usage = 'u', input = 'i', memory = 'm' };

void set_limit(__rlimit_resource resource, std::uint64_t value) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = limit.rlim_max = std::min<rlim_t>(value, limit.rlim_max);
  setrlimit(resource, &limit);
}

bool is_in_child = false;

/// A file that was tried out: its path, its version, and what was walked through.
using TriedFile = std::tuple<std::string, FileVersion, std::string>;

/// Files that were tried out: null for a good file, else its error.
std::map<TriedFile, std::exception_ptr>& known_files() {
  static std::map<TriedFile, std::exception_ptr> known;
  return known;
}

std::string& needed_walk() {
  static std::string what;
  return what;
}

/// Shares of the walk through a file of this size: a small one is read faster than a process is forked.
std::size_t num_shares(std::uint64_t file_size) {
  constexpr std::uint64_t large = 8 * mebibyte;
  constexpr int most = 4;
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (file_size < large || sched_getaffinity(0, sizeof(processors), &processors) != 0) return 1;
  return static_cast<std::size_t>(std::clamp(CPU_COUNT(&processors), 1, most));
}

/// Runs in the child: silences what it says, lets every HDF5 crash end the process, and never returns.
[[noreturn]] void walk_and_exit(Walk const& walk, Share share, int descriptor, Limits const& limits) {
  for (int const signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM, SIGINT, SIGHUP, SIGPIPE})
    std::signal(signal, SIG_DFL);
  if (int const silence = open("/dev/null", O_RDWR); silence >= 0) {
    for (int const stream : {STDOUT_FILENO, STDERR_FILENO}) // /dev/stdin may name the file
      if (stream != descriptor) dup2(silence, stream);
  }
  is_in_child = true;
  auto const [all, data] = memory_in_use();
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_CPU, limits.cpu_seconds);
  set_limit(RLIMIT_DATA, data + limits.memory_bytes);
  // looser than RLIMIT_DATA, because reserved address space counts here
  set_limit(RLIMIT_AS, all + 4 * limits.memory_bytes);
  auto const say = [&](Verdict verdict, std::string_view sentence) {
    bool const is_said = write_all(descriptor, fmt::format("{}{}", static_cast<char>(verdict), sentence));
    _exit(is_said ? 0 : 1);
  };
  try {
    walk.run(share);
    say(Verdict::fine, "");
  } catch (Error const& error) {
    say(error.kind() == ErrorKind::usage ? Verdict::usage : Verdict::input, error.what());
  } catch (std::exception const&) { // std::bad_alloc, or a size beyond all memory
    say(Verdict::memory, "");
  }
  _exit(1);
}

/// Collects the child's report until it ends; kills the child at the deadline. Returns true if it ended in time.
bool listen(int descriptor, pid_t child, Limits const& limits, std::string& said) {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(limits.clock_seconds);
  std::array<char, 4096> buffer{};
  for (;;) {
    auto const left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wanted{descriptor, POLLIN, 0};
    auto const ready = poll(&wanted, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      kill(child, SIGKILL);
      return false;
    }
    auto const count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    said.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

[[noreturn]] void fail_broken(fs::path const& path, std::string const& what) {
  throw InputError(fmt::format("{} is a broken HDF5 file: reading its structure {}", path.string(), what));
}

/// Throws the error that the outcome of a child stands for; returns if the file is good.
void judge(fs::path const& path, Limits const& limits, bool in_time, int status, std::string const& said) {
  if (!in_time) fail_broken(path, fmt::format("took more than {} seconds", limits.clock_seconds));
  if (said.empty()) {
    int const signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal == SIGXCPU || signal == SIGKILL)
      fail_broken(path, fmt::format("took more than {} seconds of processor time", limits.cpu_seconds));
    fail_broken(path, signal == 0 ? "failed" : fmt::format("crashes ({})", strsignal(signal)));
  }
  auto const sentence = said.substr(1);
  switch (static_cast<Verdict>(said[0])) {
  case Verdict::fine:
    return;
  case Verdict::usage:
    throw UsageError(sentence);
  case Verdict::input:
    throw InputError(sentence);
  case Verdict::memory:
    break;
  }
  fail_broken(path, fmt::format("takes more than {} MiB of memory", limits.memory_bytes / mebibyte));
}

/// A child process that walks through its share of a file.
class Child {
public:
  Child(fs::path const& path, Limits const& limits, Walk const& walk, Share share) : path_(path), limits_(limits) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw ResourceError(fmt::format("{} cannot be tried out: no pipe ({})", path.string(), std::strerror(errno)));
    id_ = fork();
    if (id_ == 0) walk_and_exit(walk, share, ends[1], limits);
    int const error = errno;
    close(ends[1]);
    descriptor_ = ends[0];
    if (id_ > 0) return;
    close(descriptor_);
    throw ResourceError(fmt::format("{} cannot be tried out: no process ({})", path.string(), std::strerror(error)));
  }
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;

  /// Ends a child whose report nobody waits for.
  ~Child() {
    if (id_ == 0) return;
    kill(id_, SIGKILL);
    collect();
  }

  /// Waits for the child's report. Throws the error that it stands for.
  void await() {
    std::string said;
    bool const in_time = listen(descriptor_, id_, limits_, said);
    judge(path_, limits_, in_time, collect(), said);
  }

private:
  /// Waits for the end of the process and returns its status.
  int collect() {
    close(descriptor_);
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return status;
  }

  fs::path path_;
  Limits limits_;
  pid_t id_ = 0;
  int descriptor_ = -1;
};

/// All shares of a walk, side by side. Throws the error of the first that failed.
void walk_in_children(fs::path const& path, std::uint64_t file_size, Walk const& walk) {
  std::list<Child> children;
  auto const count = num_shares(file_size);
  for (std::size_t number = 0; number < count; ++number)
    children.emplace_back(path, limits_for(file_size), walk, Share{number, count});
  for (auto& child : children) child.await();
}

} // namespace

void try_out(fs::path const& path, Walk const& walk) {
  auto& known = known_files();
  struct stat status {};
  auto const place = readable_place(path);       // before the fork, because a pipe can be read only once
  if (stat(place.c_str(), &status) != 0) return; // opening the file will report the reason
  TriedFile const file(place.string(), version_of(status), walk.what);
  auto found = known.find(file);
  if (found == known.end()) {
    std::exception_ptr failure;
    try {
      walk_in_children(path, static_cast<std::uint64_t>(status.st_size), walk);
    } catch (InputError const&) {
      failure = std::current_exception();
    }
    found = known.emplace(file, failure).first;
  }
  if (found->second) std::rethrow_exception(found->second);
}

bool has_checksums(fs::path const& path) {
  constexpr std::size_t root_place = 36; // offset of the root group's address in versions 2 and 3 of the superblock
  constexpr std::size_t num_begin = 512; // the root group is likely in there, too
  auto const head = bytes_of_file(path, 0, num_begin);
  // the superblock must use addresses of 8 bytes
  if (head.size() < root_place + sizeof(std::uint64_t) || head[8] < 2 || head[9] != 8) return false;
  std::uint64_t root = 0;
  for (std::size_t byte = sizeof(root); byte-- > 0;)
    root = (root << 8U) | static_cast<unsigned char>(head[root_place + byte]);
  constexpr std::string_view mark = "OHDR";
  if (root <= head.size() - mark.size()) return std::string_view(head).substr(root, mark.size()) == mark;
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  return root < largest - num_begin && bytes_of_file(path, root, mark.size()) == mark;
}

NeedsWalk::NeedsWalk(std::string what) : before_(std::exchange(needed_walk(), std::move(what))) {}

NeedsWalk::~NeedsWalk() { needed_walk() = std::move(before_); }

void require_tried(hid_t object) {
  if (is_in_child) return;
  std::string path(static_cast<std::size_t>(std::max<ssize_t>(H5Fget_name(object, nullptr, 0), 0)), '\0');
  H5Fget_name(object, path.data(), path.size() + 1);
  struct stat status {};
  auto const is_there = stat(path.c_str(), &status) == 0;
  if (is_there && known_files().contains({path, version_of(status), needed_walk()})) return;
  throw UntriedText(fmt::format("{} holds text of variable length, but was not tried out", path));
}

} // namespace varve::hdf5
