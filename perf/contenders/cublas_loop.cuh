#pragma once

#include "device_loop.cuh"

#include <cublas_v2.h>

#include <vector>

namespace varve::contenders {

/// Products by cuBLAS's SGEMM in full single precision (no TF32) on the densified weights.
class CublasLoop final : public DeviceLoop {
public:
  explicit CublasLoop(LoopOptions options);
  ~CublasLoop() override;

private:
  void add_weights(HostLayer const& layer) override;
  void multiply(std::size_t number, Panel previous, Panel next) override;

  cublasHandle_t handle_ = nullptr;
  DeviceArray<char> work_space_;
  std::vector<DeviceArray<float>> weights_; ///< of each layer: [outputs, inputs], inputs adjacent
};

} // namespace varve::contenders
