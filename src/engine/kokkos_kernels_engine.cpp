#include "core/device_stream.hpp"
#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/backends.hpp"
#include "formats/device_layer.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <KokkosSparse_CrsMatrix.hpp>
#include <KokkosSparse_spmv.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace varve {
namespace {

/// Sparse matrix times multi-vector by Kokkos Kernels, a bias and activation kernel, and removal of dead samples after
/// every layer: what a user of the libraries would write. It adds products in the library's own order, so its
/// activations agree with Varve's only to rounding.
/// Samples are columns of the multi-vectors. On the host the samples of a neuron are contiguous (ten times faster
/// there), on a GPU the neurons of a sample (the layout that cuSPARSE requires).
template <class ExecutionSpace, class Scalar>
class KokkosKernelsEngine final : public Inference {
public:
  using Layout = std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::LayoutRight, Kokkos::LayoutLeft>;
  using Matrix = KokkosSparse::CrsMatrix<Scalar, int, typename ExecutionSpace::device_type, void, int>;
  using MultiVector = Kokkos::View<Scalar**, Layout, typename ExecutionSpace::device_type, Kokkos::MemoryUnmanaged>;

  // The functors are public because the code that nvcc generates names them outside the class.
  struct BiasAndActivation {
    LayerParameters<Scalar> layer;
    MultiVector values;
    KOKKOS_FUNCTION void operator()(int neuron, int sample) const {
      Pack<Scalar, 1> one{{values(neuron, sample)}};
      finish(one, layer.bias_of(neuron), layer.bounds);
      values(neuron, sample) = one.lane[0];
    }
  };
  struct FindLive {
    MultiVector values;
    DeviceArray<ExecutionSpace, int> position;
    KOKKOS_FUNCTION void operator()(int sample, int& next, bool is_final) const {
      bool is_live = false;
      for (int neuron = 0; neuron < static_cast<int>(values.extent(0)) && !is_live; ++neuron)
        is_live = values(neuron, sample) != Scalar(0);
      if (is_final) position(sample) = next;
      next += is_live ? 1 : 0;
      if (is_final && sample + 1 == static_cast<int>(values.extent(1))) position(sample + 1) = next;
    }
  };
  struct KeepLive {
    MultiVector source, target;
    DeviceArray<ExecutionSpace, int> position, ids, next_ids;
    KOKKOS_FUNCTION void operator()(int neuron, int sample) const {
      int const place = position(sample);
      if (position(sample + 1) == place) return;
      target(neuron, place) = source(neuron, sample);
      if (neuron == 0) next_ids(place) = ids(sample);
    }
  };
  struct NumberSamples {
    DeviceArray<ExecutionSpace, int> ids;
    KOKKOS_FUNCTION void operator()(int slot) const { ids(slot) = slot; }
  };

  KokkosKernelsEngine(NetworkSource const& network, InferenceOptions const& options) : options_(options) {
    memory_limit_ = memory_limits(options, options.backend).device;
    for (std::size_t number = 0; number < network.num_layers(); ++number) add_layer(network.layer(number), number);
  }

  std::size_t num_inputs() const override { return num_inputs_; }
  std::size_t num_outputs() const override { return num_outputs_; }
  std::size_t num_layers() const override { return layers_.size(); }
  EdgeOffset num_edges() const override { return num_edges_; }

  Plan const& plan(InputShape const& input) override {
    std::size_t const sample_bytes = 2 * max_neurons_ * sizeof(Scalar) + 4 * sizeof(int);
    std::size_t const fitting = weight_bytes_ < memory_limit_ ? (memory_limit_ - weight_bytes_) / sample_bytes : 0;
    std::size_t const most = std::min<std::size_t>(fitting, 1U << 30);
    std::size_t const batch = std::max<std::size_t>(1, std::min(input.num_samples, options_.batch.value_or(most)));
    if (batch > most) {
      batch_exceeds_memory(batch, batch * sample_bytes, weight_bytes_, memory_limit_, most);
    }
    for (auto& buffer : buffers_) {
      buffer = DeviceArray<ExecutionSpace, Scalar>();
      buffer = DeviceArray<ExecutionSpace, Scalar>(
          Kokkos::view_alloc(Kokkos::WithoutInitializing, "varve::multi_vector"), batch * max_neurons_);
    }
    for (auto& ids : ids_) ids = DeviceArray<ExecutionSpace, int>("varve::sample_ids", batch);
    position_ = DeviceArray<ExecutionSpace, int>("varve::position", batch + 1);
    plan_ = {};
    plan_.engine = to_string(Engine::kokkos_kernels);
    plan_.device = device_name(options_.backend);
    plan_.method = "KokkosSparse::spmv on a multi-vector, then bias and activation, then removal of dead samples";
    plan_.batch = batch;
    plan_.weight_bytes = weight_bytes_;
    plan_.panel_bytes = batch * sample_bytes;
    return plan_;
  }

