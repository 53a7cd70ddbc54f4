#pragma once

#include "io/matrix_block.hpp"
#include "products/job_thread.hpp"
#include "products/product_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace varve {

/// Reads a block of a matrix in host memory or in a file, row by row. May throw.
template <class Scalar>
using ReadBlock = std::function<void(MatrixBlock const& block, Scalar* values)>;

/// Host memory for a tile that was read.
template <class Scalar>
struct TileBuffer {
  Scalar* values = nullptr;
  std::function<void()> await_free; ///< returns when a device has taken what was in it; called by the reading thread
};

/// A tile that was read.
struct ReadTile {
  std::size_t buffer = 0;
  double begin = 0.0; ///< when reading began and ended
  double end = 0.0;
  bool is_elsewhere = false; ///< it was not read, for it can be had from elsewhere
};

/// Reads the tiles that a product will need, in this order, by another thread, while there is a buffer. One thread owns
/// the object and calls its functions.
template <class Scalar>
class TileReader {
public:
  /// `clock` tells the seconds; the reading thread calls it, as it does `read_a` and `read_b`.
  TileReader(ReadBlock<Scalar> read_a, ReadBlock<Scalar> read_b, std::vector<TileBuffer<Scalar>> buffers,
             std::function<double()> clock)
      : read_a_(std::move(read_a)),
        read_b_(std::move(read_b)),
        buffers_(std::move(buffers)),
        clock_(std::move(clock)),
        read_(buffers_.size()) {}

  /// Asks for a tile, after those that were asked for before. It is not read if is_elsewhere(), which the reading
  /// thread calls when it would begin, returns true.
  void want(TileKey::Operand operand, MatrixBlock const& block, std::function<bool()> is_elsewhere = {}) {
    wanted_.push_back({operand, block, std::move(is_elsewhere)});
    begin_reads();
  }

  /// Waits for the first tile that was asked for and not given back. Throws what reading it threw.
  ReadTile next() {
    jobs_.await(num_given_back_ + 1);
    return read_[place_of(num_given_back_)];
  }

  /// Reads the tile of next() after all, if it was not read. Throws what reading it threw.
  ReadTile read_now(TileKey::Operand operand, MatrixBlock const& block) {
    auto& tile = read_[place_of(num_given_back_)];
    read({operand, block, {}}, tile);
    return tile;
  }

  /// The buffer of the tile of next() may be read into once its await_free() returns.
  void give_back() {
    ++num_given_back_;
    begin_reads();
  }

private:
  struct Wanted {
    TileKey::Operand operand;
    MatrixBlock block;
    std::function<bool()> is_elsewhere;
  };

  std::size_t place_of(std::uint64_t number) const { return static_cast<std::size_t>(number % buffers_.size()); }

  void begin_reads() {
    for (; !wanted_.empty() && jobs_.last() < num_given_back_ + buffers_.size(); wanted_.pop_front()) {
      auto const place = place_of(jobs_.last());
      jobs_.add([this, place, wanted = wanted_.front()] {
        buffers_[place].await_free();
        auto& tile = read_[place];
        tile = {place};
        tile.is_elsewhere = wanted.is_elsewhere && wanted.is_elsewhere();
        if (!tile.is_elsewhere) read(wanted, tile);
      });
    }
  }

  /// Reads into the buffer of the tile. One thread reads at a time.
  void read(Wanted const& wanted, ReadTile& tile) {
    std::lock_guard const lock(reading_);
    tile.begin = clock_();
    (wanted.operand == TileKey::Operand::a ? read_a_ : read_b_)(wanted.block, buffers_[tile.buffer].values);
    tile.end = clock_();
    tile.is_elsewhere = false;
  }

  ReadBlock<Scalar> read_a_, read_b_;
  std::vector<TileBuffer<Scalar>> buffers_;
  std::function<double()> clock_;
  std::vector<ReadTile> read_; ///< the last tile of each buffer
  std::deque<Wanted> wanted_;  ///< not begun
  std::uint64_t num_given_back_ = 0;
  std::mutex reading_;
  JobThread jobs_; ///< job n + 1 reads tile n; last, so that it ends before what it uses
};

} // namespace varve
