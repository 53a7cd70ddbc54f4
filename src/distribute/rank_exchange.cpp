#include "engine/rank_exchange.hpp"
#include "core/backend.hpp"
#include "core/config.hpp"
#include "core/error.hpp"
#include "distribute/ranks.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

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

/// MPI counts are int: longer pieces are sent in several messages.
constexpr std::size_t max_bytes_of_message = std::size_t(1) << 30;

/// Exchange over its own communicator, so that its messages never match others. Counts and offsets of parts are in
/// units of the granularity, so that int suffices up to 512 GiB.
class MpiExchange final : public RankExchange {
public:
  explicit MpiExchange(bool through_host) : through_host_(through_host) {
    MPI_Comm_dup(MPI_COMM_WORLD, &ranks_);
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &num_ranks_);
    MPI_Type_contiguous(static_cast<int>(granularity), MPI_BYTE, &unit_);
    MPI_Type_commit(&unit_);
  }
  ~MpiExchange() override {
    MPI_Type_free(&unit_);
    MPI_Comm_free(&ranks_);
  }
  MpiExchange(MpiExchange const&) = delete;
  MpiExchange& operator=(MpiExchange const&) = delete;

  std::size_t rank() const override { return static_cast<std::size_t>(rank_); }
  std::size_t num_ranks() const override { return static_cast<std::size_t>(num_ranks_); }

  void start(int number, std::vector<RankBytes> const& sent, std::vector<RankBytes> const& received) override {
    auto& requests = transfers_[number];
    for (auto const& piece : received) {
      for_each_message(piece, [&](std::byte* bytes, int count, int rank) {
        MPI_Irecv(bytes, count, MPI_BYTE, rank, number, ranks_, &requests.emplace_back());
      });
    }
    for (auto const& piece : sent) {
      for_each_message(piece, [&](std::byte* bytes, int count, int rank) {
        MPI_Isend(bytes, count, MPI_BYTE, rank, number, ranks_, &requests.emplace_back());
      });
    }
  }

  bool is_over(int number) override {
    auto const transfer = transfers_.find(number);
    int is_over = 0;
    MPI_Testall(static_cast<int>(transfer->second.size()), transfer->second.data(), &is_over, MPI_STATUSES_IGNORE);
    if (is_over != 0) transfers_.erase(transfer);
    return is_over != 0;
  }

  std::vector<double> gather(std::vector<double> const& numbers) override {
    return gather_list(numbers, MPI_DOUBLE).first;
  }

  std::vector<std::uint64_t> gather(std::vector<std::uint64_t> const& numbers) override {
    return gather_list(numbers, MPI_UINT64_T).first;
  }

  std::vector<std::string> gather(std::string const& text) override {
    auto const [all, counts] = gather_list(text, MPI_CHAR);
    std::vector<std::string> texts;
    std::size_t first = 0;
    for (auto const count : counts) {
      texts.push_back(all.substr(first, static_cast<std::size_t>(count)));
      first += texts.back().size();
    }
    return texts;
  }

  std::vector<double> gather_on_root(std::vector<double> const& numbers) override {
    std::vector<int> counts(num_ranks());
    auto const count = static_cast<int>(numbers.size());
    MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, ranks_);
    auto const [places, size] = places_of(counts);
    std::vector<double> all(rank_ == 0 ? size : 0);
    MPI_Gatherv(numbers.data(), count, MPI_DOUBLE, all.data(), counts.data(), places.data(), MPI_DOUBLE, 0, ranks_);
    return all;
  }

  bool reaches_memory_of(Backend backend) const override {
    return through_host_ ? !has_own_memory(backend) : library_reaches(backend);
  }

  void gather_parts(std::byte* parts, std::vector<std::size_t> const& sizes) override {
    std::vector<int> counts;
    for (auto const size : sizes) counts.push_back(static_cast<int>(size / granularity));
    auto const bytes = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    if (bytes / granularity > std::numeric_limits<int>::max())
      fail<ResourceError>("the activations of a layer are {} bytes; lower --batch", bytes);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, parts, counts.data(), places_of(counts).first.data(), unit_,
                   ranks_);
  }

private:
  template <class Send>
  static void for_each_message(RankBytes const& piece, Send const& send) {
    for (std::size_t first = 0; first < piece.size; first += max_bytes_of_message) {
      send(piece.bytes + first, static_cast<int>(std::min(max_bytes_of_message, piece.size - first)),
           static_cast<int>(piece.rank));
    }
  }

  /// The lists of all ranks one after the other, and the length of each.
  template <class List>
  std::pair<List, std::vector<int>> gather_list(List const& list, MPI_Datatype type) const {
    std::vector<int> counts(static_cast<std::size_t>(num_ranks_));
    auto const count = static_cast<int>(list.size());
    MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, ranks_);
    auto const [places, size] = places_of(counts);
    List all(size, typename List::value_type{});
    MPI_Allgatherv(list.data(), count, type, all.data(), counts.data(), places.data(), type, ranks_);
    return {all, counts};
  }

  /// Where the numbers of each rank begin in those of all, and how many there are.
  static std::pair<std::vector<int>, std::size_t> places_of(std::vector<int> const& counts) {
    std::vector<int> places(counts.size(), 0);
    std::partial_sum(counts.begin(), counts.end() - 1, places.begin() + 1);
    return {places, static_cast<std::size_t>(places.back() + counts.back())};
  }

  bool through_host_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  MPI_Datatype unit_ = MPI_DATATYPE_NULL;
  int rank_ = 0;
  int num_ranks_ = 1;
  std::map<int, std::vector<MPI_Request>> transfers_; ///< in progress, by number
};

#endif

} // namespace

std::shared_ptr<RankExchange> exchange_between_ranks([[maybe_unused]] bool through_host) {
#if VARVE_HAVE_MPI
  if (mpi_runs()) return std::make_shared<MpiExchange>(through_host);
#endif
  return std::make_shared<RankExchange>();
}

} // namespace varve
