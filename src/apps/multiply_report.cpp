#include "apps/multiply_report.hpp"

#include "apps/command.hpp"
#include "apps/report_head.hpp"
#include "core/printable.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

double sum(std::vector<Json> const& ranks, char const* name) {
  return std::accumulate(ranks.begin(), ranks.end(), 0.0,
                         [&](double total, Json const& rank) { return total + rank.at(name).get<double>(); });
}

double num_fma(ProductShape const& shape) {
  return static_cast<double>(shape.rows) * static_cast<double>(shape.columns) * static_cast<double>(shape.depth);
}

/// Bytes of A and B that all ranks together must bring to their devices at least; the memory of finished sums counts as
/// cache.
double least_bytes(ProductFacts const& facts) {
  std::vector<double> memories;
  for (auto const& rank : facts.ranks) memories.push_back(rank.at("memory_bytes"));
  return least_traffic(facts.tiles.shape, facts.element_size, memories);
}

/// A tile is a hit of the rank's own device, of another device of its machine, or comes from host memory or a file.
Json cache_of(RankProducts const& rank) {
  auto const& traffic = rank.traffic;
  auto const& peers = traffic.peers;
  Json json = {
      {"tiles",
       {{"own", traffic.num_hits}, {"peers", peers.num_copied}, {"host", traffic.num_misses - peers.num_copied}}},
      {"bytes", {{"peers", peers.bytes}, {"host", traffic.brought_bytes - peers.bytes}}},
      {"lost", peers.num_lost},
      {"peer_wait_seconds", peers.wait_seconds},
      {"peers", Json::array()}};
  for (auto const& peer : rank.peers) {
    json["peers"].push_back({{"rank", peer.rank}, {"used", peer.obstacle.empty()}});
    if (!peer.obstacle.empty()) json["peers"].back()["obstacle"] = peer.obstacle;
  }
  return json;
}

/// What devices copied from each other, and which do not.
void print_peers(std::vector<Json> const& ranks) {
  std::uint64_t num_copied = 0;
  double bytes = 0.0;
  double wait_seconds = 0.0;
  std::size_t num_peers = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    auto const& cache = ranks[rank].at("tile_cache");
    num_copied += cache["tiles"]["peers"].get<std::uint64_t>();
    bytes += cache["bytes"]["peers"].get<double>();
    wait_seconds += cache["peer_wait_seconds"].get<double>();
    num_peers += cache["peers"].size();
    for (auto const& peer : cache["peers"]) {
      if (peer["used"]) continue;
      fmt::print("peers     rank {} copies no tiles from rank {}: {}\n", rank, peer["rank"].get<int>(),
                 printable(peer["obstacle"].get<std::string>()));
    }
  }
  if (num_peers == 0) return;
  fmt::print("peers     {} tiles, {} of what was brought, copied from devices of other ranks; {} waited for them\n",
             num_copied, with_prefix(bytes, "B"), readable_seconds(wait_seconds));
}

} // namespace

Json describe_rank(RankProducts const& rank, ProductTimeline const* timeline) {
  auto const& traffic = rank.traffic;
  Json json = {{"tasks", rank.num_tasks},
               {"seconds", rank.seconds},
               {"memory_bytes", rank.memory_bytes},
               {"hits", traffic.num_hits},
               {"misses", traffic.num_misses},
               {"brought_bytes", traffic.brought_bytes},
               {"bytes_without_cache", traffic.all_bytes},
               {"tile_cache", cache_of(rank)},
               {"read_seconds", traffic.read_seconds},
               {"wait_seconds", traffic.wait_seconds},
               {"finish_seconds", traffic.take_seconds},
               {"events", Json::array()},
               {"dropped_events", timeline == nullptr ? 0 : timeline->num_dropped()}};
  if (timeline == nullptr) return json;
  for (auto const& event : timeline->events()) {
    json["events"].push_back({{"what", name_of(event.what)}, {"begin", event.begin}, {"end", event.end}});
    if (event.what != ProductEvent::What::wait)
      json["events"].back().update({{"task", event.task}, {"lane", event.lane}});
  }
  return json;
}

