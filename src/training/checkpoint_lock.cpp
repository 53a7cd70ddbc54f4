#include "training/checkpoint_lock.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "io/output_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

} // namespace

fs::path lock_of_checkpoint(fs::path const& path) {
  auto lock = path;
  lock += ".lock";
  return lock;
}

CheckpointLock::CheckpointLock(fs::path const& path, double patience) : name_(lock_of_checkpoint(path)) {
  Stopwatch const waited;
  for (;;) {
    open_file();
    if (is_taken_by_this()) return;
    close(std::exchange(descriptor_, -1));
    if (waited.seconds() > patience)
      throw InputError(fmt::format("{} is in use by another run, which holds {}", path.string(), name_.string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

CheckpointLock::~CheckpointLock() {
  if (descriptor_ < 0) return;
  unlink(name_.c_str()); // before others can lock it, who would then hold a file without a name
  close(descriptor_);
}

void CheckpointLock::open_file() {
  descriptor_ = open(name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_to_write(name_, errno);
}

/// True if this object holds the lock of the file that has the name now. (The run before may have removed the file
/// after it was opened here.)
bool CheckpointLock::is_taken_by_this() const {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) return false;
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor_, &opened) == 0 && stat(name_.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

} // namespace varve
