#pragma once

#include "engine/inference.hpp"
#include "engine/panel.hpp"

namespace varve {

/// An engine that accepts samples and activations on the device. The Inference that prepare() returns for Varve's own
/// engine also implements this interface.
class InferenceOnDevice {
public:
  virtual ~InferenceOnDevice() = default;

  /// Inference::infer() for dense samples [samples, inputs], the first with number first_sample. Writes the last
  /// activations [samples, outputs]. Everything runs in the instance of the backend's Kokkos execution space at address
  /// `space`; neither samples nor activations are copied to the host. Returns when the activations are written. Throws
  /// InputError if a sample has a value that is not finite.
  virtual BatchResult infer_on_device(void const* space, DeviceInput const& samples, DeviceOutput const& activations,
                                      SampleIndex first_sample) = 0;
};

} // namespace varve
