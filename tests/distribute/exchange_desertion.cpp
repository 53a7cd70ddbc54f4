#include "distribute/communicator.hpp"
#include "distribute/rank_exchange.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <vector>

/// Rank 1 fails between two layers, while rank 0 waits for its activations: rank 1 says why, and all ranks end.
int main(int num_arguments, char** arguments) {
  using namespace varve;
  ParallelEnvironment const parallel(num_arguments, arguments);
  ParallelEnvironment::set_last_words([](Error const& error) { fmt::print(stderr, "last words: {}\n", error.what()); },
                                      0.2);
  Communicator const ranks;
  auto const exchange = exchange_between_ranks(false);
  try {
    ranks.together([&] {
      if (!ranks.is_root()) throw ResourceError("the disk is full");
      std::vector<std::size_t> const sizes(static_cast<std::size_t>(ranks.size()), ActivationExchange::granularity);
      std::vector<std::byte> parts(sizes.size() * sizes.front());
      exchange->gather_parts(parts.data(), sizes);
    });
  } catch (Error const& error) {
    fmt::print(stderr, "everybody came: {}\n", error.what());
  }
  return 0;
}
