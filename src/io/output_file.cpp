#include "io/output_file.hpp"

#include "core/error.hpp"
#include "io/challenge.hpp"
#include "io/input_files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view partial_mark = ".partial-";
constexpr std::size_t num_digits = 16;

/// The names of all partial outputs of this process. Adding, renaming and removing require the lock. When a signal ends
/// the process, the lock is never released, so that nothing new appears.
struct Registry {
  std::mutex guard;
  std::vector<fs::path> names;
};

Registry& registry() {
  static auto* const all = new Registry; // never destroyed: the thread that waits for signals uses it during exit
  return *all;
}

void remove_quietly(fs::path const& name) {
  constexpr int max_attempts = 100; // other threads may still be writing into the folder
  std::error_code error;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    fs::remove_all(name, error);
    if (!error) return;
  }
}

/// 16 unpredictable hexadecimal digits.
std::string random_digits() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

bool is_partial_name(std::string_view name, std::string const& target) {
  auto const begin = target + std::string(partial_mark);
  return name.starts_with(begin) && name.size() == begin.size() + num_digits &&
         name.find_first_not_of("0123456789abcdef", begin.size()) == std::string_view::npos;
}

fs::path folder_of(fs::path const& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

/// True if a path exists and is neither a regular file nor a folder.
bool is_special(fs::path const& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error) && !fs::is_directory(path, error);
}

/// Syncs a file or folder to the disk, if the file system supports it; false, with errno set, if the disk failed.
bool is_synced(int descriptor) { return fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP; }

/// Whether a process holds the lock of a partial output: its writer does, nobody does, or neither is certain, because
/// locks do not work on this file system or somebody else holds one.
enum class LockState { held, free, unknown };

