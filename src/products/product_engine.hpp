#pragma once

#include "core/backend.hpp"
#include "core/stopwatch.hpp"
#include "products/product_tiles.hpp"
#include "products/tile_reader.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// A and B as they are stored, and whether op() transposes them. Another thread than that of run() reads them.
template <class Scalar>
struct ProductInputs {
  ReadBlock<Scalar> a;
  ReadBlock<Scalar> b;
  bool transpose_a = false;
  bool transpose_b = false;
  std::function<void()> before_step = {}; ///< called before each step of a task; what it throws ends the run
};

/// The finished sums of a task, which begin at 0 and take the products in ascending order of k. They lie in blocks of
/// block_rows x block_columns numbers, row by row; the numbers of the task begin at (skipped_rows, skipped_columns) of
/// the first block, all others are padding.
template <class Scalar>
struct TileSums {
  Scalar const* sums = nullptr;
  MatrixBlock block; ///< of C
  std::size_t block_rows = 1;
  std::size_t block_columns = 1;
  std::size_t skipped_rows = 0;    ///< less than block_rows
  std::size_t skipped_columns = 0; ///< less than block_columns

  std::size_t blocks_across() const {
    return (skipped_columns + static_cast<std::size_t>(block.num_columns) + block_columns - 1) / block_columns;
  }
};

/// What is made of the sums of op(A) op(B): C = alpha * sum + beta * C0.
struct ProductScaling {
  double alpha = 1.0;
  double beta = 0.0; ///< without C0 it has no effect
};

/// Writes the numbers of a tile row by row to `values` and returns their hash: alpha * sum in double, or with `added`
/// fma(alpha, sum, beta * added), rounded once more to Scalar; never -0. The hash is the sum over all tiles of the
/// fingerprints of nonzero numbers, modulo 2^64 (see activation_fingerprint), so it does not depend on the tiles.
/// It is that of hash_of_block(). `added`: the numbers of C0 row by row, or null. Throws InputError, naming row and
/// column, if a number is not finite.
template <class Scalar>
std::uint64_t finish_tile(TileSums<Scalar> const& sums, ProductScaling const& scaling, Scalar const* added,
                          Scalar* values);

/// How other ranks of a machine can copy the packed tiles of a rank.
struct PeerOffer {
  std::string layout; ///< how tiles are packed, and where they lie: only ranks of one layout share tiles
  std::string words;  ///< handle of the words of its TileDirectory
  std::string slots;  ///< handle of the memory of its tiles
  std::string device; ///< identity of its GPU; empty on hosts

  std::string obstacle; ///< why the rank offers no tiles; empty if it does
};

/// What came from other ranks of the machine, to this rank's device.
struct PeerTraffic {
  std::uint64_t num_copied = 0; ///< tiles
  std::uint64_t num_lost = 0;   ///< tiles that were expected there, but had to be read
  double bytes = 0.0;           ///< numbers of A and B
  double wait_seconds = 0.0; ///< for tiles that others bring, and for others to finish copies of tiles to be replaced
};

/// What a device read and kept.
struct ProductTraffic {
  std::uint64_t num_hits = 0;   ///< tiles found on the device
  std::uint64_t num_misses = 0; ///< tiles that were brought to it
  double brought_bytes = 0.0;   ///< numbers of A and B brought to it
  double all_bytes = 0.0;       ///< numbers that would have been brought without a cache
  double read_seconds = 0.0;    ///< reading tiles from host memory or files, while the device computes
  double wait_seconds = 0.0;    ///< the thread that starts kernels waited for tiles, or for room for finished sums
  double take_seconds = 0.0;    ///< handing over finished sums, while the device computes
  PeerTraffic peers;            ///< part of the misses and of the bytes brought: from other ranks of the machine
};

/// Something that a rank did for a product, in seconds from the start of its run.
struct ProductEvent {
  enum class What {
    task,   ///< from the first step of a task until its numbers were handed over
    copy,   ///< reading a tile of A or B
    wait,   ///< of the thread that starts kernels: for a tile, or for room for finished sums
    finish, ///< scaling and storing a finished task
    steal   ///< taking a task from another rank's station
  };
  static constexpr std::size_t num_kinds = 5;

  What what = What::task;
  std::size_t lane = 0; ///< of the tasks that a rank has side by side
  std::uint64_t task = 0;
  double begin = 0.0;
  double end = 0.0;
};

/// The name of a kind of event in reports.
char const* name_of(ProductEvent::What what);

