#include "distribute/communicator.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <thread>

/// Rank 1 fails while rank 0 is busy for much longer than anybody waits: rank 1 says why, and all ranks end.
int main(int num_arguments, char** arguments) {
  using namespace varve;
  ParallelEnvironment const parallel(num_arguments, arguments);
  ParallelEnvironment::set_last_words([](Error const& error) { fmt::print(stderr, "last words: {}\n", error.what()); },
                                      0.2);
  Communicator const ranks;
  try {
    ranks.together([&] {
      if (!ranks.is_root()) throw ResourceError("the disk is full");
      std::this_thread::sleep_for(std::chrono::seconds(60));
    });
  } catch (Error const& error) {
    fmt::print(stderr, "everybody came: {}\n", error.what());
  }
  return 0;
}
