#include "device_loop.cuh"

#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <chrono>

namespace varve::contenders {
namespace {

constexpr int kThreads = 256;
constexpr int kNeuronsPerThread = 32;

int blocks_for(int count, int per_block) { return (count + per_block - 1) / per_block; }

__global__ void scatter_samples(EdgeOffset const* pointers, int const* neurons, float const* values, Panel panel) {
  int const sample = static_cast<int>(blockIdx.x);
  for (EdgeOffset entry = pointers[sample] + threadIdx.x; entry < pointers[sample + 1]; entry += blockDim.x)
    panel.values[neurons[entry] * panel.neuron_stride + sample * panel.sample_stride] = values[entry];
}

__global__ void number_samples(int* ids, int count) {
  int const sample = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (sample < count) ids[sample] = sample;
}

__device__ float activation(float sum, double bias, float lower, float upper) {
  return fminf(fmaxf(static_cast<float>(static_cast<double>(sum) + bias), lower), upper);
}

/// Samples adjacent: a thread works down some neurons of its sample. `is_live`, if given, is zero before.
__global__ void activate_down(Panel panel, double const* bias, float lower, float upper, char* is_live) {
  int const sample = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (sample >= panel.num_samples) return;
  int const first = static_cast<int>(blockIdx.y) * kNeuronsPerThread;
  int const last = min(first + kNeuronsPerThread, panel.num_neurons);
  bool any = false;
#pragma unroll 8
  for (int neuron = first; neuron < last; ++neuron) {
    float& value = panel.values[neuron * panel.neuron_stride + sample];
    value = activation(value, bias[neuron], lower, upper);
    any = any || value != 0.0F;
  }
  if (is_live != nullptr && any) is_live[sample] = 1;
}

/// Neurons adjacent: a block works along the neurons of its sample.
__global__ void activate_along(Panel panel, double const* bias, float lower, float upper, char* is_live) {
  std::size_t const sample = blockIdx.x;
  bool any = false;
#pragma unroll 4
  for (int neuron = static_cast<int>(threadIdx.x); neuron < panel.num_neurons; neuron += static_cast<int>(blockDim.x)) {
    float& value = panel.values[sample * panel.sample_stride + neuron];
    value = activation(value, bias[neuron], lower, upper);
    any = any || value != 0.0F;
  }
  if (is_live == nullptr) return;
  bool const lives = __syncthreads_or(any) != 0;
  if (threadIdx.x == 0) is_live[sample] = lives ? 1 : 0;
}

/// Place k of the target is place list[k] of the source.
__global__ void move_down(Panel source, Panel target, int const* list) {
  int const place = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (place >= target.num_samples) return;
  int const from = list[place];
  int const first = static_cast<int>(blockIdx.y) * kNeuronsPerThread;
  int const last = min(first + kNeuronsPerThread, target.num_neurons);
#pragma unroll 8
  for (int neuron = first; neuron < last; ++neuron)
    target.values[neuron * target.neuron_stride + place] = source.values[neuron * source.neuron_stride + from];
}

__global__ void move_along(Panel source, Panel target, int const* list) {
  std::size_t const place = blockIdx.x;
  auto const from = static_cast<std::size_t>(list[place]);
#pragma unroll 4
  for (int neuron = static_cast<int>(threadIdx.x); neuron < target.num_neurons; neuron += static_cast<int>(blockDim.x))
    target.values[place * target.sample_stride + neuron] = source.values[from * source.sample_stride + neuron];
}

__global__ void move_ids(int const* source, int* target, int const* list, int count) {
  int const place = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (place < count) target[place] = source[list[place]];
}

} // namespace

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "looking for a device");
  check(cudaGetDeviceProperties(&properties, device), "asking the device for its name");
  return properties.name;
}

DeviceLoop::DeviceLoop(LoopOptions options) : options_(std::move(options)) {
  check(cudaStreamCreate(&stream_), "creating a stream");
  check(cudaMallocHost(reinterpret_cast<void**>(&num_live_h_), sizeof(int)), "allocating pinned memory");
  num_live_ = DeviceArray<int>(1);
}

