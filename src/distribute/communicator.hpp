#pragma once

#include "io/sample_range.hpp"
#include "network/sample_set.hpp"

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
};

/// All ranks of the job. Every member function is collective: all ranks call it, in the same order.
class Communicator {
public:
  Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }

  /// Runs work on every rank. If it throws varve::Error on any, every rank throws the error of the lowest such rank, so
  /// that nobody waits for a rank that has left; the sentence names the rank if there are several.
  void together(std::function<void()> const& work) const;

  std::uint64_t sum(std::uint64_t number) const;
  double sum(double number) const;
  double max(double number) const;

  /// The numbers of all ranks, in rank order, on rank 0; nothing elsewhere.
  std::vector<std::uint64_t> gather(std::vector<std::uint64_t> const& numbers) const;
  std::vector<std::uint32_t> gather(std::vector<std::uint32_t> const& numbers) const;
  std::vector<std::string> gather(std::string const& text) const;

  /// Rank 0 calls consume with the rows of each rank in rank order, its own first; the others send theirs.
  void gather_rows(SampleSet const& rows, std::function<void(SampleSet const&)> const& consume) const;

private:
  int rank_ = 0;
  int size_ = 1;
};

/// First and last (exclusive) of the samples [0, num_samples) that a rank takes in a static split: contiguous parts
/// whose sizes differ by at most one.
SampleRange static_part(SampleIndex num_samples, int rank, int num_ranks);

} // namespace varve
