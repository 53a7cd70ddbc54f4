#pragma once

#include "core/backend.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace varve::kernel_study {

/// What launches of a kernel look like.
struct Shape {
  std::string kernel;    ///< "fused" or "stationary"
  int block_outputs = 1; ///< outputs of a block that share one list of inputs; 1: sliced ELL
  int team_size = 1;     ///< threads (of the stationary kernel: of 32 lanes each)
  int tile_width = 1;    ///< samples of a tile
  int samples_per_lane = 1;
  int pack_width = 1; ///< samples that a lane loads at a time: a vector on CPUs
  double layers_per_launch = 1.0;
};

/// One of these numbers, by its name, that a way differs in from the product's own choice.
struct Varied {
  std::string number;
  bool is_own; ///< the value is the product's choice
};

/// A way to run the whole network, and the comparisons that it is part of.
struct Way {
  Shape shape;
  std::vector<Varied> varied;
};

/// A network on a device, prepared for all ways to run it.
class Study {
public:
  virtual ~Study() = default;

  virtual std::vector<Way> const& ways() const = 0;

  /// Brings samples to the device, at most as many as it was prepared for. They must stay.
  virtual void take(SampleBatch const& samples) = 0;

  /// Takes the samples through the network; the seconds from fence to fence.
  virtual double run(std::size_t way) = 0;

  /// Of the last activations of the last run: see hash() of network/activations.hpp.
  virtual std::uint64_t hash() = 0;
};

/// Prepares a network, all of whose layers keep zero, for these samples. Throws UsageError if no kernel takes it.
std::unique_ptr<Study> study_serial(Network const& network, SampleBatch const& samples);
std::unique_ptr<Study> study_openmp(Network const& network, SampleBatch const& samples);
std::unique_ptr<Study> study_cuda(Network const& network, SampleBatch const& samples);

} // namespace varve::kernel_study
