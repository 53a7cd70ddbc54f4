#pragma once

#include "core/error.hpp"
#include "io/sample_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace varve {

/// When a process starts MPI, which takes it 0.2 s or more. if_launched: if its environment has a variable of a program
/// that starts ranks or of a batch system; a process without any is the only rank.
enum class StartMpi { always, if_launched };

/// Initializes MPI and finalizes it on destruction; in builds without MPI there is one rank. Construct it before
/// Runtime.
class ParallelEnvironment {
public:
  ParallelEnvironment(int& num_arguments, char**& arguments, StartMpi when = StartMpi::always);
  ~ParallelEnvironment();
  ParallelEnvironment(ParallelEnvironment const&) = delete;
  ParallelEnvironment& operator=(ParallelEnvironment const&) = delete;

  /// Ends all ranks with this exit code if there are several. For failures that only one rank knows of.
  static void abort_if_several(int exit_code);

  /// Sets the function that reports an error before all ranks are aborted because of it, and the seconds that a failed
  /// rank waits for the others before it aborts them (see Communicator::together).
  static void set_failure_handler(std::function<void(Error const&)> say, double patience = 5.0);

private:
  bool has_started_ = false;
};

/// True if a variable of the environment, such as OMPI_COMM_WORLD_SIZE, PMIX_RANK or SLURM_JOB_ID, tells of a program
/// that starts ranks or of a batch system. `environment`: texts NAME=VALUE, then a null pointer.
bool is_launched(char const* const* environment);

/// True from MPI_Init in this process to MPI_Finalize; false in builds without MPI.
bool mpi_runs();

/// The name and version of the MPI library in use, such as "Open MPI v4.1.4"; "none" in builds without MPI.
std::string mpi_library();

/// All ranks of the job; one where MPI does not run. Every member function is collective: all ranks must call it, in
/// the same order.
class Communicator {
public:
  Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }

  /// Runs `work` on every rank. If it throws on some rank, every rank throws the error of the lowest such rank (as
  /// varve::Error), so that no rank waits for one that has left; with several ranks the sentence names the rank. If
  /// some rank does not arrive within the patience of set_failure_handler() after this rank has failed, this rank
  /// reports its error and aborts all ranks. Waiting ranks sleep, so that the others have the processors.
  void together(std::function<void()> const& work) const;

  /// The same for work of rank 0 alone.
  void on_root(std::function<void()> const& work) const {
    together(is_root() ? work : [] {});
  }

  std::uint64_t sum(std::uint64_t number) const;
  double max(double number) const;

  /// Gathers the texts of all ranks on rank 0, in rank order; other ranks get an empty list.
  std::vector<std::string> gather(std::string const& text) const;

  /// Gathers the numbers of all ranks on every rank, in rank order.
  std::vector<std::uint64_t> gather_everywhere(std::vector<std::uint64_t> const& numbers) const;

  /// Returns the text of rank 0 on every rank.
  std::string broadcast(std::string text) const;

  /// Gathers items in the order of their keys. Each rank passes the keys of its items, ascending; no two ranks share a
  /// key. Rank 0 calls consume with the bytes of all items in the order of their keys; the other ranks send theirs, one
  /// by one, as produce(place) returns them. An exception from produce or consume is rethrown on its rank after all
  /// items have been sent.
  void gather_in_order(std::vector<std::uint64_t> const& keys,
                       std::function<std::string(std::size_t place)> const& produce,
                       std::function<void(std::string const& bytes)> const& consume) const;

private:
  int rank_ = 0;
  int size_ = 1;
};

/// The part [first, last) of the samples [0, num_samples) that a rank takes in a static split: contiguous parts whose
/// sizes differ by at most one.
SampleRange static_part(SampleIndex num_samples, int rank, int num_ranks);

} // namespace varve
