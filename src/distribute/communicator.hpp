#pragma once

#include "core/error.hpp"
#include "io/sample_range.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace varve {

/// MPI, alive as long as this object; without MPI in the build, one rank. Construct before Runtime.
class ParallelEnvironment {
public:
  ParallelEnvironment(int& num_arguments, char**& arguments);
  ~ParallelEnvironment();
  ParallelEnvironment(ParallelEnvironment const&) = delete;
  ParallelEnvironment& operator=(ParallelEnvironment const&) = delete;

  /// Ends all ranks with this exit code if there are several: for failures that only one rank knows of.
  static void abort_if_several(int exit_code);

  /// What says the sentence of an error before all ranks are ended because of it, and how many seconds a rank that has
  /// failed waits for the others before it does so (see Communicator::together).
  static void set_last_words(std::function<void(Error const&)> say, double patience = 5.0);
};

/// All ranks of the job. Every member function is collective: all ranks call it, in the same order.
class Communicator {
public:
  Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }

  /// Runs work on every rank. If it throws on any, every rank throws the error of the lowest such rank (as
  /// varve::Error), so that nobody waits for a rank that has left; the sentence names the rank if there are several. If
  /// some rank does not come within seconds after this one has failed, this one says its sentence and ends all. Ranks
  /// that wait sleep, so that the others have the processors.
  void together(std::function<void()> const& work) const;

  std::uint64_t sum(std::uint64_t number) const;
  double sum(double number) const;
  double max(double number) const;

  /// The numbers, or the texts, of all ranks, in rank order, on rank 0; nothing elsewhere.
  std::vector<double> gather(std::vector<double> const& numbers) const;
  std::vector<std::string> gather(std::string const& text) const;

  /// The numbers of all ranks, in rank order, on every rank.
  std::vector<std::uint64_t> gather_everywhere(std::vector<std::uint64_t> const& numbers) const;

  /// The text of rank 0, on every rank.
  std::string broadcast(std::string text) const;

  /// Every rank holds some items, each with a key; keys ascend on each rank and no two ranks hold the same. Rank 0
  /// calls consume with the bytes of all items, in the order of their keys; the others send theirs, one by one, as
  /// produce(place) gives them. What produce or consume throws is thrown on that rank once all have been through.
  void gather_in_order(std::vector<std::uint64_t> const& keys,
                       std::function<std::string(std::size_t place)> const& produce,
                       std::function<void(std::string const& bytes)> const& consume) const;

private:
  int rank_ = 0;
  int size_ = 1;
};

/// First and last (exclusive) of the samples [0, num_samples) that a rank takes in a static split: contiguous parts
/// whose sizes differ by at most one.
SampleRange static_part(SampleIndex num_samples, int rank, int num_ranks);

} // namespace varve
