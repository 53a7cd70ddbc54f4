#include <varve/runtime.hpp>

#include "core/config.hpp"
#include "core/runtime.hpp"
#include "distribute/communicator.hpp"
#include "library/crossing.hpp"

#include <atomic>
#include <string>
#include <vector>

namespace varve::v0_3 {
namespace {

std::atomic<bool> a_runtime_lives = false;

/// Makes sure that one Runtime lives at a time.
class OnlyOne {
public:
  OnlyOne() {
    if (a_runtime_lives.exchange(true)) throw UsageError("a varve::Runtime lives already; a process has one at a time");
  }
  ~OnlyOne() { a_runtime_lives = false; }
  OnlyOne(OnlyOne const&) = delete;
  OnlyOne& operator=(OnlyOne const&) = delete;
};

} // namespace

struct Runtime::Contents {
  explicit Contents(RuntimeOptions const& options) {
    if (options.uses_mpi) start_mpi();
    if (kokkos_has_ended()) throw ResourceError("Kokkos has ended in this process and cannot start again");
    if (kokkos_runs()) return;
    std::vector<std::string> words{"varve"};
    if (options.num_threads) words.push_back("--kokkos-num-threads=" + std::to_string(*options.num_threads));
    if (options.device) words.push_back("--kokkos-device-id=" + std::to_string(*options.device));
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    auto count = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    kokkos.emplace(count, arguments.data());
  }

  void start_mpi() {
    if (VARVE_HAVE_MPI == 0) throw ResourceError("this build of Varve has no MPI");
    if (!varve::mpi_runs()) {
      int count = 0;
      char** none = nullptr;
      mpi.emplace(count, none);
    }
    varve::Communicator const ranks;
    rank = ranks.rank();
    num_ranks = ranks.size();
  }

  OnlyOne only_one;
  std::optional<varve::ParallelEnvironment> mpi;
  std::optional<varve::Runtime> kokkos;
  int rank = 0, num_ranks = 1;
};

Runtime::Runtime(RuntimeOptions const& options) : contents_(std::make_unique<Contents>(options)) {}
Runtime::~Runtime() = default;

int Runtime::rank() const { return contents_->rank; }
int Runtime::num_ranks() const { return contents_->num_ranks; }

void require_kokkos() {
  if (!kokkos_runs())
    throw ResourceError("Kokkos does not run: make a varve::Runtime at the start of the program, and destroy it last");
}

} // namespace varve::v0_3
