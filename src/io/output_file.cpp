#include "io/output_file.hpp"

#include "core/error.hpp"
#include "io/input_files.hpp"
#include "io/whole_bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// True if a path exists and is neither a regular file nor a folder.
bool is_special(fs::path const& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error) && !fs::is_directory(path, error);
}

} // namespace

fs::path target_of(fs::path path) {
  constexpr int most_links = 40; // the limit of Linux
  if (path.empty()) throw UsageError("the name of an output is empty");
  if (!path.has_filename()) path = path.parent_path();
  std::error_code error;
  auto target = path;
  for (int link = 0; fs::is_symlink(target, error); ++link) {
    if (is_special(target)) return target; // the target of /dev/stdout may have no name
    if (link == most_links) fail_to_write(path, ELOOP);
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
  if (ends_in_separator || fs::is_directory(path_, error)) {
    throw UsageError(fmt::format("{} is a folder, expected the name of a file to write", path_.string()));
  }
  if (is_in_folder_) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } else if (is_special(path_)) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    partial_.emplace(path_, PartialOutput::Kind::file);
    descriptor_ = partial_->descriptor();
  }
  if (descriptor_ < 0) fail_to_write(path_, errno);
}

OutputFile::~OutputFile() {
  if (!partial_ && descriptor_ >= 0) close(descriptor_);
}

void OutputFile::write(std::string_view bytes) {
  VARVE_REQUIRE(!is_committed_, "an output file is written after its commit");
  if (!write_all(descriptor_, bytes)) fail_to_write(path_, errno);
  num_bytes_ += bytes.size();
}

void OutputFile::commit() {
  if (partial_ || is_in_folder_) require_all_bytes();
  appear();
}

void OutputFile::commit(std::function<bool(fs::path const&)> const& are_in) {
  if (!partial_) return appear();
  auto const fail = [&](std::string const& why) {
    throw ResourceError(fmt::format("{} cannot be written: {}", path_.string(), why));
  };
  try {
    if (!are_in(partial_->name())) fail("it holds other numbers than were written; its disk or file system lost some");
    release_input(partial_->name());
  } catch (InputError const& error) {
    fail(fmt::format("what was written cannot be read back ({})", error.what()));
  }
  appear();
}

void OutputFile::require_all_bytes() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail_to_write(path_, errno);
  if (static_cast<std::uint64_t>(status.st_size) == num_bytes_) return;
  throw ResourceError(fmt::format("{} cannot be written: it has {} bytes after {} were written; its disk or file "
                                  "system lost some",
                                  path_.string(), status.st_size, num_bytes_));
}

void OutputFile::appear() {
  VARVE_REQUIRE(!std::exchange(is_committed_, true), "an output file is committed twice");
  if (partial_) {
    require_unchanged_inputs();
    partial_->appear();
    return;
  }
  if (is_in_folder_ && fsync(descriptor_) != 0) fail_to_write(path_, errno);
  if (close(std::exchange(descriptor_, -1)) != 0) fail_to_write(path_, errno);
}

void require_writable(fs::path const& path) {
  auto const file = target_of(path);
  if (!is_special(file)) {
    OutputFile const probe(path);
  } else if (access(file.c_str(), W_OK) != 0) {
    fail_to_write(file, errno);
  }
}

void require_file_to_read_back(fs::path const& path) {
  if (!is_special(path)) return;
  throw ResourceError(fmt::format("{} cannot be written: it is a pipe or a device, expected a file, because what is "
                                  "written there is read back",
                                  path.string()));
}

OutputFolder::OutputFolder(fs::path path) : path_(target_of(std::move(path))) {
  std::error_code error;
  if (fs::exists(path_, error)) {
    if (!fs::is_directory(path_, error)) {
      throw UsageError(fmt::format("{} is a file, expected the name of a folder to write", path_.string()));
    }
    if (!fs::is_empty(path_, error)) {
      throw UsageError(
          fmt::format("{} is a folder that already holds files, expected a new or empty one", path_.string()));
    }
  }
  partial_.emplace(path_, PartialOutput::Kind::folder);
}

void OutputFolder::commit() {
  require_unchanged_inputs();
  partial_->appear();
}

} // namespace varve
