#include "plan/launches.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace varve {
namespace {

/// Seconds of a launch of any neighbouring layers of a run.
class LaunchSeconds {
public:
  LaunchSeconds(std::span<FusedLayer const> layers, std::span<double const> live, LaunchCosts const& costs)
      : layers_(layers), live_(live), costs_(costs), stored_(layers.size() + 1, 0.0) {
    for (std::size_t i = 0; i < layers.size(); ++i) stored_[i + 1] = stored_[i] + layers[i].num_stored;
  }

  /// Seconds of one launch of layers [first, last).
  double of(std::size_t first, std::size_t last) const {
    double const computed = std::max(live_[first], costs_.full) * (stored_[last] - stored_[first]);
    double const moved = live_[last] * layers_[last - 1].num_outputs;
    return costs_.launch + costs_.weight * computed + costs_.moved_value * moved;
  }

private:
  std::span<FusedLayer const> layers_;
  std::span<double const> live_;
  LaunchCosts const& costs_;
  std::vector<double> stored_; ///< by layer: stored weights of all layers before it
};

} // namespace

std::vector<double> live_shares(std::vector<LiveShare> const& known, std::size_t num_layers) {
  constexpr double least = 1e-9; // replaces a share of 0, which has no logarithm
  std::vector<double> shares(num_layers + 1, known.back().share);
  for (std::size_t i = 0; i + 1 < known.size(); ++i) {
    auto const& [first, before] = known[i];
    auto const& [last, after] = known[i + 1];
    double const rate = std::log(std::max(after, least) / std::max(before, least)) /
                        static_cast<double>(std::max(last - first, std::size_t(1)));
    for (std::size_t layer = first; layer < last && layer <= num_layers; ++layer)
      shares[layer] = before * std::exp(rate * static_cast<double>(layer - first));
  }
  return shares;
}

double seconds_of(std::vector<std::size_t> const& cuts, std::span<FusedLayer const> layers,
                  std::span<double const> live, LaunchCosts const& costs) {
  LaunchSeconds const launch(layers, live, costs);
  double seconds = 0.0;
  std::size_t first = 0;
  for (std::size_t const cut : cuts) {
    seconds += launch.of(first, cut);
    first = cut;
  }
  return seconds + launch.of(first, layers.size());
}

LaunchCuts choose_cuts(std::span<FusedLayer const> layers, std::span<double const> live, LaunchCosts const& costs) {
  LaunchSeconds const launch(layers, live, costs);
  // Dynamic programming. least[i]: least seconds of the first i layers; from[i]: first layer of their last launch.
  std::vector<double> least(layers.size() + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> from(layers.size() + 1, 0);
  least[0] = 0.0;
  for (std::size_t last = 1; last <= layers.size(); ++last) {
    for (std::size_t first = 0; first < last; ++first) {
      double const seconds = least[first] + launch.of(first, last);
      if (seconds >= least[last]) continue;
      least[last] = seconds;
      from[last] = first;
    }
  }
  LaunchCuts chosen{{}, least.back()};
  for (std::size_t first = from.back(); first > 0; first = from[first]) chosen.cuts.push_back(first);
  std::ranges::reverse(chosen.cuts);
  return chosen;
}

} // namespace varve
