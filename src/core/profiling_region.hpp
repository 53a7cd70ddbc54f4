#pragma once

#include <string>

namespace varve {

/// Labels everything launched during its lifetime for Kokkos Tools.
class ProfilingRegion {
public:
  explicit ProfilingRegion(std::string const& label);
  ~ProfilingRegion();
  ProfilingRegion(ProfilingRegion const&) = delete;
  ProfilingRegion& operator=(ProfilingRegion const&) = delete;
};

} // namespace varve