void print_head(MultiplyOptions const& options, ProductFacts const& facts) {
  auto const& [shape, tile, step] = facts.tiles;
  auto const shown = [](std::string const& name, bool is_transposed) {
    return fmt::format("{}{}", printable(name), is_transposed ? " transposed" : "");
  };
  fmt::print("A         {}: {} x {}\n", shown(options.a, options.transpose_a), shape.rows, shape.depth);
  fmt::print("B         {}: {} x {}\n", shown(options.b, options.transpose_b), shape.depth, shape.columns);
  if (!options.added.empty()) fmt::print("C0        {}\n", printable(options.added));
  if (options.output.empty()) fmt::print("C         kept nowhere, as there is no --output\n");
  for (std::size_t rank = 0; facts.devices.size() > 1 && rank < facts.devices.size(); ++rank)
    fmt::print("rank      {} on {}: {}\n", rank, facts.devices[rank].host, facts.devices[rank].device);
  auto const num_ranks = facts.devices.size();
  fmt::print("engine    {} on {}: {}, {}; {} rank{}\n",
             options.product == "library" ? "gemm of Kokkos Kernels" : "varve", options.backend,
             facts.devices.front().device, options.precision, num_ranks, num_ranks == 1 ? "" : "s");
  fmt::print("tiles     {} of {} x {}, in steps of {}; {} at a time, room for {} of A and B in {}\n",
             facts.tiles.num_tasks(), tile, tile, step, facts.memory.num_lanes, facts.memory.num_slots,
             with_prefix(static_cast<double>(facts.memory.bytes()), "B"));
  if (facts.num_found > 0) fmt::print("resumed   {} of {} tiles found\n", facts.num_found, facts.num_tasks);
}

void print_result(ProductFacts const& facts) {
  auto const& shape = facts.tiles.shape;
  if (facts.ranks.size() > 1) {
    std::string tasks;
    for (auto const& rank : facts.ranks)
      tasks += fmt::format("{}{}", tasks.empty() ? "" : ", ", rank.at("tasks").get<std::uint64_t>());
    fmt::print("ranks     tiles {}\n", tasks);
  }
  print_peers(facts.ranks);
  fmt::print("traffic   {} brought to devices, {} without a cache", with_prefix(sum(facts.ranks, "brought_bytes"), "B"),
             with_prefix(sum(facts.ranks, "bytes_without_cache"), "B"));
  if (facts.num_found == 0) fmt::print(", no less than {}", with_prefix(least_bytes(facts), "B"));
  fmt::print("\ntime      {}, {} with writing", readable_seconds(facts.run_seconds),
             readable_seconds(facts.total_seconds));
  if (facts.num_found == 0) fmt::print("; {}", with_prefix(num_fma(shape) / facts.run_seconds, "fma/s"));
  fmt::print("\nproduct   {} x {}   hash {:016x}\n", shape.rows, shape.columns, facts.hash);
}

Json multiply_report(MultiplyOptions const& options, ProductFacts const& facts) {
  auto const& [shape, tile, step] = facts.tiles;
  auto json = report_head("varve multiply");
  json["a"] = {{"name", options.a}, {"transposed", options.transpose_a}};
  json["b"] = {{"name", options.b}, {"transposed", options.transpose_b}};
  if (!options.added.empty()) json["c0"] = {{"name", options.added}};
  json["alpha"] = options.alpha;
  if (!options.added.empty()) json["beta"] = options.beta.value_or(1.0);
  json["shape"] = {{"rows", shape.rows}, {"columns", shape.columns}, {"depth", shape.depth}};
  json["precision"] = options.precision;
  json["backend"] = options.backend;
  for (auto const& rank : facts.devices) {
    json["devices"].push_back(rank.device);
    json["hosts"].push_back(rank.host);
  }
  json["product"] = options.product;
  json["tiles"] = {{"tile", tile}, {"step", step}, {"tiles", facts.tiles.num_tasks()}, {"tasks", facts.num_tasks}};
  auto const& memory = facts.memory;
  json["memory"] = {{"tasks_at_a_time", memory.num_lanes},
                    {"bytes_of_task", memory.lane_bytes},
                    {"kept_tiles", memory.num_slots},
                    {"bytes_of_tile", memory.slot_bytes},
                    {"bytes", memory.bytes()},
                    {"least_traffic_bytes", least_bytes(facts)}};
  if (!options.journal.empty()) {
    json["journal"] = {
        {"name", options.journal}, {"found_tiles", facts.num_found}, {"discarded_bytes", facts.num_discarded_bytes}};
  }
  json["peer_tiles"] = !options.no_peer_tiles;
  json["ranks"] = facts.ranks;
  json["run_seconds"] = facts.run_seconds;
  json["seconds"] = facts.total_seconds;
  json["fma"] = num_fma(shape);
  json["hash"] = fmt::format("{:016x}", facts.hash);
  return json;
}

} // namespace varve
