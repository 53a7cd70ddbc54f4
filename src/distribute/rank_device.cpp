#include "distribute/rank_device.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/runtime.hpp"

#include <cstddef>
#include <map>
#include <string>

namespace varve {
RankDevice device_of_this_rank(Backend backend) {
  return {host_name(), device_name(backend), device_identity(backend)};
}

std::string kind_of(RankDevice const& device) { return device.device.substr(0, device.device.find(" (device ")); }

void require_own_devices(std::vector<RankDevice> const& devices) {
  std::map<std::string, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank].identity.empty()) continue;
    auto const [place, is_new] = rank_of.emplace(devices[rank].identity, rank);
    if (is_new) continue;
    throw ResourceError("ranks " + std::to_string(place->second) + " and " + std::to_string(rank) + " on " +
                        devices[rank].host + " would share " + devices[rank].device +
                        "; start as many ranks as there are devices, or add --share-devices");
  }
}

} // namespace varve
