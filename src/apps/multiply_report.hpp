#pragma once

#include "apps/multiply_options.hpp"
#include "apps/report.hpp"
#include "distribute/shared_product.hpp"
#include "products/product_engine.hpp"

#include <cstdint>
#include <vector>

namespace varve {

/// What one rank did.
struct RankProducts {
  std::uint64_t num_tasks = 0;
  double seconds = 0.0;         ///< until the rank found no further task
  std::size_t memory_bytes = 0; ///< of its tasks and tiles
  ProductTraffic traffic;
  std::vector<TilePeer> peers; ///< other ranks of its machine
};

/// What is known of a product, for the terminal and the report.
struct ProductFacts {
  ProductTiles tiles;
  ProductMemory memory; ///< of rank 0
  std::vector<RankDevice> devices;
  std::vector<Json> ranks;     ///< as described by describe_rank()
  std::uint64_t num_tasks = 0; ///< tiles, found and computed
  std::uint64_t num_found = 0; ///< tiles that the journal held
  std::uint64_t num_discarded_bytes = 0;
  double run_seconds = 0.0;
  double total_seconds = 0.0;
  std::uint64_t hash = 0;
  std::size_t element_size = 4;
};

/// What a rank did, for the report; with its events, if there is a timeline.
Json describe_rank(RankProducts const& rank, ProductTimeline const* timeline);

/// The report of a product, and its lines before and after the product.
Json multiply_report(MultiplyOptions const& options, ProductFacts const& facts);
void print_head(MultiplyOptions const& options, ProductFacts const& facts);
void print_result(MultiplyOptions const& options, ProductFacts const& facts);

} // namespace varve
