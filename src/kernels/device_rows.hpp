#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"

#include <cstdint>

namespace varve {

/// Rows of a sparse matrix on a device.
template <class ExecutionSpace, class Scalar>
struct DeviceRows {
  ConstDeviceArray<ExecutionSpace, std::uint64_t> row_pointers;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> columns; ///< ascending within each row
  ConstDeviceArray<ExecutionSpace, Scalar> values;       ///< one per entry, or one for all entries
};

} // namespace varve
