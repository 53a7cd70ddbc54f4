#include "distribute/communicator.hpp"
#include "distribute/gradient_exchange.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

/// Rank 1 fails within a training step, while rank 0 waits for its gradients: rank 1 says why, and all ranks end.
int main(int num_arguments, char** arguments) {
  using namespace varve;
  ParallelEnvironment const parallel(num_arguments, arguments);
  ParallelEnvironment::set_last_words([](Error const& error) { fmt::print(stderr, "last words: {}\n", error.what()); },
                                      0.2);
  Communicator const ranks;
  auto const exchange = gradient_exchange_between_ranks();
  try {
    ranks.together([&] {
      if (!ranks.is_root()) throw ResourceError("the disk is full");
      std::vector<std::byte> gradients(100);
      exchange->start(0, {}, {{1, gradients.data(), gradients.size()}});
      while (!exchange->is_over(0)) std::this_thread::yield();
    });
  } catch (Error const& error) {
    fmt::print(stderr, "everybody came: {}\n", error.what());
  }
  return 0;
}
