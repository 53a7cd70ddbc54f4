#pragma once

#include <algorithm>
#include <cmath>

namespace varve {

/// What a team of SpreadForward does: some tiles, computed in parallel, times some slices, one after another.
struct SpreadShare {
  int tiles;
  int slices;
};

/// The share of a team if as many teams as `num_teams` divide the work. Of the shares of one size a team brings least
/// to scratch for the one that has as many bytes of activations as of edges. At most `most_tiles` tiles fit a team.
inline SpreadShare spread_share(int num_tiles, int num_slices, int num_teams, double bytes_of_tile,
                                double bytes_of_slice, int most_tiles) {
  double const size = std::max(1.0, static_cast<double>(num_tiles) * num_slices / num_teams);
  double const wanted = std::clamp(std::sqrt(size * bytes_of_slice / bytes_of_tile), 1.0, size);
  int const groups_wanted = std::max(1, static_cast<int>(std::lround(num_tiles / wanted)));
  int const tiles = std::min(most_tiles, (num_tiles + groups_wanted - 1) / groups_wanted);
  int const groups = (num_tiles + tiles - 1) / tiles;
  return {tiles, std::max(1, static_cast<int>(std::ceil(size * groups / num_tiles)))};
}

} // namespace varve