LockState lock_of(fs::path const& name) {
  Descriptor file(open(name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (file.number() < 0) file = Descriptor(open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)); // for folders
  if (file.number() < 0) return LockState::unknown;
  if (flock(file.number(), LOCK_EX | LOCK_NB) == 0) return LockState::free;
  bool const is_held = flock(file.number(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; // as its writer holds it
  return is_held ? LockState::held : LockState::unknown;
}

/// The files in a partial output, which are none unless it is a folder. Nullopt if no process of ours can have made it:
/// OutputFolder holds nothing but layer files.
std::optional<std::vector<fs::path>> files_of_ours(fs::path const& name) {
  std::vector<fs::path> files;
  std::error_code error;
  auto const status = fs::symlink_status(name, error);
  if (fs::is_regular_file(status)) return files;
  if (!fs::is_directory(status)) return std::nullopt;
  for (fs::directory_iterator entry(name, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code failure;
    bool const is_file = fs::is_regular_file(entry->symlink_status(failure));
    if (!is_file || !is_layer_file_name(entry->path().filename().string())) return std::nullopt;
    files.push_back(entry->path());
  }
  return error ? std::nullopt : std::optional(files);
}

constexpr int ending_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGXCPU, SIGPIPE};

std::atomic<int> signal_that_came = 0;
static_assert(std::atomic<int>::is_always_lock_free, "only then may a signal handler change it");
sem_t signal_has_come;

extern "C" void wake_remover(int number) {
  int const error = errno;
  signal_that_came = number;
  sem_post(&signal_has_come); // async-signal-safe
  // gives the remover time, so that no error about the closed pipe is printed first
  if (number == SIGPIPE) poll(nullptr, 0, 2000);
  errno = error;
}

/// Waits for a signal, removes all partial outputs, and lets the signal end the process.
[[noreturn]] void remove_when_signalled() {
  while (sem_wait(&signal_has_come) != 0) {
  }
  auto& all = registry();
  all.guard.lock(); // never unlocked
  for (auto const& name : all.names) remove_quietly(name);
  int const number = signal_that_came;
  std::signal(number, SIG_DFL);
  kill(getpid(), number); // delivered to a thread that does not block it
  for (;;) pause();
}

} // namespace

void fail_to_write(fs::path const& path, std::string_view why) {
  fail<ResourceError>("{} cannot be written: {}", path.string(), why);
}
void fail_to_write(fs::path const& path, int error) { fail_to_write(path, std::strerror(error)); }

/// A file or folder that is written as PATH.partial-<16 random hexadecimal digits> beside PATH and renamed when
/// complete. It is locked (flock) during its lifetime, which distinguishes leftovers of a killed process from outputs
/// of a running one.
class PartialOutput {
public:
  enum class Kind { file, folder };

  /// Creates the empty partial output. It never follows a link and never reuses an existing file. Throws ResourceError,
  /// naming PATH.
  PartialOutput(fs::path path, Kind kind) : path_(std::move(path)) {
    constexpr int max_attempts = 100;
    auto& all = registry();
    for (int attempt = 0; attempt < max_attempts; ++attempt) {
      std::lock_guard const lock(all.guard);
      name_ = fs::path(path_.string() + std::string(partial_mark) + random_digits());
      descriptor_ = create(kind);
      if (descriptor() < 0 && errno == EEXIST) continue;
      if (descriptor() < 0) fail_to_write(path_, errno);
      all.names.push_back(name_);
      struct stat status {};
      static_cast<void>(flock(descriptor(), LOCK_EX | LOCK_NB)); // file systems without locks are accepted
      if (fstat(descriptor(), &status) == 0 && status.st_nlink > 0) return;
      std::erase(all.names, name_); // another run removed it as a leftover before it was locked
    }
    fail_to_write(path_, EEXIST);
  }

  /// Removes the partial output unless appear() was called.
  ~PartialOutput() {
    if (descriptor() < 0) return;
    auto& all = registry();
    std::lock_guard const lock(all.guard);
    remove_quietly(name_);
    std::erase(all.names, name_);
  }
  PartialOutput(PartialOutput const&) = delete;
  PartialOutput& operator=(PartialOutput const&) = delete;

  fs::path const& name() const { return name_; }
  int descriptor() const { return descriptor_.number(); } ///< descriptor of the partial file, open for writing

  /// Syncs the content to the disk, renames it to PATH, and syncs the new name. Throws ResourceError, or InputError if
  /// an input has changed since it was read (see InputFiles).
  void appear() {
    VARVE_REQUIRE(descriptor() >= 0, "a partial output appears twice");
    require_unchanged_inputs();
    if (!is_synced(descriptor())) fail_to_write(path_, errno);
    auto& all = registry();
    {
      std::lock_guard const lock(all.guard);
      if (rename(name_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
      std::erase(all.names, name_);
    }
    if (close(descriptor_.release()) != 0) fail_to_write(path_, errno);
    sync_folder_of(path_);
  }

private:
  Descriptor create(Kind kind) const {
    if (kind == Kind::file)
      return Descriptor(open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (mkdir(name_.c_str(), 0777) != 0) return Descriptor(-1);
    return Descriptor(open(name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }

  fs::path path_;
  fs::path name_;
  Descriptor descriptor_{-1};
};

std::vector<fs::path> remove_leftovers(fs::path const& path, std::function<bool(fs::path const&)> const& is_needed) {
  std::vector<fs::path> kept;
  std::error_code error;
  auto const target = path.filename().string();
  for (fs::directory_iterator entry(folder_of(path), error), end; !error && entry != end; entry.increment(error)) {
    auto const& name = entry->path();
    if (!is_partial_name(name.filename().string(), target)) continue;
    auto const files = files_of_ours(name);
    if (!files || (is_needed && is_needed(name))) continue;
    auto const lock = lock_of(name);
    std::error_code failure;
    if (lock == LockState::free) {
      for (auto const& file : *files) fs::remove(file, failure);
      fs::remove(name, failure); // a folder goes only if it is empty; what cannot be removed stays
    }
    if (fs::exists(fs::symlink_status(name, failure)) && lock != LockState::held) kept.push_back(name);
  }
  return kept;
}

void remove_partial_outputs_on_signals() {
  sem_init(&signal_has_come, 0, 0);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // the new thread inherits this mask, so signals go to other threads
  std::string failure;
  try {
    std::thread(remove_when_signalled).detach();
  } catch (std::system_error const& error) {
    failure = error.code().message();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!failure.empty()) {
    fail<ResourceError>("the thread that removes unfinished outputs when a signal comes cannot be started: {}; raise "
                        "the limits of threads and memory (ulimit -u, ulimit -v)",
                        failure);
  }
  struct sigaction action {};
  action.sa_handler = wake_remover;
  action.sa_flags = SA_RESTART;
  for (int const number : ending_signals) {
    struct sigaction old {};
    bool const is_ignored = sigaction(number, nullptr, &old) != 0 || old.sa_handler == SIG_IGN; // set by nohup
    bool const is_free = old.sa_handler == SIG_DFL;
    if (!is_ignored && (is_free || number != SIGUSR1)) sigaction(number, &action, nullptr); // a library may use SIGUSR1
  }
}

void sync_folder_of(fs::path const& file) {
  Descriptor const folder(open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() < 0) return; // the folder may be writable but not readable
  if (!is_synced(folder.number())) fail_to_write(file, errno);
}

fs::path target_of(fs::path path) {
  constexpr int max_links = 40; // the limit of Linux
  if (path.empty()) throw UsageError("the name of an output is empty");
  if (!path.has_filename()) path = path.parent_path();
  std::error_code error;
  auto target = path;
  for (int link = 0; fs::is_symlink(target, error); ++link) {
    if (is_special(target)) return target; // the target of /dev/stdout may have no name
    if (link == max_links) fail_to_write(path, ELOOP);
    auto const next = fs::read_symlink(target, error);
    if (error) fail_to_write(path, error.value());
    target = target.parent_path() / next; // if `next` is absolute, the result is `next`
    if (!target.has_filename()) target = target.parent_path();
  }
  return target;
}

OutputFile::OutputFile(fs::path path, Appears appears) : is_in_folder_(appears == Appears::with_folder) {
  std::error_code error;
  bool const ends_in_separator = !path.empty() && !path.has_filename();
  path_ = target_of(std::move(path));
  if (ends_in_separator || fs::is_directory(path_, error))
    fail<UsageError>("{} is a folder, expected the name of a file to write", path_.string());
  if (is_in_folder_) {
    direct_ = Descriptor(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  } else if (is_special(path_)) {
    direct_ = Descriptor(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  } else {
    partial_ = std::make_unique<PartialOutput>(path_, PartialOutput::Kind::file);
  }
  if (descriptor() < 0) fail_to_write(path_, errno);
}

OutputFile::~OutputFile() = default;

int OutputFile::descriptor() const { return partial_ ? partial_->descriptor() : direct_.number(); }

fs::path const& OutputFile::partial_path() const { return partial_ ? partial_->name() : path_; }

void OutputFile::write(std::string_view bytes) {
  VARVE_REQUIRE(!is_committed_, "an output file is written after its commit");
  if (!write_all(descriptor(), bytes)) fail_to_write(path_, errno);
  num_bytes_ += bytes.size();
}

void OutputFile::commit() {
  if (partial_ || is_in_folder_) require_all_bytes();
  appear();
}

void OutputFile::commit(std::function<bool(fs::path const&)> const& are_in) {
  if (!partial_) return appear();
  try {
    if (!are_in(partial_->name()))
      fail_to_write(path_, "it holds other numbers than were written; its disk or file system lost some");
    release_input(partial_->name());
  } catch (InputError const& error) {
    fail_to_write(path_, fmt::format("what was written cannot be read back ({})", error.what()));
  }
  appear();
}

void OutputFile::require_all_bytes() const {
  struct stat status {};
  if (fstat(descriptor(), &status) != 0) fail_to_write(path_, errno);
  if (static_cast<std::uint64_t>(status.st_size) == num_bytes_) return;
  fail_to_write(path_, fmt::format("it has {} bytes after {} were written; its disk or file system lost some",
                                   status.st_size, num_bytes_));
}

void OutputFile::appear() {
  VARVE_REQUIRE(!std::exchange(is_committed_, true), "an output file is committed twice");
  if (partial_) return partial_->appear();
  if (is_in_folder_ && fsync(direct_.number()) != 0) fail_to_write(path_, errno);
  if (close(direct_.release()) != 0) fail_to_write(path_, errno);
}

Descriptor open_temporary_file(fs::path const& folder) {
#if defined(O_TMPFILE)
  Descriptor nameless(open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (nameless.number() >= 0) return nameless;
#endif
  // Not every file system supports nameless files: create a named one and remove its name at once.
  auto name = (folder / "varve-temporary-XXXXXX").string();
  Descriptor descriptor(mkostemp(name.data(), O_CLOEXEC));
  if (descriptor.number() < 0)
    fail<ResourceError>("a temporary file in the folder {} cannot be created: {}", folder.string(),
                        std::strerror(errno));
  unlink(name.c_str());
  return descriptor;
}

void require_writable(fs::path const& path) {
  auto const file = target_of(path);
  if (!is_special(file)) {
    OutputFile const probe(path);
  } else if (access(file.c_str(), W_OK) != 0)
    fail_to_write(file, errno);
}

void require_file_to_read_back(fs::path const& path) {
  if (!is_special(path)) return;
  fail_to_write(path, "it is a pipe or a device, expected a file, because what is written there is read back");
}

OutputFolder::OutputFolder(fs::path path) : path_(target_of(std::move(path))) {
  std::error_code error;
  if (fs::exists(path_, error)) {
    if (!fs::is_directory(path_, error))
      fail<UsageError>("{} is a file, expected the name of a folder to write", path_.string());
    if (!fs::is_empty(path_, error))
      fail<UsageError>("{} is a folder that already holds files, expected a new or empty one", path_.string());
  }
  partial_ = std::make_unique<PartialOutput>(path_, PartialOutput::Kind::folder);
}

OutputFolder::~OutputFolder() = default;

fs::path const& OutputFolder::partial_path() const { return partial_->name(); }

void OutputFolder::commit() { partial_->appear(); }

} // namespace varve
