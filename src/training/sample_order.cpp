#include "training/sample_order.hpp"

#include "radixnet/random.hpp"

#include <numeric>
#include <utility>

namespace varve {

std::vector<std::uint64_t> sample_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_samples) {
  std::vector<std::uint64_t> order(num_samples);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  RandomStream random(seed, epoch);
  for (std::uint64_t left = num_samples; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

} // namespace varve
