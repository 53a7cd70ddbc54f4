#include "distribute/record_file.hpp"

#include "core/error.hpp"
#include "io/checksum.hpp"
#include "io/partial_output.hpp"
#include "io/temporary_file.hpp"
#include "io/whole_bytes.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view signature("varvelog", 8);

/// Precedes the content of a record: its length, and the checksum of length and content.
struct RecordHead {
  std::uint64_t length = 0;
  std::uint64_t sum = 0;
};

std::uint64_t sum_of(std::string_view content) { return checksum(content, content.size() + 1); }

} // namespace

RecordFile::RecordFile(fs::path path, Purpose purpose)
    : path_(std::move(path)), is_temporary_(purpose == Purpose::temporary), is_durable_(purpose == Purpose::append) {
  open_file(purpose);
  try {
    if (purpose == Purpose::temporary) {
      write_at_end(signature);
      return;
    }
    keep_others_out();
    find_records();
    if (purpose != Purpose::append) return;
    if (ftruncate(descriptor_, static_cast<off_t>(end_)) != 0) fail("written", errno);
    if (end_ == 0) write_at_end(signature);
    sync_folder_of(path_); // makes sure that the name of a new file is on the disk, too
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

RecordFile::~RecordFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

RecordFile::RecordFile(RecordFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_temporary_(other.is_temporary_),
      is_durable_(other.is_durable_),
      places_(std::move(other.places_)),
      end_(other.end_),
      num_discarded_(other.num_discarded_) {}

void RecordFile::fail(char const* what, int error) const {
  auto const name = is_temporary_
                        ? fmt::format("a temporary file for finished batches in the folder {}", path_.string())
                        : path_.string();
  throw ResourceError(fmt::format("{} cannot be {}: {}", name, what, std::strerror(error)));
}

void RecordFile::open_file(Purpose purpose) {
  if (purpose == Purpose::temporary) {
    descriptor_ = open_temporary_file(path_);
    return;
  }
  int const access = purpose == Purpose::append ? O_RDWR | O_CREAT : O_RDONLY;
  descriptor_ = open(path_.c_str(), access | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(purpose == Purpose::append ? "written" : "read", errno);
}

/// Locks the file. Waits a moment, because a run whose launcher was killed may still be ending. File systems without
/// locks are accepted.
void RecordFile::keep_others_out() const {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    if (std::chrono::steady_clock::now() > deadline) {
      throw InputError(fmt::format("{} is in use by another run", path_.string()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void RecordFile::find_records() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail("read", errno);
  auto const size = static_cast<std::uint64_t>(status.st_size);
  std::array<char, signature.size()> begin{};
  auto const num_begin = read_at(descriptor_, 0, begin.data(), begin.size());
  if (num_begin < 0) fail("read", errno);
  if (!signature.starts_with(std::string_view(begin.data(), static_cast<std::size_t>(num_begin)))) {
    throw InputError(fmt::format("{} is no journal of Varve", path_.string()));
  }
  if (size >= signature.size()) end_ = signature.size();
  RecordHead head;
  while (end_ > 0 && size - end_ >= sizeof(head)) {
    if (read_at(descriptor_, end_, reinterpret_cast<char*>(&head), sizeof(head)) < 0) fail("read", errno);
    Place const place{end_ + sizeof(head), head.length};
    if (head.length > size - place.first) break;
    std::string content(head.length, '\0');
    if (read_at(descriptor_, place.first, content.data(), content.size()) < 0) fail("read", errno);
    if (sum_of(content) != head.sum) break;
    places_.push_back(place);
    end_ = place.first + place.length;
  }
  num_discarded_ = size - end_;
}

std::string RecordFile::read(std::size_t number) const {
  auto const place = places_.at(number);
  RecordHead head;
  std::string content(place.length, '\0');
  if (read_at(descriptor_, place.first - sizeof(head), reinterpret_cast<char*>(&head), sizeof(head)) < 0 ||
      read_at(descriptor_, place.first, content.data(), content.size()) < 0) {
    fail("read", errno);
  }
  if (sum_of(content) != head.sum) {
    throw InputError(fmt::format("{}: record {} has changed since it was written", path_.string(), number));
  }
  return content;
}

void RecordFile::append(std::string_view content) {
  RecordHead const head{content.size(), sum_of(content)};
  std::string bytes(reinterpret_cast<char const*>(&head), sizeof(head));
  bytes.append(content);
  Place const place{end_ + sizeof(head), content.size()};
  write_at_end(bytes);
  places_.push_back(place);
}

void RecordFile::write_at_end(std::string_view bytes) {
  if (!write_at(descriptor_, end_, bytes)) fail("written", errno);
  if (is_durable_ && fsync(descriptor_) != 0) fail("written", errno);
  end_ += bytes.size();
}

} // namespace varve
