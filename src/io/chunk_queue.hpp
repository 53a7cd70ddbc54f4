#pragma once

#include "core/host_threads.hpp"
#include "io/chunk_decoder.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace varve {

/// A chunk as it is stored, and those of its numbers that are wanted.
template <class Element>
struct StoredChunk {
  std::vector<char> bytes;
  std::vector<ChunkRun<Element>> runs;
};

/// Chunks that one thread reads and all threads decode. At most two chunks per thread wait to be decoded.
template <class Element>
class ChunkQueue {
public:
  using Accepts = std::function<bool(std::span<Element const>)>;

  /// Decodes on the calling thread and on up to `num_helpers` others. `accepts`, if there is one, judges each run of
  /// decoded numbers.
  ChunkQueue(ChunkFormat const& format, std::size_t num_helpers, Accepts accepts = {})
      : format_(format), decoder_(format), accepts_(std::move(accepts)) {
    try {
      helpers_.reserve(num_helpers);
      for (std::size_t helper = 0; helper < num_helpers; ++helper)
        helpers_.emplace_back([this] {
          use_allowed_processors();
          help();
        });
    } catch (std::exception const&) { // the system grants no more threads or no memory for them
    }
  }
  ~ChunkQueue() { close(); }
  ChunkQueue(ChunkQueue const&) = delete;
  ChunkQueue& operator=(ChunkQueue const&) = delete;

  /// Adds a chunk; decodes one if enough wait. Returns false once a chunk could not be decoded.
  bool add(StoredChunk<Element> chunk) {
    if (helpers_.empty()) {
      decode(decoder_, chunk);
      return !has_failed_;
    }
    StoredChunk<Element> mine;
    {
      std::lock_guard const lock(guard_);
      if (waiting_.size() >= 2 * helpers_.size()) mine = taken();
      waiting_.push_back(std::move(chunk));
    }
    added_.notify_one();
    if (!mine.bytes.empty()) decode(decoder_, mine);
    return !has_failed_;
  }

  /// Returns once all chunks are decoded: true if all could be.
  bool finish() {
    for (std::unique_lock lock(guard_); !waiting_.empty() && !has_failed_;) {
      auto const chunk = taken();
      lock.unlock();
      decode(decoder_, chunk);
      lock.lock();
    }
    close();
    return !has_failed_;
  }

private:
  /// Call it under the guard.
  StoredChunk<Element> taken() {
    auto chunk = std::move(waiting_.front());
    waiting_.pop_front();
    return chunk;
  }

  void decode(ChunkDecoder& decoder, StoredChunk<Element> const& chunk) noexcept {
    try {
      if (!decoder.decode<Element>(chunk.bytes, std::span<ChunkRun<Element> const>(chunk.runs))) has_failed_ = true;
      if (!accepts_ || has_failed_) return;
      for (auto const& run : chunk.runs)
        if (!accepts_(run.elements)) has_failed_ = true;
    } catch (std::exception const&) { // no memory
      has_failed_ = true;
    }
  }

  void help() {
    ChunkDecoder decoder(format_);
    for (std::unique_lock lock(guard_);;) {
      added_.wait(lock, [&] { return !waiting_.empty() || is_closed_; });
      if (waiting_.empty()) return;
      auto const chunk = taken();
      lock.unlock();
      if (!has_failed_) decode(decoder, chunk);
      lock.lock();
    }
  }

  void close() {
    {
      std::lock_guard const lock(guard_);
      is_closed_ = true;
    }
    added_.notify_all();
    helpers_.clear();
  }

  ChunkFormat format_;
  ChunkDecoder decoder_; ///< of the thread that owns this object
  Accepts accepts_;
  std::mutex guard_;
  std::condition_variable added_;
  std::deque<StoredChunk<Element>> waiting_;
  bool is_closed_ = false;
  std::atomic<bool> has_failed_ = false;
  std::vector<std::jthread> helpers_; ///< last, so that they end before what they use
};

} // namespace varve
