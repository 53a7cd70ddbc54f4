#pragma once

#include "apps/multiply_options.hpp"
#include "distribute/communicator.hpp"
#include "distribute/rank_device.hpp"
#include "distribute/tile_sharing.hpp"
#include "products/product_engine.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace varve {

/// What one rank did.
struct RankProducts {
  std::uint64_t num_tasks = 0;
  std::uint64_t num_stolen = 0; ///< of them taken from the stations of other ranks
  double seconds = 0.0;         ///< until the rank found no further task
  ProductTraffic traffic;
  std::size_t memory_bytes = 0;                                    ///< of its tasks and tiles
  std::vector<TilePeer> peers;                                     ///< other ranks of its machine
  nlohmann::ordered_json events = nlohmann::ordered_json::array(); ///< of the report
  std::uint64_t num_dropped_events = 0;
};

/// What is known of a product, for the terminal and the report.
struct ProductFacts {
  ProductTiles tiles;
  ProductMemory memory; ///< of rank 0
  std::vector<RankDevice> devices;
  std::vector<RankProducts> ranks;
  std::uint64_t num_tasks = 0; ///< tiles and quarters, found and computed
  std::uint64_t num_cut = 0;   ///< tiles of the last wave that were cut into quarters
  std::uint64_t num_found = 0; ///< tiles and quarters that the journal held
  std::uint64_t num_discarded_bytes = 0;
  double run_seconds = 0.0;
  double total_seconds = 0.0;
  std::uint64_t hash = 0;

  std::size_t element_size = 4;
};

/// Collective: what all ranks did, on rank 0.
std::vector<RankProducts> gather(Communicator const& communicator, RankProducts const& mine);

/// Collective: gives `ranks`, on rank 0, the peers of each rank.
void gather_peers(Communicator const& communicator, std::vector<TilePeer> const& mine,
                  std::vector<RankProducts>& ranks);

/// Collective: gives `ranks`, on rank 0, the events of each rank.
void gather_events(Communicator const& communicator, ProductTimeline const& mine, std::vector<RankProducts>& ranks);

void print_head(MultiplyOptions const& options, ProductFacts const& facts);
void print_result(ProductFacts const& facts);
nlohmann::ordered_json multiply_report(MultiplyOptions const& options, ProductFacts const& facts);

} // namespace varve
