#include "distribute/communicator.hpp"
#include "distribute/ranks.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

/// desertion computing|layers|training: rank 1 fails while rank 0 computes for much longer than anybody waits, or waits
/// for its activations between two layers, or for its gradients within a training step. Rank 1 says why, and all ranks
/// end.
namespace varve {
namespace {

void compute() { std::this_thread::sleep_for(std::chrono::seconds(60)); }

void wait_for_activations(Communicator const& ranks, RankExchange& exchange) {
  std::vector<std::size_t> const sizes(static_cast<std::size_t>(ranks.size()), RankExchange::granularity);
  std::vector<std::byte> parts(sizes.size() * sizes.front());
  exchange.gather_parts(parts.data(), sizes);
}

void wait_for_gradients(RankExchange& exchange) {
  std::vector<std::byte> gradients(100);
  exchange.start(0, {}, {{1, gradients.data(), gradients.size()}});
  while (!exchange.is_over(0)) std::this_thread::yield();
}

void run(std::string_view doing) {
  Communicator const ranks;
  auto const exchange = exchange_between_ranks();
  ranks.together([&] {
    if (!ranks.is_root()) throw ResourceError("the disk is full");
    if (doing == "computing") compute();
    if (doing == "layers") wait_for_activations(ranks, *exchange);
    if (doing == "training") wait_for_gradients(*exchange);
  });
}

} // namespace
} // namespace varve

int main(int num_arguments, char** arguments) {
  using namespace varve;
  ParallelEnvironment const parallel(num_arguments, arguments);
  ParallelEnvironment::set_failure_handler(
      [](Error const& error) { fmt::print(stderr, "last words: {}\n", error.what()); }, 0.2);
  try {
    run(num_arguments == 2 ? arguments[1] : "");
  } catch (Error const& error) {
    fmt::print(stderr, "everybody came: {}\n", error.what());
  }
  return 0;
}
