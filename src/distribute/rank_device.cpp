#include "distribute/rank_device.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/repeated.hpp"
#include "core/runtime.hpp"
#include "distribute/agreement.hpp"
#include "io/checksum.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace varve {

RankDevice device_of_this_rank(Backend backend) {
  return {host_name(), device_name(backend), device_identity(backend)};
}

std::size_t num_ranks_with(Communicator const& communicator, std::string const& text) {
  auto const mine = checksum(text);
  return static_cast<std::size_t>(std::ranges::count(communicator.gather_everywhere({mine}), mine));
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

RankPlaces place_ranks(Communicator const& communicator, Backend backend, bool share_devices) {
  auto const own = device_of_this_rank(backend);
  std::vector<RankDevice> devices;
  for (auto const& one : gather_json(communicator, {own.host, own.device, own.identity}))
    devices.push_back({one[0], one[1], one[2]});
  communicator.together([&] {
    if (!share_devices) require_own_devices(devices);
  });
  return {own, devices, num_ranks_with(communicator, own.identity.empty() ? own.host : own.identity),
          num_ranks_with(communicator, own.host)};
}

} // namespace varve