/// The events of a rank. Of each kind at most `most_of_a_kind` are kept: if there are more, the shorter half goes.
class ProductTimeline {
public:
  static constexpr std::size_t most_of_a_kind = 1000;

  /// Begins anew, at 0 seconds.
  void restart();
  double now() const { return clock_.seconds(); }

  void add(ProductEvent const& event);

  /// All kept events, by their begin.
  std::vector<ProductEvent> events() const;

  /// Events that are not kept.
  std::uint64_t num_dropped() const { return num_dropped_; }

private:
  Stopwatch clock_;
  std::array<std::vector<ProductEvent>, ProductEvent::num_kinds> kinds_;
  std::uint64_t num_dropped_ = 0;
};

/// Who adds up the products of a tile.
enum class ProductWay {
  own,    ///< Varve's kernel: one chain of fma for each number, so the same bits everywhere
  library ///< gemm of Kokkos Kernels, which may call a BLAS such as cuBLAS: bits of the library
};

/// Computes tiles of C = op(A) op(B) on a device, whose memory may be smaller than the matrices. Tiles of A and B are
/// kept there, packed, until others need the room.
template <class Scalar>
class ProductEngine {
public:
  using Next = std::function<std::optional<std::uint64_t>()>;
  using Take = std::function<void(std::uint64_t task, TileSums<Scalar> const& sums)>;

  virtual ~ProductEngine() = default;

  /// Computes the tasks that next() returns until it returns none, several side by side; hands each to take(), which
  /// another thread calls, for one task after the other. The sums are valid during the call of take() only. What
  /// reading, next() or take() throw ends the run.
  virtual void run(Next const& next, Take const& take) = 0;

  /// How many tiles of the inputs of a task are on the device.
  virtual std::uint64_t num_kept(std::uint64_t task) const = 0;

  virtual ProductMemory const& memory() const = 0;
  virtual ProductTraffic traffic() const = 0;

  /// The second level of the cache: tiles that other ranks of the machine have on their devices are copied from there.
  /// Before the first run, offer_tiles() tells them how; open_peers() takes their offers, by rank, without its own and
  /// those of other machines, and returns why each of them is not used, if so. The result has the same bits either way.
  /// All call leave_peers() after the last run, before one of the engines goes.
  virtual PeerOffer offer_tiles() = 0;
  virtual std::vector<std::string> open_peers(std::vector<std::optional<PeerOffer>> const& offers) = 0;
  virtual void leave_peers() = 0;

  /// What run() did and when; others may add what they do in next().
  virtual ProductTimeline& timeline() = 0;
};

/// An engine on a backend that may take this many bytes of its memory. Throws UsageError if the build lacks the
/// backend, or Kokkos Kernels for the way of the library; ResourceError if the memory does not suffice. (float and
/// double)
template <class Scalar>
std::unique_ptr<ProductEngine<Scalar>>
make_product_engine(Backend backend, ProductTiles const& tiles, std::size_t memory_limit,
                    ProductInputs<Scalar> const& inputs, ProductWay way = ProductWay::own);

/// True if this build has Kokkos Kernels. Without, UsageError is thrown for ProductWay::library.
bool has_library_product();

/// What plan_product() and choose_tile() need to know of a backend.
template <class Scalar>
ProductDevice product_device(Backend backend, std::size_t memory_limit);

/// The bytes that a product takes of a device, which so many processes share, if nothing else is said: nine tenths of
/// what is free, on hosts half of it.
std::size_t default_product_memory(Backend backend, std::size_t num_sharing = 1);

/// The rows of a tile if nothing else is said: many tiles that fit the device. (float and double)
template <class Scalar>
std::uint64_t default_product_tile(ProductShape const& shape, Backend backend, std::size_t memory_limit);

/// make_product_engine() and product_device() for one backend, in a file that the build makes from backend.cpp.in.
template <Backend backend, class Scalar>
std::unique_ptr<ProductEngine<Scalar>> product_engine_on(ProductTiles const& tiles, std::size_t memory_limit,
                                                         ProductInputs<Scalar> const& inputs);
template <Backend backend, class Scalar>
ProductDevice product_device_on(std::size_t memory_limit);

/// The way of the library on one backend, in a file that builds with Kokkos Kernels make from library.cpp.in.
template <Backend backend, class Scalar>
std::unique_ptr<ProductEngine<Scalar>> library_product_on(ProductTiles const& tiles, std::size_t memory_limit,
                                                          ProductInputs<Scalar> const& inputs);

} // namespace varve
