#include "network/sample_memory.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace varve {

SampleMemory::SampleMemory(Source source, bool is_narrow) : source_(std::move(source)), is_narrow_(is_narrow) {}

SampleMemory::~SampleMemory() {
  for (auto const& block : free_) source_.free(block.address);
}

std::shared_ptr<void> SampleMemory::take(std::size_t bytes) {
  auto block = reuse(bytes);
  if (block.address == nullptr) block = allocate(bytes);
  if (block.address == nullptr) return nullptr;
  return {block.address, [memory = shared_from_this(), block](void*) { memory->give_back(block); }};
}

/// The smallest free block that is large enough. If all are too small, the largest of them is freed, because the new
/// block takes its place.
SampleMemory::Block SampleMemory::reuse(std::size_t bytes) {
  std::lock_guard const lock(guard_);
  if (free_.empty()) return {};
  std::ranges::sort(free_, {}, &Block::bytes);
  auto const found = std::ranges::lower_bound(free_, bytes, {}, &Block::bytes);
  if (found != free_.end()) {
    auto const block = *found;
    free_.erase(found);
    return block;
  }
  source_.free(free_.back().address);
  free_.pop_back();
  return {};
}

/// A sixteenth more than is asked for, because the next batch may have a few more entries.
SampleMemory::Block SampleMemory::allocate(std::size_t bytes) const {
  auto const wanted = std::max<std::size_t>(bytes + bytes / 16, 1);
  try {
    return {source_.allocate(wanted), wanted};
  } catch (std::exception const&) { // bad_alloc; Kokkos throws others as well
    return {};
  }
}

void SampleMemory::give_back(Block block) {
  std::lock_guard const lock(guard_);
  free_.push_back(block);
}

} // namespace varve
