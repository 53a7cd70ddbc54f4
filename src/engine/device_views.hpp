#pragma once

#include "engine/inference.hpp"
#include "engine/panel.hpp"

namespace varve {

/// An engine whose samples and activations may lie on the device. The Inference that prepare() makes for Varve's own
/// engine is one, too.
class InferenceOnDevice {
public:
  virtual ~InferenceOnDevice() = default;

  /// Does what Inference::infer() does with samples [samples, inputs], of which the first is number first_sample, and
  /// writes the last activations [samples, outputs]. Everything runs in the instance of the backend's Kokkos execution
  /// space at address `space`; neither samples nor activations are copied to the host. Returns when the activations are
  /// written. Throws InputError if a sample has a value that is not finite.
  virtual BatchResult infer_on_device(void const* space, DeviceInput const& samples, DeviceOutput const& activations,
                                      SampleIndex first_sample) = 0;
};

} // namespace varve