  Plan const& plan() const override { return plan_; }

  BatchResult infer(SampleBatch const& batch, WantedOutputs wanted) override {
    require_representable(batch, options_.precision, options_.input_name);
    auto const samples = to_set(batch);
    BatchResult result;
    std::vector<Scalar> dense(samples.num_samples() * num_inputs_, Scalar(0));
    fill(samples.matrix, dense);
    auto const input = upload<ExecutionSpace>("varve::input", dense);
    for (std::size_t repetition = 0; repetition < options_.repeat; ++repetition) {
      copy_and_wait(Kokkos::subview(buffers_[0], std::make_pair(std::size_t(0), dense.size())), input);
      space_.fence("varve: before the layer loop");
      Stopwatch const loop_time;
      result.live_edges = run(static_cast<int>(samples.num_samples()));
      space_.fence("varve: after the layer loop");
      result.loop_seconds.push_back(loop_time.seconds());
    }
    collect(samples, wanted, result);
    return result;
  }

private:
  struct DeviceLayer {
    Matrix weights;
    LayerFrame<ExecutionSpace, Scalar> frame;
    bool removes_dead = false;
  };

  void add_layer(Layer const& layer, std::size_t number) {
    if (number == 0) num_inputs_ = layer.num_inputs();
    if (number > 0) require_fit(num_outputs_, layer, number);
    SparseMatrix const& weights = layer.weights;
    auto constexpr most = static_cast<std::size_t>(std::numeric_limits<int>::max());
    if (std::max<std::size_t>({layer.num_inputs(), layer.num_outputs(), layer.num_edges()}) > most) {
      layer_is_too_wide(number, layer.num_inputs(), layer.num_outputs());
    }
    std::vector<int> const pointers(weights.row_pointers.begin(), weights.row_pointers.end());
    std::vector<int> const columns(weights.column_indices.begin(), weights.column_indices.end());
    std::vector<Scalar> values(weights.num_entries());
    for (EdgeOffset entry = 0; entry < weights.num_entries(); ++entry)
      values[entry] = static_cast<Scalar>(weights.value(entry));
    DeviceLayer device;
    device.weights = Matrix("weights", static_cast<int>(weights.num_rows), static_cast<int>(weights.num_columns),
                            static_cast<int>(weights.num_entries()), upload<ExecutionSpace>("varve::weights", values),
                            upload<ExecutionSpace>("varve::row_pointers", pointers),
                            upload<ExecutionSpace>("varve::indices", columns));
    device.frame = LayerFrame<ExecutionSpace, Scalar>(layer, {}, {});
    if (!keeps_zero(layer)) {
      for (auto& before : layers_) before.removes_dead = false;
    }
    device.removes_dead = true; // set to false above if a later layer revives dead samples
    layers_.push_back(device);
    num_outputs_ = layer.num_outputs();
    num_edges_ += layer.num_edges();
    max_neurons_ = std::max({max_neurons_, layer.num_inputs(), layer.num_outputs()});
    weight_bytes_ += values.size() * (sizeof(Scalar) + sizeof(int)) + pointers.size() * sizeof(int);
    if (weight_bytes_ > memory_limit_) {
      throw ResourceError("the weights of the first " + std::to_string(number + 1) + " layers need " +
                          in_gibibytes(weight_bytes_) + ", but only " + in_gibibytes(memory_limit_) + " may be used; " +
                          raise_limit + " or take a device with more memory");
    }
  }

  /// The samples as a dense multi-vector [inputs, samples] in this engine's layout.
  void fill(SparseMatrix const& samples, std::vector<Scalar>& dense) const {
    for (std::size_t sample = 0; sample < samples.num_rows; ++sample) {
      for (EdgeOffset entry = samples.row_pointers[sample]; entry < samples.row_pointers[sample + 1]; ++entry) {
        std::size_t const neuron = samples.column_indices[entry];
        std::size_t const place =
            kOnHost<ExecutionSpace> ? neuron * samples.num_rows + sample : sample * num_inputs_ + neuron;
        dense[place] = static_cast<Scalar>(samples.value(entry));
      }
    }
  }

