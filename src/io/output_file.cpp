#include "io/output_file.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(fs::path const& path, int error) {
  throw ResourceError(fmt::format("{} cannot be written: {}", path.string(), std::strerror(error)));
}

fs::path partial_beside(fs::path const& path) { return fs::path(path.string() + fmt::format(".partial-{}", getpid())); }

/// The file or folder that a name stands for: links followed, no separator at the end.
fs::path without_links(fs::path path) {
  if (path.empty()) throw UsageError("the name of an output is empty");
  std::error_code error;
  if (!path.has_filename()) path = path.parent_path();
  if (!fs::is_symlink(path, error)) return path;
  auto const real = fs::weakly_canonical(path, error);
  return error ? path : real;
}

void move_to_name(fs::path const& from, fs::path const& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(to, error.value());
}

} // namespace

OutputFile::OutputFile(fs::path path) {
  std::error_code error;
  bool const ends_in_separator = !path.empty() && !path.has_filename();
  path_ = without_links(std::move(path));
  if (ends_in_separator || fs::is_directory(path_, error)) {
    throw UsageError(fmt::format("{} is a folder, expected the name of a file to write", path_.string()));
  }
  bool const is_direct = fs::exists(path_, error) && !fs::is_regular_file(path_, error);
  partial_ = is_direct ? path_ : partial_beside(path_);
  descriptor_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!committed_ && partial_ != path_) {
    std::error_code ignored;
    fs::remove(partial_, ignored);
  }
}

void OutputFile::write(std::string_view bytes) {
  VARVE_REQUIRE(descriptor_ >= 0, "an output file is written after its commit");
  while (!bytes.empty()) {
    auto const written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::commit() {
  VARVE_REQUIRE(descriptor_ >= 0, "an output file is committed twice");
  if (close(std::exchange(descriptor_, -1)) != 0) fail(path_, errno);
  if (partial_ != path_) move_to_name(partial_, path_);
  committed_ = true;
}

void require_writable(fs::path const& path) {
  std::error_code error;
  auto const file = without_links(path);
  bool const is_direct = fs::exists(file, error) && !fs::is_regular_file(file, error) && !fs::is_directory(file, error);
  if (!is_direct) {
    OutputFile const probe(path);
  } else if (access(file.c_str(), W_OK) != 0) {
    fail(file, errno);
  }
}

OutputFolder::OutputFolder(fs::path path) : path_(without_links(std::move(path))), partial_(partial_beside(path_)) {
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
  fs::remove_all(partial_, error);
  if (!fs::create_directory(partial_, error)) fail(path_, error ? error.value() : EEXIST);
}

OutputFolder::~OutputFolder() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

void OutputFolder::commit() {
  VARVE_REQUIRE(!committed_, "an output folder is committed twice");
  move_to_name(partial_, path_);
  committed_ = true;
}

} // namespace varve
