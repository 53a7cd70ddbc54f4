#include <sanitizer/allocator_interface.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

/// Aborts if an input holds more memory at a time than a file of its size may cost: more allocated, or more resident
/// than before, which counts only what was touched. libFuzzer's own limits are for one allocation or for the whole
/// process.
namespace {

constexpr std::ptrdiff_t min_limit = std::ptrdiff_t{VARVE_FUZZ_MEBIBYTES} << 20;
constexpr std::ptrdiff_t min_resident = std::ptrdiff_t{80} << 20; ///< 64 MiB and what the sanitizer keeps of them
constexpr std::ptrdiff_t max_per_byte = 8;

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

/// Bytes that are resident now, and the most that ever were.
std::ptrdiff_t resident_now() {
  std::ptrdiff_t all = 0;
  std::ptrdiff_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}
std::ptrdiff_t resident_peak() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::ptrdiff_t{usage.ru_maxrss} << 10;
}

} // namespace

extern "C" int __real_LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t size);

/// The linker puts this before the entry of the target (--wrap).
extern "C" int __wrap_LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t size) {
  static int const is_installed = __sanitizer_install_malloc_and_free_hooks(count_allocation, count_free);
  static_cast<void>(is_installed);
  auto const max_resident = std::max(min_resident, max_per_byte * static_cast<std::ptrdiff_t>(size));
  auto const peak_before = resident_peak();
  auto const before = resident_now();
  held = 0;
  limit = std::max(min_limit, max_per_byte * static_cast<std::ptrdiff_t>(size));
  int const answer = __real_LLVMFuzzerTestOneInput(bytes, size);
  limit = PTRDIFF_MAX;
  auto const peak = resident_peak();
  if (peak > peak_before && peak - before > max_resident) {
    std::fprintf(stderr, "fuzz: this input has touched %td bytes of memory\n", peak - before);
    std::abort();
  }
  return answer;
}
