#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

/// Counts what an input allocates and aborts if it holds more at a time than a file of its size may cost. libFuzzer's
/// own limits are for one allocation or for the whole process.
namespace {

constexpr std::ptrdiff_t least_limit = std::ptrdiff_t{VARVE_FUZZ_MEBIBYTES} << 20;
constexpr std::ptrdiff_t most_per_byte = 8;

std::atomic<std::ptrdiff_t> held{0};
std::atomic<std::ptrdiff_t> limit{PTRDIFF_MAX};

void count_allocation(void const volatile*, std::size_t size) {
  auto const now = held += static_cast<std::ptrdiff_t>(size);
  if (now <= limit) return;
  limit = PTRDIFF_MAX;
  std::fprintf(stderr, "fuzz: this input holds %td bytes of memory\n", now);
  std::abort();
}

void count_free(void const volatile* pointer) {
  if (pointer != nullptr)
    held -= static_cast<std::ptrdiff_t>(__sanitizer_get_allocated_size(const_cast<void const*>(pointer)));
}

} // namespace

extern "C" int __real_LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t size);

/// The linker puts this before the entry of the target (--wrap).
extern "C" int __wrap_LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t size) {
  static int const is_installed = __sanitizer_install_malloc_and_free_hooks(count_allocation, count_free);
  static_cast<void>(is_installed);
  held = 0;
  limit = std::max(least_limit, most_per_byte * static_cast<std::ptrdiff_t>(size));
  int const answer = __real_LLVMFuzzerTestOneInput(bytes, size);
  limit = PTRDIFF_MAX;
  return answer;
}
