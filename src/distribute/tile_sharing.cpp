#include "distribute/tile_sharing.hpp"

#include "core/host.hpp"
#include "io/json_text.hpp"

#include <nlohmann/json.hpp>

namespace varve {

TileSharing::~TileSharing() {
  leave_();
  communicator_.sum(std::uint64_t{0}); // the memory of a rank goes after all others have let it go
}

std::vector<std::optional<PeerOffer>> TileSharing::exchange(PeerOffer const& mine) const {
  auto const host = host_name();
  auto const texts = communicator_.gather(json_text(nlohmann::ordered_json{{"host", host},
                                                                           {"layout", mine.layout},
                                                                           {"words", mine.words},
                                                                           {"slots", mine.slots},
                                                                           {"device", mine.device},
                                                                           {"obstacle", mine.obstacle}}));
  auto const all = nlohmann::json::parse(communicator_.broadcast(json_text(nlohmann::ordered_json(texts))));
  std::vector<std::optional<PeerOffer>> offers;
  for (auto const& text : all) {
    auto const their = nlohmann::json::parse(text.get<std::string>());
    bool const is_own = offers.size() == static_cast<std::size_t>(communicator_.rank());
    if (is_own || their["host"] != host) {
      offers.emplace_back();
    } else {
      offers.push_back(PeerOffer{their["layout"], their["words"], their["slots"], their["device"], their["obstacle"]});
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