DeviceLoop::~DeviceLoop() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  cudaFreeHost(num_live_h_);
  cudaStreamDestroy(stream_);
}

void DeviceLoop::add(HostLayer const& layer) {
  add_weights(layer);
  if (!layers_.empty() && layers_.back().removes_dead) removes_dead_ = true; // the last layer only marks them
  layers_.push_back({layer.num_inputs, layer.num_outputs, DeviceArray<double>(layer.bias), layer.lower, layer.upper,
                     layer.removes_dead});
  max_neurons_ = std::max({max_neurons_, layer.num_inputs, layer.num_outputs});
}

Panel DeviceLoop::panel(int buffer, int num_neurons) const {
  auto const line = static_cast<std::size_t>(blocks_for(held_, 32)) * 32; // whole lines of 128 bytes
  bool const samples_adjacent = options_.layout == Layout::samples_adjacent;
  return {buffers_[buffer].data(), num_neurons, held_, samples_adjacent ? line : 1,
          samples_adjacent ? 1 : static_cast<std::size_t>(num_neurons)};
}

void DeviceLoop::allocate(HostSamples const& samples) {
  capacity_ = samples.num_samples;
  auto const places = static_cast<std::size_t>(blocks_for(capacity_, 32)) * 32;
  for (auto& buffer : buffers_) buffer = DeviceArray<float>(places * static_cast<std::size_t>(max_neurons_));
  for (auto& ids : ids_) ids = DeviceArray<int>(places);
  live_list_ = DeviceArray<int>(places);
  is_live_ = DeviceArray<char>(places);
  std::size_t bytes = 0;
  check(cub::DeviceSelect::Flagged(nullptr, bytes, thrust::counting_iterator<int>(0), is_live_.data(),
                                   live_list_.data(), num_live_.data(), capacity_, stream_),
        "planning the list of live samples");
  select_storage_ = DeviceArray<char>(bytes);
  sample_pointers_ = DeviceArray<EdgeOffset>(samples.row_pointers);
  sample_neurons_ = DeviceArray<int>(samples.neurons);
  sample_values_ = DeviceArray<float>(samples.values);
}

/// The samples in dense form in the first buffer.
void DeviceLoop::expand(HostSamples const& samples) {
  held_ = samples.num_samples;
  current_ = 0;
  Panel const first = panel(0, layers_.front().num_inputs);
  check(cudaMemsetAsync(first.values, 0, buffers_[0].size() * sizeof(float), stream_), "clearing the panel");
  scatter_samples<<<held_, 64, 0, stream_>>>(sample_pointers_.data(), sample_neurons_.data(), sample_values_.data(),
                                             first);
  number_samples<<<blocks_for(held_, kThreads), kThreads, 0, stream_>>>(ids_[0].data(), held_);
  check(cudaGetLastError(), "expanding the samples");
}

void DeviceLoop::run_layers() {
  for (std::size_t number = 0; number < layers_.size() && held_ > 0; ++number) {
    DeviceLayer const& layer = layers_[number];
    bool const is_last = number + 1 == layers_.size();
    Panel const next = panel(1 - current_, layer.num_outputs);
    multiply(number, panel(current_, layer.num_inputs), next);
    activate(layer, next, is_last || layer.removes_dead);
    current_ = 1 - current_;
    if (layer.removes_dead && !is_last) remove_dead(layer.num_outputs);
  }
}

void DeviceLoop::activate(DeviceLayer const& layer, Panel next, bool marks_live) {
  char* const is_live = marks_live ? is_live_.data() : nullptr;
  if (options_.layout == Layout::samples_adjacent) {
    if (marks_live) check(cudaMemsetAsync(is_live, 0, static_cast<std::size_t>(held_), stream_), "clearing the marks");
    dim3 const grid(blocks_for(held_, kThreads), blocks_for(layer.num_outputs, kNeuronsPerThread));
    activate_down<<<grid, kThreads, 0, stream_>>>(next, layer.bias.data(), layer.lower, layer.upper, is_live);
  } else {
    activate_along<<<held_, kThreads, 0, stream_>>>(next, layer.bias.data(), layer.lower, layer.upper, is_live);
  }
  check(cudaGetLastError(), "bias and activation");
}

