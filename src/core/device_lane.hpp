#pragma once

#include "core/device_memory.hpp"

#include <utility>

namespace varve {

/// The instance of an execution space in which a lane runs kernels.
template <class ExecutionSpace>
class DeviceLane : public Lane {
public:
  ExecutionSpace const& instance() const { return space_; }

protected:
  explicit DeviceLane(ExecutionSpace space) : space_(std::move(space)) {}

  ExecutionSpace space_;
};

/// The instance of a lane, which must be one of this execution space.
template <class ExecutionSpace>
ExecutionSpace const& instance_of(Lane const& lane) {
  return static_cast<DeviceLane<ExecutionSpace> const&>(lane).instance();
}

} // namespace varve
