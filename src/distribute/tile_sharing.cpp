#include "distribute/tile_sharing.hpp"

#include "core/host.hpp"
#include "distribute/agreement.hpp"
#include "io/json_text.hpp"

#include <nlohmann/json.hpp>

namespace varve {

TileSharing::~TileSharing() {
  leave_();
  communicator_.sum(std::uint64_t{0}); // the memory of a rank goes after all others have let it go
}

std::vector<std::optional<PeerOffer>> TileSharing::exchange(PeerOffer const& mine) const {
  auto const host = host_name();
  auto const gathered =
      gather_json(communicator_, {host, mine.layout, mine.words, mine.slots, mine.device, mine.obstacle});
  std::vector<std::optional<PeerOffer>> offers;
  for (auto const& their : nlohmann::json::parse(communicator_.broadcast(json_text(gathered)))) {
    bool const is_own = offers.size() == static_cast<std::size_t>(communicator_.rank());
    if (is_own || their[0] != host) {
      offers.emplace_back();
    } else {
      offers.push_back(PeerOffer{their[1], their[2], their[3], their[4], their[5]});
    }
  }
  return offers;
}

void TileSharing::set_peers(std::vector<std::optional<PeerOffer>> const& offers,
                            std::vector<std::string> const& obstacles) {
  for (std::size_t rank = 0; rank < offers.size(); ++rank)
    if (offers[rank]) peers_.push_back({static_cast<int>(rank), obstacles[rank]});
}

} // namespace varve
