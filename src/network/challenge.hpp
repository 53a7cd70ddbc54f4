#pragma once

#include <cstddef>
#include <optional>

namespace varve {

/// Cap of every activation in the Sparse DNN Graph Challenge.
inline constexpr double kChallengeCap = 32.0;

/// Weight of every edge in the challenge's networks: twice the weight with which the 32 edges of a neuron would average
/// its inputs.
inline constexpr double kChallengeWeight = 1.0 / 16.0;

/// Bias of every neuron in the challenge's networks of this width; nullopt if the challenge has no network of this
/// width.
constexpr std::optional<double> challenge_bias(std::size_t neurons) {
  switch (neurons) {
  case 1024:
    return -0.30;
  case 4096:
    return -0.35;
  case 16384:
    return -0.40;
  case 65536:
    return -0.45;
  default:
    return std::nullopt;
  }
}

} // namespace varve
