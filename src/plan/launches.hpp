#pragma once

#include "plan/device_traits.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace varve {

/// The share of a batch's samples that is live after this many layers.
struct LiveShare {
  std::size_t layers = 0;
  double share = 1.0;
};

/// Interpolates the shares after 0, 1, ... num_layers layers from known ones (ascending; the first is after 0 layers):
/// samples leave at a constant rate between two known shares, and none leave after the last one.
std::vector<double> live_shares(std::vector<LiveShare> const& known, std::size_t num_layers);

/// A layer that may be joined with its neighbours in one launch.
struct FusedLayer {
  double num_stored = 0.0; ///< stored weights, padding included
  double num_outputs = 0.0;
};

/// Where a run of layers is cut into launches.
struct LaunchCuts {
  std::vector<std::size_t> cuts; ///< the layers that begin a launch, except layer 0; ascending
  double seconds = 0.0;          ///< time of the whole run
};

/// The seconds that a run takes with these cuts. live: samples before each layer, and after the last one.
double seconds_of(std::vector<std::size_t> const& cuts, std::span<FusedLayer const> layers,
                  std::span<double const> live, LaunchCosts const& costs);

/// The cuts with which a run takes the least time, by dynamic programming in time quadratic in the number of layers.
LaunchCuts choose_cuts(std::span<FusedLayer const> layers, std::span<double const> live, LaunchCosts const& costs);

} // namespace varve
