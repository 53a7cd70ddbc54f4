#pragma once

#include "core/device_memory.hpp"

#include <utility>

namespace varve {

/// The instance of an execution space in which a stream runs kernels.
template <class ExecutionSpace>
class DeviceStream : public Stream {
public:
  ExecutionSpace const& instance() const { return space_; }

protected:
  explicit DeviceStream(ExecutionSpace space) : space_(std::move(space)) {}

  ExecutionSpace space_;
};

/// The instance of a stream, which must be one of this execution space.
template <class ExecutionSpace>
ExecutionSpace const& instance_of(Stream const& stream) {
  return static_cast<DeviceStream<ExecutionSpace> const&>(stream).instance();
}

} // namespace varve
