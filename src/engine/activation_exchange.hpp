#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

/// Exchange of activations between ranks that split the neurons of one network: each rank computes some outputs of
/// every layer and needs those of all ranks. All ranks call gather() and gather_parts() in the same order
/// (collectives).
class ActivationExchange {
public:
  /// The size of every part is a multiple of this many bytes.
  static constexpr std::size_t granularity = 256;

  virtual ~ActivationExchange() = default;

  virtual int rank() const = 0;
  virtual int num_ranks() const = 0;

  /// True if parts may lie in the device memory of this backend; else they must lie in host memory.
  virtual bool reaches_memory_of(Backend backend) const = 0;

  /// The numbers of all ranks, in rank order, on every rank.
  virtual std::vector<std::uint64_t> gather(std::vector<std::uint64_t> const& numbers) = 0;

  /// Fills `parts` with the parts of all ranks, contiguous in rank order; this rank's own part is in its place already.
  /// `sizes`: bytes of each rank's part.
  virtual void gather_parts(std::byte* parts, std::vector<std::size_t> const& sizes) = 0;
};

} // namespace varve
