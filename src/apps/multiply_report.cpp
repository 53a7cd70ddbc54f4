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

double sum(std::vector<RankProducts> const& ranks, double ProductTraffic::*field) {
  return std::accumulate(ranks.begin(), ranks.end(), 0.0,
                         [&](double total, RankProducts const& rank) { return total + rank.traffic.*field; });
}

double num_fma(ProductShape const& shape) {
  return static_cast<double>(shape.rows) * static_cast<double>(shape.columns) * static_cast<double>(shape.depth);
}

/// Bytes of A and B that all ranks together must bring to their devices at least; the memory of finished sums counts as
/// cache.
double least_bytes(ProductFacts const& facts) {
  std::vector<double> memories;
  for (auto const& rank : facts.ranks) memories.push_back(static_cast<double>(rank.memory_bytes));
  return least_traffic(facts.tiles.shape, facts.element_size, memories);
}

/// A tile is a hit of the rank's own device, of another device of its machine, or comes from host memory or a file.
nlohmann::ordered_json cache_of(RankProducts const& rank) {
  auto const& traffic = rank.traffic;
  auto const& peers = traffic.peers;
  auto json = nlohmann::ordered_json{
      {"tiles",
       {{"own", traffic.num_hits}, {"peers", peers.num_copied}, {"host", traffic.num_misses - peers.num_copied}}},
      {"bytes", {{"peers", peers.bytes}, {"host", traffic.brought_bytes - peers.bytes}}},
      {"lost", peers.num_lost},
      {"peer_wait_seconds", peers.wait_seconds},
      {"peers", nlohmann::ordered_json::array()}};
  for (auto const& peer : rank.peers) {
    json["peers"].push_back({{"rank", peer.rank}, {"used", peer.obstacle.empty()}});
    if (!peer.obstacle.empty()) json["peers"].back()["obstacle"] = peer.obstacle;
  }
  return json;
}

nlohmann::ordered_json as_json(RankProducts const& rank) {
  auto const& traffic = rank.traffic;
  return {{"tasks", rank.num_tasks},
          {"stolen", rank.num_stolen},
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
          {"events", rank.events},
          {"dropped_events", rank.num_dropped_events}};
}

nlohmann::ordered_json as_json(ProductEvent const& event) {
  nlohmann::ordered_json json = {{"what", name_of(event.what)}, {"begin", event.begin}, {"end", event.end}};
  if (event.what == ProductEvent::What::wait) return json;
  json["task"] = event.task;
  json["lane"] = event.lane;
  return json;
}

} // namespace

std::vector<RankProducts> gather(Communicator const& communicator, RankProducts const& mine) {
  auto const& traffic = mine.traffic;
  std::vector<double> const numbers = {static_cast<double>(mine.num_tasks),
                                       static_cast<double>(mine.num_stolen),
                                       mine.seconds,
                                       static_cast<double>(traffic.num_hits),
                                       static_cast<double>(traffic.num_misses),
                                       traffic.brought_bytes,
                                       traffic.all_bytes,
                                       traffic.read_seconds,
                                       traffic.wait_seconds,
                                       traffic.take_seconds,
                                       static_cast<double>(traffic.peers.num_copied),
                                       static_cast<double>(traffic.peers.num_lost),
                                       traffic.peers.bytes,
                                       traffic.peers.wait_seconds,
                                       static_cast<double>(mine.memory_bytes)};
  auto const all = communicator.gather(numbers);
  std::vector<RankProducts> ranks;
  for (std::size_t first = 0; first + numbers.size() <= all.size(); first += numbers.size()) {
    auto const count = [&](std::size_t place) { return static_cast<std::uint64_t>(all[first + place]); };
    auto const number = [&](std::size_t place) { return all[first + place]; };
    ranks.push_back({count(0),
                     count(1),
                     number(2),
                     ProductTraffic{count(3), count(4), number(5), number(6), number(7), number(8), number(9),
                                    PeerTraffic{count(10), count(11), number(12), number(13)}},
                     static_cast<std::size_t>(count(14)),
                     {}});
  }
  return ranks;
}

