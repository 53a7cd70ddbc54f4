#include "apps/multiply_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace varve {
namespace {

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
  Json all = {{"tiles", 0U}, {"bytes", 0.0}, {"seconds", 0.0}};
  std::size_t num_peers = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    auto const& cache = ranks[rank].at("tile_cache");
    all["tiles"] = all["tiles"].get<std::uint64_t>() + cache["tiles"]["peers"].get<std::uint64_t>();
    all["bytes"] = all["bytes"].get<double>() + cache["bytes"]["peers"].get<double>();
    all["seconds"] = all["seconds"].get<double>() + cache["peer_wait_seconds"].get<double>();
    num_peers += cache["peers"].size();
    for (auto peer : cache["peers"]) {
      peer["own"] = rank;
      print_lines({"peers     rank {own} copies no tiles from rank {rank}: {obstacle}"}, peer);
    }
  }
  if (num_peers == 0) return;
  print_lines(
      {"peers     {tiles} tiles, {bytes:B} of what was brought, copied from devices of other ranks; {seconds:s} "
       "waited for them"},
      all);
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
  auto shown = multiply_report(options, facts);
  shown["ranks"] = facts.devices.size();
  if (facts.devices.size() > 1) shown["plural"] = "s";
  if (options.transpose_a) shown["a"]["how"] = "transposed";
  if (options.transpose_b) shown["b"]["how"] = "transposed";
  shown["engine"] = options.product == "library" ? "gemm of Kokkos Kernels" : "varve";
  print_lines({"A         {a/name}[ {a/how}]: {shape/rows} x {shape/depth}",
               "B         {b/name}[ {b/how}]: {shape/depth} x {shape/columns}", "C0        {c0/name}",
               options.output.empty() ? "C         kept nowhere, as there is no --output" : ""},
              shown);
  print_devices(shown);
  print_lines({"engine    {engine} on {backend}: {devices/0}, {precision}; {ranks} rank[{plural}]",
               "tiles     {tiles/tiles} of {tiles/tile} x {tiles/tile}, in steps of {tiles/step}; "
               "{memory/tasks_at_a_time} at a time, room for {memory/kept_tiles} of A and B in {memory/bytes:B}",
               facts.num_found > 0 ? "resumed   {journal/found_tiles} of {tiles/tasks} tiles found" : ""},
              shown);
}

void print_result(MultiplyOptions const& options, ProductFacts const& facts) {
  auto shown = multiply_report(options, facts);
  if (facts.ranks.size() > 1) {
    std::vector<std::string> tasks;
    for (auto const& rank : facts.ranks) tasks.push_back(rank.at("tasks").dump());
    shown["shares"] = list_of(tasks);
  }
  shown["brought"] = sum(facts.ranks, "brought_bytes");
  shown["uncached"] = sum(facts.ranks, "bytes_without_cache");
  if (facts.num_found == 0) {
    shown["least"] = least_bytes(facts);
    shown["rate"] = num_fma(facts.tiles.shape) / facts.run_seconds;
  }
  print_lines({"ranks     tiles {shares}"}, shown);
  print_peers(facts.ranks);
  print_lines({"traffic   {brought:B} brought to devices, {uncached:B} without a cache[, no less than {least:B}]",
               "time      {run_seconds:s}, {seconds:s} with writing[; {rate:fma/s}]",
               "product   {shape/rows} x {shape/columns}   hash {hash}"},
              shown);
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
  add_devices(json, facts.devices);
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