void DeviceLoop::remove_dead(int num_outputs) {
  std::size_t bytes = select_storage_.size();
  check(cub::DeviceSelect::Flagged(select_storage_.data(), bytes, thrust::counting_iterator<int>(0), is_live_.data(),
                                   live_list_.data(), num_live_.data(), held_, stream_),
        "listing live samples");
  check(cudaMemcpyAsync(num_live_h_, num_live_.data(), sizeof(int), cudaMemcpyDeviceToHost, stream_), "counting them");
  check(cudaStreamSynchronize(stream_), "counting live samples");
  int const live = *num_live_h_;
  if (live == held_) return;
  Panel const source = panel(current_, num_outputs);
  held_ = live;
  if (live == 0) return;
  Panel const target = panel(1 - current_, num_outputs);
  if (options_.layout == Layout::samples_adjacent) {
    dim3 const grid(blocks_for(live, kThreads), blocks_for(num_outputs, kNeuronsPerThread));
    move_down<<<grid, kThreads, 0, stream_>>>(source, target, live_list_.data());
  } else {
    move_along<<<live, kThreads, 0, stream_>>>(source, target, live_list_.data());
  }
  move_ids<<<blocks_for(live, kThreads), kThreads, 0, stream_>>>(ids_[0].data(), ids_[1].data(), live_list_.data(),
                                                                 live);
  check(cudaGetLastError(), "moving live samples together");
  std::swap(ids_[0], ids_[1]);
  current_ = 1 - current_;
}

/// Records all launches of the loop.
void DeviceLoop::record() {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording the loop");
  run_layers();
  check(cudaStreamEndCapture(stream_, &graph), "recording the loop");
  check(cudaGraphInstantiate(&graph_, graph, 0), "making a graph of the loop");
  cudaGraphDestroy(graph);
}

void DeviceLoop::run_once() {
  if (graph_ == nullptr) {
    run_layers();
  } else {
    check(cudaGraphLaunch(graph_, stream_), "launching the graph");
    current_ = static_cast<int>(layers_.size() % 2);
  }
}

LoopResult DeviceLoop::run(HostSamples const& samples) {
  using Clock = std::chrono::steady_clock;
  if (options_.as_graph && !has_fixed_shapes())
    throw UsageError("a network that removes dead samples has no fixed shapes, so its loop cannot be one graph");
  LoopResult result;
  if (samples.num_samples == 0) return result;
  allocate(samples);
  expand(samples);
  run_layers();
  check(cudaStreamSynchronize(stream_), "the layer loop");
  if (options_.as_graph) {
    expand(samples);
    record();
  }
  for (std::size_t repetition = 0; repetition < options_.repeat; ++repetition) {
    expand(samples);
    check(cudaStreamSynchronize(stream_), "expanding the samples");
    auto const start = Clock::now();
    run_once();
    check(cudaStreamSynchronize(stream_), "the layer loop");
    result.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  collect(result);
  return result;
}

void DeviceLoop::collect(LoopResult& result) {
  auto const held = static_cast<std::size_t>(held_);
  auto const ids = ids_[0].download(held);
  auto const is_live = is_live_.download(held);
  Panel const last = panel(current_, layers_.back().num_outputs);
  auto const num_outputs = static_cast<std::size_t>(last.num_neurons);
  std::vector<float> values;
  if (options_.is_verified)
    values = buffers_[current_].download(last.line_stride() * (last.neuron_stride == 1 ? held : num_outputs));
  for (std::size_t place = 0; place < held; ++place) {
    if (is_live[place] == 0) continue;
    result.live.push_back(ids[place]);
    for (std::size_t neuron = 0; options_.is_verified && neuron < num_outputs; ++neuron)
      result.activations.push_back(values[neuron * last.neuron_stride + place * last.sample_stride]);
  }
}

} // namespace varve::contenders
