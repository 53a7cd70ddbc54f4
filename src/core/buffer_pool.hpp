#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// Large vectors whose owners are done with them, for others in the process who need such vectors: memory from the
/// system costs a page fault for every 4 KiB, which take longer together than it takes to compute what is put there.
template <class T>
class BufferPool {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  /// It is never destroyed: threads may give vectors back when the objects of the process are.
  static BufferPool& of_process() {
    static auto& vectors = *new BufferPool;
    return vectors;
  }

  /// A vector of `size` elements in any state.
  std::vector<T> take(std::size_t size) {
    auto vector = found(size);
    vector.resize(size);
    return vector;
  }

  /// Keeps a vector, or frees it: small ones, and large ones once 64 MiB are kept.
  void recycle(std::vector<T> vector) noexcept {
    auto const bytes = vector.capacity() * sizeof(T);
    std::lock_guard const lock(guard_);
    if (bytes < least_bytes || kept_bytes_ + bytes > most_bytes) return;
    try {
      kept_.push_back(std::move(vector));
      kept_bytes_ += bytes;
    } catch (std::bad_alloc const&) { // frees the vector
    }
  }

private:
  static constexpr std::size_t least_bytes = std::size_t{1} << 15;
  static constexpr std::size_t most_bytes = std::size_t{1} << 26;

  BufferPool() = default; // takes no memory: destructors may be the first to use it

  /// The kept vector with the least sufficient capacity, unless that is far more; else an empty one.
  std::vector<T> found(std::size_t size) {
    if (size * sizeof(T) < least_bytes / 2) return {};
    std::lock_guard const lock(guard_);
    auto best = kept_.end();
    for (auto one = kept_.begin(); one != kept_.end(); ++one)
      if (one->capacity() >= size && (best == kept_.end() || one->capacity() < best->capacity())) best = one;
    if (best == kept_.end() || best->capacity() / 4 > size) return {};
    std::swap(*best, kept_.back());
    auto vector = std::move(kept_.back());
    kept_.pop_back();
    kept_bytes_ -= vector.capacity() * sizeof(T);
    return vector;
  }

  std::mutex guard_;
  std::vector<std::vector<T>> kept_;
  std::size_t kept_bytes_ = 0;
};

} // namespace varve
