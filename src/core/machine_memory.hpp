#pragma once

#include "core/device_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// Memory of a machine's ranks that the other ranks read directly: bytes of its device, marks in the work on them, and
/// words of its host that all may change atomically. By IPC of CUDA or HIP on GPUs, by memory files on hosts.
class MachineMemory {
public:
  /// Sizes for one rank.
  struct Sizes {
    std::size_t bytes = 0;     ///< on the device
    std::size_t num_marks = 0; ///< equal on all ranks
    std::size_t num_words = 0; ///< equal on all ranks; the words are zero at the start
  };

  /// The texts of all ranks, in rank order. Collective.
  using Gather = std::function<std::vector<std::string>(std::string const& text)>;

  struct OfRank {
    std::string obstacle; ///< why this rank cannot open the memory of the other rank; empty if it can
    bool is_near = true;  ///< the other rank runs on this machine
    std::string device;   ///< identity of its GPU; empty on hosts
    int distance = 0;     ///< distance of its device from this one (DeviceMemory::distance_to())
    std::unique_ptr<PeerMemory> bytes, words;
    std::vector<std::unique_ptr<PeerMark>> marks;

    std::uint64_t* first_word() const { return reinterpret_cast<std::uint64_t*>(words->data()); }
  };

  /// Allocates this rank's memory and opens that of the others. Collective. `layout`: names its use; memory of another
  /// layout is not opened. `obstacle`: the reason why this rank neither allocates nor opens any, unless empty.
  MachineMemory(DeviceMemory const& memory, std::size_t rank, Gather const& gather, Sizes const& sizes,
                std::string const& layout, std::string const& obstacle = {});

  /// By rank, including this one.
  std::vector<OfRank> const& ranks() const { return ranks_; }
  OfRank const& own() const { return ranks_[rank_]; }

  /// Closes the memory of all other ranks. All ranks must call it before the first of these objects is destroyed.
  void leave();

private:
  void open(OfRank& rank, std::string const& offer, std::string const& layout) const;

  DeviceMemory const& memory_;
  DeviceMemory const& host_;
  std::size_t rank_;
  std::vector<OfRank> ranks_;
};

} // namespace varve
