#include "distribute/rank_exchange.hpp"

#include "core/backend.hpp"
#include "core/config.hpp"
#include "core/error.hpp"
#include "distribute/mpi_state.hpp"

#include <fmt/format.h>

#include <limits>

#if VARVE_HAVE_MPI
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

namespace varve {
namespace {

#if VARVE_HAVE_MPI

/// True if the MPI library says that it accepts pointers to the memory of a backend.
bool library_reaches(Backend backend) {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  if (backend == Backend::cuda) return MPIX_Query_cuda_support() == 1;
#endif
#if defined(MPIX_ROCM_AWARE_SUPPORT)
  if (backend == Backend::hip) return MPIX_Query_rocm_support() == 1;
#endif
  return !has_own_memory(backend);
}

/// Exchange over its own communicator, so that its messages never match others. Counts and offsets are in units of the
/// granularity, so that int suffices up to 512 GiB.
class RankExchange final : public ActivationExchange {
public:
  explicit RankExchange(bool through_host) : through_host_(through_host) {
    MPI_Comm_dup(MPI_COMM_WORLD, &ranks_);
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &num_ranks_);
    MPI_Type_contiguous(static_cast<int>(granularity), MPI_BYTE, &unit_);
    MPI_Type_commit(&unit_);
  }
  ~RankExchange() override {
    MPI_Type_free(&unit_);
    MPI_Comm_free(&ranks_);
  }
  RankExchange(RankExchange const&) = delete;
  RankExchange& operator=(RankExchange const&) = delete;

  int rank() const override { return rank_; }
  int num_ranks() const override { return num_ranks_; }
  bool reaches_memory_of(Backend backend) const override {
    return through_host_ ? !has_own_memory(backend) : library_reaches(backend);
  }

  std::vector<std::uint64_t> gather(std::vector<std::uint64_t> const& numbers) override {
    std::vector<std::uint64_t> all(numbers.size() * static_cast<std::size_t>(num_ranks_));
    auto const count = static_cast<int>(numbers.size());
    MPI_Allgather(numbers.data(), count, MPI_UINT64_T, all.data(), count, MPI_UINT64_T, ranks_);
    return all;
  }

  void gather_parts(std::byte* parts, std::vector<std::size_t> const& sizes) override {
    std::vector<int> counts;
    std::vector<int> places;
    std::size_t place = 0;
    for (auto const size : sizes) {
      counts.push_back(static_cast<int>(size / granularity));
      places.push_back(static_cast<int>(place / granularity));
      place += size;
    }
    if (place / granularity > std::numeric_limits<int>::max()) {
      throw ResourceError(fmt::format("the activations of a layer are {} bytes; lower --batch", place));
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, parts, counts.data(), places.data(), unit_, ranks_);
  }

private:
  bool through_host_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  MPI_Datatype unit_ = MPI_DATATYPE_NULL;
  int rank_ = 0;
  int num_ranks_ = 1;
};

#endif

/// Exchange for a single rank: nothing to send.
class LoneExchange final : public ActivationExchange {
public:
  int rank() const override { return 0; }
  int num_ranks() const override { return 1; }
  bool reaches_memory_of(Backend) const override { return true; }
  std::vector<std::uint64_t> gather(std::vector<std::uint64_t> const& numbers) override { return numbers; }
  void gather_parts(std::byte*, std::vector<std::size_t> const&) override {}
};

} // namespace

std::shared_ptr<ActivationExchange> exchange_between_ranks([[maybe_unused]] bool through_host) {
#if VARVE_HAVE_MPI
  if (mpi_runs()) return std::make_shared<RankExchange>(through_host);
#endif
  return std::make_shared<LoneExchange>();
}

} // namespace varve
