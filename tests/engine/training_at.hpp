#pragma once

#include "engine/places.hpp"
#include "engine/training.hpp"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace varve::test {

/// Options of training at a place, with mini-batches of so many samples.
inline TrainingOptions training_at(Place place, std::size_t batch) {
  TrainingOptions options;
  options.backend = place.backend;
  options.precision = place.precision;
  options.batch = batch;
  return options;
}

/// The same by an optimizer whose numbers all matter.
inline TrainingOptions training_at(Place place, std::size_t batch, OptimizerKind optimizer) {
  auto options = training_at(place, batch);
  options.optimizer.kind = optimizer;
  options.optimizer.l2 = 1e-3;
  return options;
}

/// Samples of a leaf of the tree over which gradients are added up.
inline std::size_t leaf_at(Place place) { return place.precision == Precision::double_precision ? 32 : 64; }

/// `count` neighbouring rows from `first` on.
inline std::vector<std::uint64_t> rows_from(std::size_t first, std::size_t count) {
  std::vector<std::uint64_t> rows(count);
  std::iota(rows.begin(), rows.end(), std::uint64_t{first});
  return rows;
}

} // namespace varve::test