void gather_peers(Communicator const& communicator, std::vector<TilePeer> const& mine,
                  std::vector<RankProducts>& ranks) {
  auto json = nlohmann::ordered_json::array();
  for (auto const& peer : mine) json.push_back({peer.rank, peer.obstacle});
  auto const all = communicator.gather(json_text(json));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (auto const& peer : nlohmann::json::parse(all[rank])) ranks.at(rank).peers.push_back({peer[0], peer[1]});
}

void gather_events(Communicator const& communicator, ProductTimeline const& mine, std::vector<RankProducts>& ranks) {
  nlohmann::ordered_json json = {{"dropped", mine.num_dropped()}, {"events", nlohmann::ordered_json::array()}};
  for (auto const& event : mine.events()) json["events"].push_back(as_json(event));
  auto const all = communicator.gather(json_text(json));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    auto const theirs = nlohmann::ordered_json::parse(all[rank]);
    ranks.at(rank).events = theirs["events"];
    ranks.at(rank).num_dropped_events = theirs["dropped"];
  }
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
  if (facts.num_cut > 0) fmt::print("last      {} tiles cut into quarters\n", facts.num_cut);
  if (facts.num_found > 0) fmt::print("resumed   {} of {} tiles found\n", facts.num_found, facts.num_tasks);
}

namespace {

/// What devices copied from each other, and which do not.
void print_peers(std::vector<RankProducts> const& ranks) {
  PeerTraffic all;
  std::size_t num_peers = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    auto const& [num_copied, num_lost, bytes, wait_seconds] = ranks[rank].traffic.peers;
    all.num_copied += num_copied;
    all.bytes += bytes;
    all.wait_seconds += wait_seconds;
    num_peers += ranks[rank].peers.size();
    for (auto const& peer : ranks[rank].peers) {
      if (!peer.obstacle.empty())
        fmt::print("peers     rank {} copies no tiles from rank {}: {}\n", rank, peer.rank, printable(peer.obstacle));
    }
  }
  if (num_peers == 0) return;
  fmt::print("peers     {} tiles, {} of what was brought, copied from devices of other ranks; {} waited for them\n",
             all.num_copied, with_prefix(all.bytes, "B"), readable_seconds(all.wait_seconds));
}

} // namespace

void print_result(ProductFacts const& facts) {
  auto const& shape = facts.tiles.shape;
  if (facts.ranks.size() > 1) {
    std::string tasks;
    std::uint64_t num_stolen = 0;
    for (auto const& rank : facts.ranks) {
      tasks += fmt::format("{}{}", tasks.empty() ? "" : ", ", rank.num_tasks);
      num_stolen += rank.num_stolen;
    }
    fmt::print("ranks     tiles {}; {} taken from stations of others\n", tasks, num_stolen);
  }
  print_peers(facts.ranks);
  fmt::print("traffic   {} brought to devices, {} without a cache",
             with_prefix(sum(facts.ranks, &ProductTraffic::brought_bytes), "B"),
             with_prefix(sum(facts.ranks, &ProductTraffic::all_bytes), "B"));
  if (facts.num_found == 0) fmt::print(", no less than {}", with_prefix(least_bytes(facts), "B"));
  fmt::print("\ntime      {}, {} with writing", readable_seconds(facts.run_seconds),
             readable_seconds(facts.total_seconds));
  if (facts.num_found == 0) fmt::print("; {}", with_prefix(num_fma(shape) / facts.run_seconds, "fma/s"));
  fmt::print("\nproduct   {} x {}   hash {:016x}\n", shape.rows, shape.columns, facts.hash);
}

nlohmann::ordered_json multiply_report(MultiplyOptions const& options, ProductFacts const& facts) {
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
  json["tiles"] = {{"tile", tile},
                   {"step", step},
                   {"tiles", facts.tiles.num_tasks()},
                   {"cut", facts.num_cut},
                   {"tasks", facts.num_tasks}};
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
  json["stealing"] = !options.no_stealing;
  json["peer_tiles"] = !options.no_peer_tiles;
  for (auto const& rank : facts.ranks) json["ranks"].push_back(as_json(rank));
  json["run_seconds"] = facts.run_seconds;
  json["seconds"] = facts.total_seconds;
  json["fma"] = num_fma(shape);
  json["hash"] = fmt::format("{:016x}", facts.hash);
  return json;
}

} // namespace varve
