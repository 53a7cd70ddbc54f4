#pragma once

#include <barrier>
#include <cstddef>

namespace varve::test {

/// A thread of the host as a thread of a GPU's team.
class HostTeamMember {
public:
  struct Scratch {
    void* memory;
    void* get_shmem_aligned(std::ptrdiff_t /*bytes*/, int /*alignment*/) const { return memory; }
  };

  HostTeamMember(int rank, std::barrier<>& barrier, void* scratch = nullptr)
      : rank_(rank), barrier_(&barrier), scratch_{scratch} {}
  int team_rank() const { return rank_; }
  void team_barrier() const { barrier_->arrive_and_wait(); }
  static int league_rank() { return 0; }
  static int league_size() { return 1; }
  Scratch team_scratch(int /*level*/) const { return scratch_; }

private:
  int rank_;
  std::barrier<>* barrier_;
  Scratch scratch_;
};

} // namespace varve::test
