#pragma once

#include "plan/device_traits.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace varve {

/// Of a batch's samples, the share that is left after so many layers.
struct LiveShare {
  std::size_t layers = 0;
  double share = 1.0;
};

/// The shares after 0, 1, ... num_layers layers, from those that are known (ascending, the first after 0 layers):
/// between two of them samples leave at a constant rate, behind the last one none do.
std::vector<double> live_shares(std::vector<LiveShare> const& known, std::size_t num_layers);

/// A layer that may be joined with its neighbours in one launch.
struct FusedLayer {
  double num_stored = 0.0; ///< weights, padding included
  double num_outputs = 0.0;
};

/// Where a run of layers is cut into launches.
struct LaunchCuts {
  std::vector<std::size_t> cuts; ///< ascending: the layers that begin a launch, but for layer 0
  double seconds = 0.0;          ///< that the run takes
};

/// The seconds that a run takes with these cuts; live: samples before each layer, and behind the last one.
double seconds_of(std::vector<std::size_t> const& cuts, std::span<FusedLayer const> layers,
                  std::span<double const> live, LaunchCosts const& costs);

/// The cuts that take least, the fewest of equals. Takes time proportional to the square of the number of layers.
LaunchCuts choose_cuts(std::span<FusedLayer const> layers, std::span<double const> live, LaunchCosts const& costs);

} // namespace varve