  double run(int num_samples) {
    using Plane = Kokkos::MDRangePolicy<
        ExecutionSpace, Kokkos::Rank<2, kOnHost<ExecutionSpace> ? Kokkos::Iterate::Right : Kokkos::Iterate::Left>>;
    double live_edges = 0.0;
    held_ = num_samples;
    current_ = 0;
    auto const ids = ids_[0];
    Kokkos::parallel_for("varve::number_samples", Kokkos::RangePolicy<ExecutionSpace>(space_, 0, held_),
                         NumberSamples{ids});
    for (std::size_t number = 0; number < layers_.size() && held_ > 0; ++number) {
      DeviceLayer const& layer = layers_[number];
      live_edges += static_cast<double>(layer.weights.nnz()) * held_;
      int const outputs = layer.frame.num_outputs;
      MultiVector const previous(buffers_[current_].data(), static_cast<std::size_t>(layer.frame.num_inputs),
                                 static_cast<std::size_t>(held_));
      MultiVector const next(buffers_[1 - current_].data(), static_cast<std::size_t>(outputs),
                             static_cast<std::size_t>(held_));
      KokkosSparse::spmv(space_, "N", Scalar(1), layer.weights, previous, Scalar(0), next);
      Kokkos::parallel_for("varve::bias_and_activation", Plane(space_, {0, 0}, {outputs, held_}),
                           BiasAndActivation{layer.frame.parameters(), next});
      current_ = 1 - current_;
      if (!layer.removes_dead && number + 1 < layers_.size()) continue;
      int live = 0;
      Kokkos::parallel_scan("varve::find_live", Kokkos::RangePolicy<ExecutionSpace>(space_, 0, held_),
                            FindLive{next, position_}, live);
      MultiVector const kept(buffers_[1 - current_].data(), static_cast<std::size_t>(outputs),
                             static_cast<std::size_t>(live));
      Kokkos::parallel_for("varve::keep_live", Plane(space_, {0, 0}, {outputs, held_}),
                           KeepLive{next, kept, position_, ids_[0], ids_[1]});
      std::swap(ids_[0], ids_[1]);
      current_ = 1 - current_;
      held_ = live;
    }
    return live_edges;
  }

  void collect(SampleSet const& samples, WantedOutputs wanted, BatchResult& result) const {
    auto const live = static_cast<std::size_t>(held_);
    auto const ids = download(Kokkos::subview(ids_[0], std::make_pair(std::size_t(0), live)));
    auto const values =
        download(Kokkos::subview(buffers_[current_], std::make_pair(std::size_t(0), live * num_outputs_)));
    std::vector<std::size_t> position_of(samples.num_samples(), live);
    for (std::size_t position = 0; position < live; ++position)
      position_of[static_cast<std::size_t>(ids[position])] = position;
    SampleSet activations;
    activations.first_sample = samples.first_sample;
    activations.matrix.num_rows = samples.num_samples();
    activations.matrix.num_columns = num_outputs_;
    for (std::size_t sample = 0; sample < samples.num_samples(); ++sample) {
      std::size_t const position = position_of[sample];
      for (std::size_t neuron = 0; position < live && neuron < num_outputs_; ++neuron) {
        Scalar const value =
            values[kOnHost<ExecutionSpace> ? neuron * live + position : position * num_outputs_ + neuron];
        if (value == Scalar(0)) continue;
        activations.matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
        activations.matrix.values.push_back(static_cast<double>(value));
      }
      if (position < live) result.live_samples.push_back(samples.first_sample + sample);
      activations.matrix.row_pointers.push_back(activations.matrix.column_indices.size());
    }
    result.activation_hash = hash(activations, options_.precision);
    if (wanted.predictions) result.predictions = largest(activations.matrix);
    if (wanted.digests) result.digests = output_digests(activations);
    if (wanted.activations) result.activations = std::move(activations);
  }

  InferenceOptions options_;
  Plan plan_;
  ExecutionSpace space_;
  std::vector<DeviceLayer> layers_;
  DeviceArray<ExecutionSpace, Scalar> buffers_[2];
  DeviceArray<ExecutionSpace, int> ids_[2];
  DeviceArray<ExecutionSpace, int> position_;
  int held_ = 0;
  int current_ = 0;
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  std::size_t max_neurons_ = 0;
  EdgeOffset num_edges_ = 0;
  std::size_t weight_bytes_ = 0;
  std::size_t memory_limit_ = 0;
};

template <class ExecutionSpace>
std::unique_ptr<Inference> prepare_on_space(NetworkSource const& network, InferenceOptions const& options) {
  if (options.precision == Precision::double_precision)
    return std::make_unique<KokkosKernelsEngine<ExecutionSpace, double>>(network, options);
  return std::make_unique<KokkosKernelsEngine<ExecutionSpace, float>>(network, options);
}

} // namespace

std::unique_ptr<Inference> prepare_kokkos_kernels(NetworkSource const& network, InferenceOptions const& options) {
  // Only the default execution space has this engine, because each instantiation of spmv takes a minute to compile.
  if (options.backend == to_backend<Kokkos::DefaultExecutionSpace>())
    return prepare_on_space<Kokkos::DefaultExecutionSpace>(network, options);
  throw UsageError("the engine " + to_string(Engine::kokkos_kernels) + " runs on " +
                   to_string(to_backend<Kokkos::DefaultExecutionSpace>()) + " in this build, not on " +
                   to_string(options.backend));
}

} // namespace varve
