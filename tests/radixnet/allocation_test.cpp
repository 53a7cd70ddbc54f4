#include "network/layer_memory.hpp"
#include "passes/pruned_network.hpp"
#include "passes/reduced_network.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

namespace {

/// Allocations by C++ in this program until one fails; negative: none does.
std::atomic<long> num_until_failure{-1};

void* allocate(std::size_t size, std::size_t alignment) {
  if (num_until_failure >= 0 && num_until_failure-- == 0) throw std::bad_alloc();
  void* const memory =
      alignment == 0 ? std::malloc(size) : std::aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
  if (memory == nullptr && size > 0) throw std::bad_alloc();
  return memory;
}

} // namespace

void* operator new(std::size_t size) { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept { std::free(memory); }

namespace varve {
namespace {

/// Each allocation of what makes layers fails in turn, alone. The C library ends this program where memory is freed
/// twice.
TEST(Allocation, WhicheverFailsNoMemoryIsFreedTwice) {
  RadixNet const source(1024, 4, 1);
  auto const layer = source.layer(1);
  for (std::function<void()> const& work : std::initializer_list<std::function<void()>>{
           [&] { source.layer(1); }, [&] { passing_copy(layer); },
           [&] { PrunedNetwork(source, 0.01, PruneScope::layer).layer(1); },
           [&] { ReducedNetwork(source, {}, std::size_t{1} << 30U).layer(1); }}) {
    int num_failed = 0;
    for (bool is_done = false; !is_done;) {
      num_until_failure = num_failed;
      try {
        work();
        is_done = true;
      } catch (std::bad_alloc const&) {
        ++num_failed;
      }
      num_until_failure = -1;
    }
    EXPECT_GT(num_failed, 3);
  }
}

} // namespace
} // namespace varve
