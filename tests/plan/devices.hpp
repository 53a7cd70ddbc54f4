#pragma once

#include "kernels/device_traits.hpp"
#include "kernels/tuning.hpp"

#include <string>
#include <vector>

namespace varve::test {

/// A device that plans are made for, here, whether this binary has it or not.
struct Device {
  std::string name;
  DeviceTraits traits;
};

inline std::vector<Device> all_devices() {
  using Host = Kokkos::DefaultHostExecutionSpace;
  return {{"one thread", device_traits<Host, float>(1, 0)},
          {"two threads", device_traits<Host, double>(2, 0)},
          {"64 threads", device_traits<Host, float>(64, 0)},
          {"H200 in float", device_traits<Host, float, CudaTuning, CudaFusedTuning>(132, 232448)},
          {"A100 in float", device_traits<Host, float, CudaTuning, CudaFusedTuning>(108, 166912)},
          {"V100 in double", device_traits<Host, double, CudaTuning, CudaFusedTuning>(80, 98304)},
          {"half an MI250 in float", device_traits<Host, float, HipTuning, HipFusedTuning>(104, 57344)}};
}

inline Device const& device_of(std::string const& name) {
  static std::vector<Device> const devices = all_devices();
  for (auto const& device : devices)
    if (device.name == name) return device;
  throw std::logic_error("no such device");
}

} // namespace varve::test
