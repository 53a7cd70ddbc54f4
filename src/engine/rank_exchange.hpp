#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace varve {

/// Host memory that is sent to a rank, or received from it.
struct RankBytes {
  std::size_t rank = 0;
  std::byte* bytes = nullptr;
  std::size_t size = 0;
};

/// The messages of a transfer.
struct RankMessages {
  std::vector<RankBytes> sent, received;
  double bytes_read = 0.0; ///< bytes that other ranks read from this rank's memory because of these messages
};

/// Messages between ranks that run or train one network together: activations, sums of gradients, new weights, losses.
/// All ranks must start the same transfers and call the gather functions, which are collectives, in the same order. An
/// object of this class itself is for a single rank, which has nothing to send.
class RankExchange {
public:
  /// The size of every part of gather_parts() is a multiple of this many bytes.
  static constexpr std::size_t granularity = 256;

  virtual ~RankExchange() = default;

  virtual std::size_t rank() const { return 0; }
  virtual std::size_t num_ranks() const { return 1; }

  /// Starts transfer `number` and returns at once: sends and receives these pieces of memory, which must stay valid
  /// until the transfer is over. Pieces between the same two ranks are matched in order. `number` must differ from all
  /// transfers in progress; different ranks may start transfers in different orders.
  virtual void start(int /*number*/, std::vector<RankBytes> const& /*sent*/,
                     std::vector<RankBytes> const& /*received*/) {}

  /// Returns true once transfer `number` is over, and then forgets it.
  virtual bool is_over(int /*number*/) { return true; }

  /// Gathers the numbers, or the texts, of all ranks on every rank, in rank order.
  virtual std::vector<double> gather(std::vector<double> const& numbers) { return numbers; }
  virtual std::vector<std::uint64_t> gather(std::vector<std::uint64_t> const& numbers) { return numbers; }
  virtual std::vector<std::string> gather(std::string const& text) { return {text}; }

  /// Gathers the numbers of all ranks on rank 0, in rank order; other ranks get an empty list.
  virtual std::vector<double> gather_on_root(std::vector<double> const& numbers) { return numbers; }

  /// True if the parts of gather_parts() may be in the device memory of this backend; else they must be in host memory.
  virtual bool reaches_memory_of(Backend /*backend*/) const { return true; }

  /// Fills `parts` with the parts of all ranks, contiguous in rank order; this rank's own part must be in place
  /// already. `sizes`: bytes of each rank's part.
  virtual void gather_parts(std::byte* /*parts*/, std::vector<std::size_t> const& /*sizes*/) {}
};

} // namespace varve
