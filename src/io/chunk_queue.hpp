#pragma once

#include "core/host_threads.hpp"
#include "core/spare_vectors.hpp"
#include "io/chunk_decoder.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace varve {

/// A chunk as it is stored, and those of its numbers that are wanted.
template <class Element>
struct StoredChunk {
  std::vector<char> bytes; ///< of SpareVectors
  std::vector<ChunkRun<Element>> runs;
};

/// Chunks that one thread reads and all threads decode. At most two chunks per helper wait to be decoded.
template <class Element>
class ChunkQueue {
public:
  using Accepts = std::function<bool(std::span<Element const>)>;

  /// Decodes on the calling thread and on up to `num_helpers` others, as far as threads are idle. `accepts`, if there
  /// is one, judges each run of decoded numbers.
  ChunkQueue(ChunkFormat const& format, std::size_t num_helpers, Accepts accepts = {})
      : format_(format),
        decoder_(format),
        accepts_(std::move(accepts)),
        num_helpers_(num_helpers),
        helpers_(num_helpers, [this] { help(); }) {}
  ~ChunkQueue() { close(); }
  ChunkQueue(ChunkQueue const&) = delete;
  ChunkQueue& operator=(ChunkQueue const&) = delete;

  /// Adds a chunk; decodes one if enough wait. Returns false once a chunk could not be decoded. Throws std::bad_alloc
  /// if memory was lacking for that, on any thread.
  bool add(StoredChunk<Element> chunk) {
    if (num_helpers_ == 0) {
      decode(decoder_, std::move(chunk));
      return is_well();
    }
    StoredChunk<Element> mine;
    {
      std::lock_guard const lock(guard_);
      if (waiting_.size() >= 2 * num_helpers_) mine = taken();
      waiting_.push_back(std::move(chunk));
    }
    added_.notify_one();
    if (!mine.bytes.empty()) decode(decoder_, std::move(mine));
    return is_well();
  }

  /// Returns once all chunks are decoded: true if all could be. Throws as add() does.
  bool finish() {
    for (std::unique_lock lock(guard_); !waiting_.empty() && !has_failed_;) {
      auto chunk = taken();
      lock.unlock();
      decode(decoder_, std::move(chunk));
      lock.lock();
    }
    close();
    return is_well();
  }

private:
  bool is_well() {
    if (!has_failed_) return true;
    std::lock_guard const lock(guard_);
    if (failure_) std::rethrow_exception(failure_);
    return false;
  }

  /// Call it under the guard.
  StoredChunk<Element> taken() {
    auto chunk = std::move(waiting_.front());
    waiting_.pop_front();
    return chunk;
  }

  void decode(ChunkDecoder& decoder, StoredChunk<Element> chunk) noexcept {
    try {
      if (!decoder.decode<Element>(chunk.bytes, std::span<ChunkRun<Element> const>(chunk.runs))) has_failed_ = true;
      SpareVectors<char>::of_process().give_back(std::move(chunk.bytes));
      if (!accepts_ || has_failed_) return;
      for (auto const& run : chunk.runs)
        if (!accepts_(run.elements)) has_failed_ = true;
    } catch (std::exception const&) { // no memory
      std::lock_guard const lock(guard_);
      failure_ = std::current_exception();
      has_failed_ = true;
    }
  }

  void help() noexcept {
    ChunkDecoder decoder(format_);
    for (std::unique_lock lock(guard_);;) {
      added_.wait(lock, [&] { return !waiting_.empty() || is_closed_; });
      if (waiting_.empty()) return;
      auto chunk = taken();
      lock.unlock();
      if (!has_failed_) decode(decoder, std::move(chunk));
      lock.lock();
    }
  }

  void close() {
    {
      std::lock_guard const lock(guard_);
      is_closed_ = true;
    }
    added_.notify_all();
    helpers_.end();
  }

  ChunkFormat format_;
  ChunkDecoder decoder_; ///< of the thread that owns this object
  Accepts accepts_;
  std::mutex guard_;
  std::condition_variable added_;
  std::deque<StoredChunk<Element>> waiting_;
  bool is_closed_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> has_failed_ = false;
  std::size_t num_helpers_;
  HostHelpers helpers_; ///< last, so that they end before what they use
};

} // namespace varve
