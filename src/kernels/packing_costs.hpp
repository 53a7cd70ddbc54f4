#pragma once

namespace varve {

/// What launches of the fused kernel cost, in seconds (tuning.hpp). Within a launch a tile is computed to the end
/// although most of its samples may be dead; between two, those that are left are packed into tiles again.
struct PackingCosts {
  double launch;      ///< of one more launch
  double weight;      ///< of one weight for one sample, while the device is full
  double moved_value; ///< of one activation of a sample that is packed
  double full;        ///< samples that fill the device: fewer take as long
};

} // namespace varve
