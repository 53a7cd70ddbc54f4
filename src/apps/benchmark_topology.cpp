#include "apps/benchmark_machine.hpp"

#if VARVE_HAVE_HWLOC
#include <hwloc.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#endif

namespace varve {

#if VARVE_HAVE_HWLOC

namespace {

using Json = nlohmann::ordered_json;

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

/// Null if hwloc fails.
Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

Json count_of(Topology const& topology, hwloc_obj_type_t type) {
  int const count = hwloc_get_nbobjs_by_type(topology.get(), type);
  return count >= 0 ? Json(count) : Json();
}

/// Caches of data, from the nearest level: how many of which size.
Json caches_of(Topology const& topology) {
  std::map<std::pair<unsigned, std::uint64_t>, int> counts; // by level and bytes
  for (auto const type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE}) {
    for (auto* cache = hwloc_get_next_obj_by_type(topology.get(), type, nullptr); cache != nullptr;
         cache = hwloc_get_next_obj_by_type(topology.get(), type, cache))
      ++counts[{cache->attr->cache.depth, cache->attr->cache.size}];
  }
  auto caches = Json::array();
  for (auto const& [kind, count] : counts)
    caches.push_back({{"level", kind.first}, {"bytes", kind.second}, {"count", count}});
  return caches;
}

Json nodes_of(Topology const& topology) {
  auto nodes = Json::array();
  for (auto* node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, nullptr); node != nullptr;
       node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node))
    nodes.push_back({{"bytes", node->attr->numanode.local_memory}, {"units", hwloc_bitmap_weight(node->cpuset)}});
  return nodes;
}

} // namespace

nlohmann::ordered_json describe_topology() {
  auto const topology = load_topology();
  if (topology == nullptr) return {};
  return {{"packages", count_of(topology, HWLOC_OBJ_PACKAGE)},
          {"cores", count_of(topology, HWLOC_OBJ_CORE)},
          {"units", count_of(topology, HWLOC_OBJ_PU)},
          {"caches", caches_of(topology)},
          {"numa_nodes", nodes_of(topology)}};
}

#else

nlohmann::ordered_json describe_topology() { return {}; }

#endif

} // namespace varve
