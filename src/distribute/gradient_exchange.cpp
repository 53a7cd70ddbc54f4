#include "distribute/gradient_exchange.hpp"

#include "core/config.hpp"
#include "distribute/mpi_state.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#if VARVE_HAVE_MPI
#include <mpi.h>
#endif

namespace varve {

#if VARVE_HAVE_MPI

namespace {

/// MPI counts are int: longer pieces are sent in several messages.
constexpr std::size_t kMessageBytes = std::size_t(1) << 30;

class MpiGradientExchange final : public GradientExchange {
public:
  MpiGradientExchange() {
    MPI_Comm_dup(MPI_COMM_WORLD, &ranks_);
    MPI_Comm_rank(ranks_, &rank_);
    MPI_Comm_size(ranks_, &num_ranks_);
  }
  ~MpiGradientExchange() override { MPI_Comm_free(&ranks_); }
  MpiGradientExchange(MpiGradientExchange const&) = delete;
  MpiGradientExchange& operator=(MpiGradientExchange const&) = delete;

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
    std::vector<int> counts(num_ranks());
    auto const count = static_cast<int>(numbers.size());
    MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, ranks_);
    auto const [places, size] = places_of(counts);
    std::vector<double> all(size);
    MPI_Allgatherv(numbers.data(), count, MPI_DOUBLE, all.data(), counts.data(), places.data(), MPI_DOUBLE, ranks_);
    return all;
  }

  std::vector<std::string> gather(std::string const& text) override {
    std::vector<int> counts(num_ranks());
    auto const count = static_cast<int>(text.size());
    MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, ranks_);
    auto const [places, size] = places_of(counts);
    std::string all(size, '\0');
    MPI_Allgatherv(text.data(), count, MPI_CHAR, all.data(), counts.data(), places.data(), MPI_CHAR, ranks_);
    std::vector<std::string> texts;
    for (std::size_t rank = 0; rank < num_ranks(); ++rank)
      texts.push_back(all.substr(static_cast<std::size_t>(places[rank]), static_cast<std::size_t>(counts[rank])));
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

private:
  template <class Send>
  static void for_each_message(RankBytes const& piece, Send const& send) {
    for (std::size_t first = 0; first < piece.size; first += kMessageBytes) {
      send(piece.bytes + first, static_cast<int>(std::min(kMessageBytes, piece.size - first)),
           static_cast<int>(piece.rank));
    }
  }

  /// Where the numbers of each rank begin in those of all, and how many there are.
  static std::pair<std::vector<int>, std::size_t> places_of(std::vector<int> const& counts) {
    std::vector<int> places(counts.size(), 0);
    std::partial_sum(counts.begin(), counts.end() - 1, places.begin() + 1);
    return {places, static_cast<std::size_t>(places.back() + counts.back())};
  }

  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0;
  int num_ranks_ = 1;
  std::map<int, std::vector<MPI_Request>> transfers_; ///< in progress, by number
};

} // namespace

std::shared_ptr<GradientExchange> gradient_exchange_between_ranks() {
  if (!mpi_runs()) return nullptr;
  int num_ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  return num_ranks > 1 ? std::make_shared<MpiGradientExchange>() : nullptr;
}

#else

std::shared_ptr<GradientExchange> gradient_exchange_between_ranks() { return nullptr; }

#endif

} // namespace varve
