#pragma once

#include "device.cuh"
#include "layer_loop.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace varve::contenders {

/// Activations of the held samples; element (neuron, sample) lies at neuron * neuron_stride + sample * sample_stride.
struct Panel {
  float* values;
  int num_neurons;
  int num_samples;
  std::size_t neuron_stride;
  std::size_t sample_stride;

  /// Elements from one line (of adjacent ones) to the next.
  std::size_t line_stride() const { return neuron_stride == 1 ? sample_stride : neuron_stride; }
};

/// All of the loop but the product, which a library makes: bias and activation in one kernel over the product, then,
/// where the network allows it and a sample died, the living ones move together.
class DeviceLoop : public LayerLoop {
public:
  explicit DeviceLoop(LoopOptions options);
  ~DeviceLoop() override;

  void add(HostLayer const& layer) final;
  LoopResult run(HostSamples const& samples) final;

protected:
  /// Brings the weights of the next layer to the device in the library's form.
  virtual void add_weights(HostLayer const& layer) = 0;

  /// next = weights of layer `number` * previous, on stream().
  virtual void multiply(std::size_t number, Panel previous, Panel next) = 0;

  LoopOptions const& options() const { return options_; }
  cudaStream_t stream() const { return stream_; }

  /// True if no layer removes samples, so that all run with the same shapes each time.
  bool has_fixed_shapes() const { return !removes_dead_; }

private:
  struct DeviceLayer {
    int num_inputs, num_outputs;
    DeviceArray<double> bias;
    float lower, upper;
    bool removes_dead;
  };

  Panel panel(int buffer, int num_neurons) const;
  void allocate(HostSamples const& samples);
  void expand(HostSamples const& samples);
  void run_layers();
  void activate(DeviceLayer const& layer, Panel next, bool marks_live);
  void remove_dead(int num_outputs);
  void record();
  void run_once();
  void collect(LoopResult& result);

  LoopOptions options_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  std::vector<DeviceLayer> layers_;
  bool removes_dead_ = false;
  int max_neurons_ = 0;

  DeviceArray<float> buffers_[2];
  DeviceArray<int> ids_[2];
  DeviceArray<int> live_list_, num_live_;
  DeviceArray<char> is_live_, select_storage_;
  DeviceArray<EdgeOffset> sample_pointers_;
  DeviceArray<int> sample_neurons_;
  DeviceArray<float> sample_values_;
  int* num_live_h_ = nullptr;
  int capacity_ = 0;
  int held_ = 0;
  int current_ = 0;
};

} // namespace varve::contenders
