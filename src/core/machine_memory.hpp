#pragma once

#include "core/device_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// Memory of each rank of a machine that the others read where it lies: bytes of its device, marks in the work on them,
/// and words of its host that all may change atomically. By IPC of CUDA or HIP on GPUs, in files of memory on hosts.
class MachineMemory {
public:
  /// Of one rank.
  struct Sizes {
    std::size_t bytes = 0;     ///< on the device
    std::size_t num_marks = 0; ///< equal on all ranks
    std::size_t num_words = 0; ///< equal on all ranks; the words are zero at the start
  };

  /// The texts of all ranks, in rank order. Collective.
  using Gather = std::function<std::vector<std::string>(std::string const& text)>;

  struct OfRank {
    std::string obstacle; ///< why the memory of the rank is not open here; empty if it is
    bool is_near = true;  ///< the rank runs on this machine
    std::string device;   ///< identity of its GPU; empty on hosts
    int distance = 0;     ///< of its device from this one (DeviceMemory::distance_to())
    std::unique_ptr<PeerMemory> bytes, words;
    std::vector<std::unique_ptr<PeerMark>> marks;

    std::uint64_t* first_word() const { return reinterpret_cast<std::uint64_t*>(words->data()); }
  };

  /// Makes the memory of this rank and opens that of the others. Collective. `layout`: how it is used; memory of
  /// another layout is not opened. `obstacle`: why this rank makes none and opens none, unless empty.
  MachineMemory(DeviceMemory const& memory, std::size_t rank, Gather const& gather, Sizes const& sizes,
                std::string const& layout, std::string const& obstacle = {});

  /// By rank, the own one as well.
  std::vector<OfRank> const& ranks() const { return ranks_; }
  OfRank const& own() const { return ranks_[rank_]; }

  /// Lets the memory of the others go: all ranks do, before the first of these objects is destroyed.
  void leave();

private:
  void make(Sizes const& sizes);
  void open(OfRank& rank, std::string const& offer, std::string const& layout) const;

  DeviceMemory const& memory_;
  DeviceMemory const& host_;
  std::size_t rank_;
  std::vector<OfRank> ranks_;
};

} // namespace varve
