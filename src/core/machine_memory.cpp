#include "core/machine_memory.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/runtime.hpp"

#include <sstream>

namespace varve {
namespace {

/// Lines: machine, layout, GPU, obstacle, then, unless there is an obstacle, the handles of bytes, words and marks.
std::string offer_of(MachineMemory::OfRank const& rank, std::string const& layout) {
  auto lines = host_name() + "\n" + layout + "\n" + rank.device + "\n" + rank.obstacle;
  if (!rank.obstacle.empty()) return lines;
  lines += "\n" + rank.bytes->handle() + "\n" + rank.words->handle();
  for (auto const& mark : rank.marks) lines += "\n" + mark->handle();
  return lines;
}

} // namespace

MachineMemory::MachineMemory(DeviceMemory const& memory, std::size_t rank, Gather const& gather, Sizes const& sizes,
                             std::string const& layout, std::string const& obstacle)
    : memory_(memory), host_(device_memory(backend_of_host(memory.backend()))), rank_(rank), ranks_(rank + 1) {
  auto& mine = ranks_[rank];
  mine.obstacle = obstacle;
  mine.device = device_identity(memory.backend());
  try {
    if (obstacle.empty()) {
      mine.words = host_.new_peer_memory(sizes.num_words * sizeof(std::uint64_t));
      mine.bytes = memory_.new_peer_memory(sizes.bytes);
      for (std::size_t mark = 0; mark < sizes.num_marks; ++mark) mine.marks.push_back(memory_.new_peer_mark());
    }
  } catch (ResourceError const& error) {
    mine.obstacle = error.what();
  }
  auto const offers = gather(offer_of(mine, layout));
  ranks_.resize(offers.size());
  for (std::size_t other = 0; other < offers.size(); ++other) {
    if (other == rank) continue;
    try {
      open(ranks_[other], offers[other], layout);
    } catch (ResourceError const& error) {
      ranks_[other].obstacle = error.what();
    }
  }
}

void MachineMemory::open(OfRank& rank, std::string const& offer, std::string const& layout) const {
  std::istringstream lines(offer);
  auto const next = [&] {
    std::string line;
    std::getline(lines, line);
    return line;
  };
  rank.is_near = next() == host_name();
  if (!rank.is_near) throw ResourceError("it runs on another machine");
  if (auto const other = next(); other != layout) throw ResourceError("its memory has another layout (" + other + ")");
  rank.device = next();
  if (auto const obstacle = next(); !obstacle.empty()) throw ResourceError(obstacle);
  if (!own().obstacle.empty()) throw ResourceError("this rank shares none: " + own().obstacle);
  rank.distance = memory_.distance_to(rank.device);
  rank.bytes = memory_.open_peer_memory(next());
  rank.words = host_.open_peer_memory(next());
  for (std::size_t mark = 0; mark < own().marks.size(); ++mark) rank.marks.push_back(memory_.open_peer_mark(next()));
}

void MachineMemory::leave() {
  for (auto& rank : ranks_)
    if (&rank != &own()) rank = {};
}

} // namespace varve
