#include "core/shared_host_memory.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <sstream>
#include <system_error>

namespace varve {
namespace {

/// A random number after the memory, by which a process checks that it opened the right memory.
using Seal = std::array<std::uint64_t, 2>;

Seal new_seal() {
  std::random_device random;
  auto const word = [&] { return (std::uint64_t{random()} << 32U) | random(); };
  return {word(), word()};
}

std::string reason() { return std::generic_category().message(errno); }

std::size_t rounded_up(std::size_t bytes) { return (bytes + sizeof(Seal) - 1) / sizeof(Seal) * sizeof(Seal); }

} // namespace

SharedHostMemory::SharedHostMemory(std::size_t bytes) : size_(rounded_up(bytes)) {
  file_ = memfd_create("varve", MFD_CLOEXEC);
  if (file_ < 0) throw ResourceError("the system grants no memory that processes can share: " + reason());
  if (ftruncate(file_, static_cast<off_t>(size_ + sizeof(Seal))) != 0) {
    auto const why = reason();
    close(file_);
    throw ResourceError("the system grants no " + std::to_string(size_) + " bytes that processes can share: " + why);
  }
  map();
  auto const seal = new_seal();
  std::memcpy(data_ + size_, seal.data(), sizeof(seal));
  std::ostringstream text;
  text << getpid() << ' ' << file_ << ' ' << size_ << ' ' << seal[0] << ' ' << seal[1];
  handle_ = text.str();
}

SharedHostMemory::SharedHostMemory(std::string const& handle) : handle_(handle) {
  std::istringstream text(handle);
  std::int64_t process = 0;
  int number = 0;
  Seal seal{};
  text >> process >> number >> size_ >> seal[0] >> seal[1];
  if (!text) throw ResourceError("'" + handle + "' is no handle of shared memory");
  auto const path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) throw ResourceError("the memory of process " + std::to_string(process) + " is closed: " + reason());
  if (lseek(file_, 0, SEEK_END) != static_cast<off_t>(size_ + sizeof(Seal))) {
    close(file_);
    throw ResourceError("the memory of process " + std::to_string(process) + " is another one");
  }
  map();
  if (std::memcmp(data_ + size_, seal.data(), sizeof(seal)) == 0) return;
  munmap(data_, size_ + sizeof(Seal));
  close(file_);
  throw ResourceError("the memory of process " + std::to_string(process) + " is another one");
}

SharedHostMemory::~SharedHostMemory() {
  munmap(data_, size_ + sizeof(Seal));
  close(file_);
}

void SharedHostMemory::map() {
  auto const bytes = size_ + sizeof(Seal);
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) {
    auto const why = reason();
    close(file_);
    throw ResourceError("the system maps no " + std::to_string(bytes) + " bytes that processes share: " + why);
  }
  madvise(mapped, bytes, MADV_HUGEPAGE); // takes effect if huge pages are enabled for madvise
  data_ = static_cast<std::byte*>(mapped);
}

} // namespace varve
