#include "distribute/rank_device.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/repeated.hpp"
#include "core/runtime.hpp"

#include <string>
#include <vector>

namespace varve {
RankDevice device_of_this_rank(Backend backend) {
  return {host_name(), device_name(backend), device_identity(backend)};
}

std::string kind_of(RankDevice const& device) { return device.device.substr(0, device.device.find(" (device ")); }

void require_own_devices(std::vector<RankDevice> const& devices) {
  std::vector<std::string> identities;
  for (auto const& device : devices) identities.push_back(device.identity);
  auto const ranks = first_repeated(identities);
  if (!ranks) return;
  auto const& shared = devices[ranks->second];
  throw ResourceError("ranks " + std::to_string(ranks->first) + " and " + std::to_string(ranks->second) + " on " +
                      shared.host + " would share " + shared.device +
                      "; start as many ranks as there are devices, or add --share-devices");
}

} // namespace varve
