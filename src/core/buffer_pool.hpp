#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// Large vectors that their owners no longer need, kept for reuse in the process: fresh memory from the system costs a
/// page fault per 4 KiB, which takes longer than computing its contents.
template <class T>
class BufferPool {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  /// Never destroyed: threads may recycle vectors while static objects are destroyed.
  static BufferPool& of_process() {
    static auto& vectors = *new BufferPool;
    return vectors;
  }

  /// A vector of `size` elements with unspecified values.
  std::vector<T> take(std::size_t size) {
    auto vector = found(size);
    vector.resize(size);
    return vector;
  }

  /// Keeps a vector, or frees it: small ones always, large ones if 64 MiB are kept already.
  void recycle(std::vector<T> vector) noexcept {
    auto const bytes = vector.capacity() * sizeof(T);
    std::lock_guard const lock(guard_);
    if (bytes < min_bytes || kept_bytes_ + bytes > max_bytes) return;
    try {
      kept_.push_back(std::move(vector));
      kept_bytes_ += bytes;
    } catch (std::bad_alloc const&) { // frees the vector
    }
  }

private:
  static constexpr std::size_t min_bytes = std::size_t{1} << 15;
  static constexpr std::size_t max_bytes = std::size_t{1} << 26;

  BufferPool() = default; // does not allocate: destructors may be its first users

  /// The kept vector with the least sufficient capacity, unless that is far larger; else an empty one.
  std::vector<T> found(std::size_t size) {
    if (size * sizeof(T) < min_bytes / 2) return {};
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
