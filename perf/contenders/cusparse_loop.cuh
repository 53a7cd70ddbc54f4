#pragma once

#include "device_loop.cuh"

#include <cusparse.h>

#include <vector>

namespace varve::contenders {

/// Products by cuSPARSE's SpMM: weights in CSR times a dense panel.
class CusparseLoop final : public DeviceLoop {
public:
  explicit CusparseLoop(LoopOptions options);
  ~CusparseLoop() override;

private:
  struct Weights {
    DeviceArray<int> row_pointers, columns;
    DeviceArray<float> values;
    DeviceArray<char> buffer; ///< of the library
    cusparseSpMatDescr_t matrix = nullptr;
  };

  void add_weights(HostLayer const& layer) override;
  void multiply(std::size_t number, Panel previous, Panel next) override;
  char* work_space(Weights& weights, cusparseDnMatDescr_t previous, cusparseDnMatDescr_t next);

  cusparseHandle_t handle_ = nullptr;
  std::vector<Weights> weights_;
};

} // namespace varve::contenders
