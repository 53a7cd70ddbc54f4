#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

/// How ranks that share the neurons of one network, each computing some outputs of every layer, hand each other what
/// they have computed. All ranks call gather and gather_parts in the same order.
class ActivationExchange {
public:
  /// Parts are multiples of so many bytes.
  static constexpr std::size_t granularity = 256;

  virtual ~ActivationExchange() = default;

  virtual int rank() const = 0;
  virtual int num_ranks() const = 0;

  /// True if parts may lie in the device memory of this backend; else they must lie in host memory.
  virtual bool reaches_memory_of(Backend backend) const = 0;

  /// The numbers of all ranks, in rank order, on every rank.
  virtual std::vector<std::uint64_t> gather(std::vector<std::uint64_t> const& numbers) = 0;

  /// Fills `parts` with the parts of all ranks, one behind the other in rank order; this rank's own is there already.
  /// `sizes`: bytes of each rank's part.
  virtual void gather_parts(std::byte* parts, std::vector<std::size_t> const& sizes) = 0;
};

} // namespace varve
