#pragma once

#include "core/device_numbers.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/runtime.hpp"
#include "engine/gradient_exchange.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// Arrays of each rank that all ranks of one machine read where they lie: the sums of its subtrees, and the weights and
/// biases of its parts after the step. Each bundle (engine/gradient_parts.hpp) has two marks: sums are there, weights
/// are there. A rank writes its own arrays alone. By CUDA IPC on GPUs, in a file of memory on hosts. Not between ranks
/// that share a GPU: it runs them in turns, and work that waits there for another rank's takes the turn of that rank.
template <class Scalar>
class PeerArrays {
public:
  template <class T>
  using Array = DeviceNumbers<T>; ///< which must not outlive the object

  /// Numbers of elements; equal on all ranks.
  struct Sizes {
    std::size_t num_sums;
    std::size_t num_edges;
    std::size_t num_outputs;
    std::size_t num_bundles;
    std::size_t num_subtrees; ///< room for the sums of so many

    std::size_t bytes() const {
      return num_outputs * sizeof(double) + (num_subtrees * num_sums + num_edges) * sizeof(Scalar);
    }
  };

  /// Collective. Returns null if some rank cannot share its memory or open that of another, or if ranks share a GPU:
  /// `obstacle` says why then.
  static std::unique_ptr<PeerArrays> open(DeviceMemory const& memory, GradientExchange& exchange, Sizes const& sizes,
                                          std::string& obstacle) {
    std::unique_ptr<PeerArrays> arrays(new PeerArrays(memory, exchange, sizes));
    auto const attempt = [](auto const& work) {
      try {
        return work();
      } catch (ResourceError const& error) {
        return std::string("! ") + error.what();
      }
    };
    auto const offers = exchange.gather(attempt([&] { return arrays->offer(); }));
    obstacle = first_obstacle(offers);
    if (obstacle.empty()) obstacle = shared_device(offers);
    if (!obstacle.empty()) return nullptr; // on all ranks
    arrays->is_offered_ = true;
    obstacle = first_obstacle(exchange.gather(attempt([&] { return arrays->take(offers); })));
    if (!obstacle.empty()) return nullptr;
    return arrays;
  }

  /// Collective, unless an exception is under way. No kernel may use the arrays any more.
  ~PeerArrays() {
    bool const others_come = is_offered_ && std::uncaught_exceptions() == num_exceptions_;
    for (auto& rank : ranks_)
      if (&rank != &own()) rank = {};
    if (others_come) exchange_->gather(std::string()); // memory goes after all others have let it go
  }
  PeerArrays(PeerArrays const&) = delete;
  PeerArrays& operator=(PeerArrays const&) = delete;

  Sizes const& sizes() const { return sizes_; }

  Array<Scalar> sums(std::size_t rank, std::size_t subtree) const {
    return {nullptr, scalars(rank) + sizes_.num_edges + subtree * sizes_.num_sums, sizes_.num_sums};
  }
  Array<Scalar> weights(std::size_t rank) const { return {nullptr, scalars(rank), sizes_.num_edges}; }
  Array<double> bias(std::size_t rank) const {
    return {nullptr, reinterpret_cast<double*>(ranks_[rank].memory->data()), sizes_.num_outputs};
  }
  PeerMark& sums_mark(std::size_t rank, std::size_t bundle) const { return *ranks_[rank].marks[2 * bundle]; }
  PeerMark& weights_mark(std::size_t rank, std::size_t bundle) const { return *ranks_[rank].marks[2 * bundle + 1]; }

private:
  struct OfRank {
    std::unique_ptr<PeerMemory> memory;
    std::vector<std::unique_ptr<PeerMark>> marks; ///< by bundle: of sums, of weights
  };

  PeerArrays(DeviceMemory const& memory, GradientExchange& exchange, Sizes const& sizes)
      : memory_(memory), exchange_(&exchange), sizes_(sizes), ranks_(exchange.num_ranks()) {}

  OfRank& own() { return ranks_[exchange_->rank()]; }

  /// Makes the arrays of this rank. Returns lines: the GPU (empty on hosts), machine and kind of memory, handles.
  std::string offer() {
    auto& mine = own();
    mine.memory = memory_.new_peer_memory(sizes_.bytes());
    std::string lines = device_identity(memory_.backend()) + "\n" + kind() + "\n" + mine.memory->handle();
    for (std::size_t mark = 0; mark < 2 * sizes_.num_bundles; ++mark)
      lines += "\n" + mine.marks.emplace_back(memory_.new_peer_mark())->handle();
    return lines;
  }

  /// Opens the arrays of the others. Returns nothing.
  std::string take(std::vector<std::string> const& offers) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (rank == exchange_->rank()) continue;
      std::istringstream lines(offers[rank]);
      std::string line;
      std::getline(lines, line); // the GPU
      std::getline(lines, line);
      if (line != kind()) throw ResourceError("some ranks run on other machines, or on other kinds of devices");
      std::getline(lines, line);
      ranks_[rank].memory = memory_.open_peer_memory(line);
      for (std::size_t mark = 0; mark < 2 * sizes_.num_bundles; ++mark) {
        line.clear();
        std::getline(lines, line);
        ranks_[rank].marks.push_back(memory_.open_peer_mark(line));
      }
    }
    return {};
  }

  std::string kind() const { return host_name() + (memory_.is_host() ? ":host" : ":gpu"); }

  static std::string first_obstacle(std::vector<std::string> const& texts) {
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
      if (texts[rank].starts_with("! ")) return "rank " + std::to_string(rank) + ": " + texts[rank].substr(2);
    return {};
  }

  /// "ranks 0 and 1 share a GPU" for the first two of which that is true, or nothing.
  static std::string shared_device(std::vector<std::string> const& offers) {
    std::vector<std::string> devices;
    for (auto const& offer : offers) devices.push_back(offer.substr(0, offer.find('\n')));
    auto const ranks = first_repeated(devices);
    if (!ranks) return {};
    return "ranks " + std::to_string(ranks->first) + " and " + std::to_string(ranks->second) + " share a GPU";
  }

  Scalar* scalars(std::size_t rank) const {
    return reinterpret_cast<Scalar*>(ranks_[rank].memory->data() + sizes_.num_outputs * sizeof(double));
  }

  DeviceMemory const& memory_;
  GradientExchange* exchange_;
  Sizes sizes_;
  std::vector<OfRank> ranks_;
  bool is_offered_ = false;
  int num_exceptions_ = std::uncaught_exceptions();
};

} // namespace varve
