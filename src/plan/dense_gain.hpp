#pragma once

#include "network/sparse_matrix.hpp"
#include "plan/device_traits.hpp"

namespace varve {

/// True if, by the measured rates of the device, a layer in dense blocks of `stored` weights, zeros included, takes
/// less time than its edges alone in sliced ELL, and less than in pattern blocks of this shape.
bool gains_from_dense(SparseMatrix const& matrix, EdgeOffset stored, EllShape const& pattern_blocks,
                      DeviceTraits const& device);

} // namespace varve
