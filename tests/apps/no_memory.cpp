#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

/// Takes the place of the C library's functions in a program that loads this first: after as many large allocations as
/// the variable VARVE_LARGE_ALLOCATIONS says, all further ones fail, as where memory ends.
extern "C" {

void* __libc_malloc(std::size_t size);                    // NOLINT: the C library's own name
void* __libc_calloc(std::size_t count, std::size_t size); // NOLINT
void* __libc_realloc(void* memory, std::size_t size);     // NOLINT

namespace {

bool fails(std::size_t size) {
  constexpr std::size_t large = 4096;
  static std::atomic<long> left = [] {
    char const* const number = std::getenv("VARVE_LARGE_ALLOCATIONS");
    return number == nullptr ? 0 : std::atol(number);
  }();
  if (size < large || left-- > 0) return false;
  errno = ENOMEM;
  return true;
}

} // namespace

void* malloc(std::size_t size) noexcept { return fails(size) ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) noexcept {
  return fails(count * size) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept { return fails(size) ? nullptr : __libc_realloc(memory, size); }
}
