#include "arrays.hpp"
#include "bindings.hpp"
#include "device.hpp"
#include "gil.hpp"
#include "held_network.hpp"
#include "process.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "engine/inference.hpp"
#include "network/sample_set.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace varve::python {
namespace {

/// Takes the nonzero activations [samples, outputs] of a batch, whose first sample is row `first` of the call.
using ActivationSink = std::function<void(std::size_t first, SampleSet const& activations)>;

/// What one call asks for.
struct Wanted {
  bool activations = false;
  bool predictions = false;
  ActivationSink sink = {}; ///< if given, it gets the activations, batch by batch, and the outcome has none
};

/// The results of all samples of a call.
struct Outcome {
  std::vector<std::int64_t> live_samples; ///< numbers from 0, ascending
  std::uint64_t activation_hash = 0;
  SampleSet activations;                 ///< if wanted: the nonzero activations [samples, outputs]
  std::vector<std::int64_t> predictions; ///< if wanted: per sample the output of the largest activation
  double loop_seconds = 0.0;             ///< time in the layer loop
};

/// Called after each batch with the number of samples done and of all samples.
using Progress = std::function<void(std::size_t done, std::size_t total)>;

/// The number of samples of the next batch: twice as many as before, up to `most`, while batches are short, half as
/// many if one took more than a second.
std::size_t next_size(std::size_t size, std::size_t most, double seconds) {
  constexpr double short_batch = 0.3;
  constexpr double long_batch = 1.0;
  if (seconds < short_batch) return std::min(2 * size, most);
  return seconds > long_batch ? std::max<std::size_t>(1, size / 2) : size;
}

void append(Outcome& outcome, std::size_t first, BatchResult const& batch, ActivationSink const& sink) {
  outcome.live_samples.insert(outcome.live_samples.end(), batch.live_samples.begin(), batch.live_samples.end());
  outcome.activation_hash += batch.activation_hash;
  if (sink) {
    sink(first, batch.activations);
  } else if (batch.activations.num_samples() > 0) {
    append_rows(outcome.activations, batch.activations);
  }
  outcome.predictions.insert(outcome.predictions.end(), batch.predictions.begin(), batch.predictions.end());
  for (double const seconds : batch.loop_seconds) outcome.loop_seconds += seconds;
}

DeviceInput rows_of(DeviceInput const& matrix, std::size_t first, std::size_t last, std::size_t bytes_per_value) {
  auto part = matrix;
  part.data = static_cast<char const*>(matrix.data) + first * matrix.row_stride * bytes_per_value;
  part.num_rows = last - first;
  return part;
}

DeviceOutput rows_of(DeviceOutput const& matrix, std::size_t first, std::size_t last, std::size_t bytes_per_value) {
  auto part = matrix;
  part.data = static_cast<char*>(matrix.data) + first * matrix.row_stride * bytes_per_value;
  part.num_rows = last - first;
  return part;
}

/// A network prepared for one backend, kept warm between calls. Prepared on first use.
class Engine final : public HoldsViews {
public:
  Engine(HeldNetwork const& network, InferenceOptions options);
  ~Engine() override { close_in_turn(); }

  /// Runs samples in batches that take about a second at most, so that Ctrl-C and progress need not wait longer. Call
  /// it without the GIL. Throws InputError if the samples do not fit the network, and what prepare() and Turn() throw.
  Outcome run(SampleSet samples, Wanted const& wanted, Progress const& progress);

  /// Runs dense samples [samples, inputs] and writes all last activations [samples, outputs], both in memory that the
  /// device of the backend reads and writes, without a copy. They must not overlap, and hold numbers of the precision.
  /// The outcome has neither activations nor predictions. Call it without the GIL. Throws as run() does, UsageError if
  /// the engine is one that cannot do so.
  Outcome run_in_place(DeviceInput const& samples, DeviceOutput const& activations, Progress const& progress);

  /// The lines of the plan for such an input. Call it without the GIL.
  std::vector<std::string> plan_lines(InputShape const& input);

  void close() override { inference_.reset(); }

  Precision precision() const { return options_.precision; }
  Backend backend() const { return options_.backend; }
  std::size_t num_outputs() const { return num_outputs_; }

private:
  void lose() override { static_cast<void>(inference_.release()); }

  Inference& prepared();
  /// Throws InputError unless samples of this width fit the network.
  void require_width(std::size_t num_neurons) const;
  /// Calls plan(first, end) and run(first, last) for parts of samples; plan says how far the next batch goes, and end
  /// is where it goes at most. Between batches runs signal handlers.
  template <class Plan, class Run>
  void in_batches(std::size_t num_samples, Progress const& progress, Plan const& plan, Run const& run);
  /// Plans for an input unless the present plan is for one at least as large and of the same kind.
  void plan_for(InputShape const& input);

  std::shared_ptr<InterruptibleNetwork> network_;
  std::size_t num_inputs_, num_outputs_;
  InferenceOptions options_;
  std::unique_ptr<Inference> inference_;
  std::optional<InputShape> planned_;
};

Engine::Engine(HeldNetwork const& network, InferenceOptions options)
    : network_(std::make_shared<InterruptibleNetwork>(network.shared())),
      num_inputs_(network.num_inputs()),
      num_outputs_(network.num_outputs()),
      options_(std::move(options)) {}

Inference& Engine::prepared() {
  network_->belong_to_this_thread();
  if (!inference_) {
    planned_.reset();
    inference_ = prepare(*network_, options_);
  }
  return *inference_;
}

void Engine::plan_for(InputShape const& input) {
  if (planned_ && planned_->num_samples >= input.num_samples && planned_->has_one_value == input.has_one_value) return;
  planned_.reset();
  inference_->plan(input);
  planned_ = input;
}

template <class Plan, class Run>
void Engine::in_batches(std::size_t num_samples, Progress const& progress, Plan const& plan, Run const& run) {
  bool const has_memory = has_own_memory(options_.backend);
  std::size_t const most = has_memory ? std::size_t{1} << 18U : std::size_t{1} << 16U; // larger batches are not faster
  std::size_t size = has_memory ? std::size_t{1} << 16U : std::size_t{1} << 13U;
  for (std::size_t first = 0; first < num_samples;) {
    std::size_t const last = plan(first, first + std::min(size, num_samples - first));
    Stopwatch const time;
    run(first, last);
    size = next_size(size, most, time.seconds());
    first = last;
    if (progress) progress(first, num_samples);
    if (first < num_samples) run_signal_handlers();
  }
}

Outcome Engine::run(SampleSet samples, Wanted const& wanted, Progress const& progress) {
  require_width(samples.num_neurons());
  Turn const turn;
  auto& inference = prepared();
  SampleBatch const batch(std::move(samples));
  Outcome outcome;
  outcome.activations.matrix.num_columns = num_outputs_;
  auto const plan = [&](std::size_t first, std::size_t end) {
    auto const part = batch.part(first, end);
    plan_for(shape_of(part));
    return first + std::min(part.num_samples(), inference.plan().batch);
  };
  in_batches(batch.num_samples(), progress, plan, [&](std::size_t first, std::size_t last) {
    bool const wants_activations = wanted.activations || wanted.sink;
    append(outcome, first, inference.infer(batch.part(first, last), {wants_activations, wanted.predictions}),
           wanted.sink);
  });
  return outcome;
}

Outcome Engine::run_in_place(DeviceInput const& samples, DeviceOutput const& activations, Progress const& progress) {
  require_width(samples.num_columns);
  if (activations.num_rows != samples.num_rows || activations.num_columns != num_outputs_)
    throw InputError(fmt::format("out has the shape ({}, {}), expected ({}, {})", activations.num_rows,
                                 activations.num_columns, samples.num_rows, num_outputs_));
  Turn const turn;
  auto& inference = prepared();
  auto* const in_place = dynamic_cast<InferenceOnDevice*>(&inference);
  if (in_place == nullptr)
    throw UsageError("this engine reads and writes no arrays of the device; take engine='varve'");
  auto const* const space = instance(options_.backend);
  Outcome outcome;
  auto const plan = [&](std::size_t first, std::size_t end) {
    plan_for({end - first, (end - first) * num_inputs_, false});
    return first + std::min(end - first, inference.plan().batch);
  };
  auto const bytes = options_.precision == Precision::double_precision ? sizeof(double) : sizeof(float);
  in_batches(samples.num_rows, progress, plan, [&](std::size_t first, std::size_t last) {
    append(outcome, first,
           in_place->infer_on_device(space, rows_of(samples, first, last, bytes),
                                     rows_of(activations, first, last, bytes), first),
           {});
  });
  return outcome;
}

void Engine::require_width(std::size_t num_neurons) const {
  if (num_neurons == num_inputs_) return;
  throw InputError(fmt::format("{} has {} values per sample, expected {}, the inputs of the network",
                               options_.input_name, num_neurons, num_inputs_));
}

std::vector<std::string> Engine::plan_lines(InputShape const& input) {
  Turn const turn;
  auto& inference = prepared();
  plan_for(input);
  return to_text(inference.plan());
}

/// The options of an engine with the names that Python gives them.
struct EngineNames {
  std::string engine, backend, precision, reductions, edge_order;
  std::optional<std::size_t> batch, memory_limit, expected_samples;
};

InferenceOptions options_of(EngineNames const& names) {
  InferenceOptions options;
  options.engine = parse_engine(names.engine);
  options.backend = names.backend.empty() ? compiled_backends().front() : parse_backend(names.backend);
  options.precision = names.precision == "float64" ? Precision::double_precision : Precision::single_precision;
  options.reductions = parse_reductions(names.reductions);
  options.edge_order = parse_edge_order(names.edge_order);
  options.batch = names.batch;
  options.memory_limit = names.memory_limit;
  options.expected_samples = names.expected_samples;
  options.input_name.assign(1, 'X');
  return options;
}

std::unique_ptr<Engine> make_engine(HeldNetwork const& network, EngineNames const& names) {
  return std::make_unique<Engine>(network, options_of(names));
}

/// A callback of Python as Progress; empty for None.
Progress to_progress(nb::object const& callback) {
  if (callback.is_none()) return {};
  return [callback = callback.ptr()](std::size_t done, std::size_t total) { // the caller holds a reference
    WithGil const gil;
    nb::borrow(callback)(done, total);
  };
}

/// Writes the rows of a matrix, zeros included, to rows of the same width.
template <class Scalar>
void write_dense(SparseMatrix const& matrix, Scalar* rows) {
  std::fill_n(rows, matrix.num_rows * matrix.num_columns, Scalar{0});
  for (std::size_t row = 0; row < matrix.num_rows; ++row)
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
      rows[row * matrix.num_columns + matrix.column_indices[entry]] = static_cast<Scalar>(matrix.value(entry));
}

template <class Scalar>
Numpy<Scalar> dense_rows(SparseMatrix const& matrix) {
  std::vector<Scalar> rows;
  {
    WithoutGil const no_gil;
    rows.resize(matrix.num_rows * matrix.num_columns);
    write_dense(matrix, rows.data());
  }
  return to_numpy(std::move(rows), {matrix.num_rows, matrix.num_columns});
}

template <class Rows>
Outcome run(Engine& engine, Rows const& rows, bool activations, bool predictions, nb::object const& callback) {
  auto const progress = to_progress(callback);
  WithoutGil const no_gil;
  return engine.run(to_samples(rows, "X", engine.precision()), {activations, predictions, {}}, progress);
}

/// A matrix of the caller, row by row, that is written.
template <class Scalar>
using Output = nb::ndarray<Scalar, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// Runs samples and writes their activations into `out`, which gets them only if all samples are sound.
template <class Rows, class Scalar>
Outcome run_into(Engine& engine, Rows const& rows, Output<Scalar> const& out, bool predictions,
                 nb::object const& callback) {
  auto const progress = to_progress(callback);
  WithoutGil const no_gil;
  auto samples = to_samples(rows, "X", engine.precision());
  if (out.shape(0) != samples.num_samples() || out.shape(1) != engine.num_outputs())
    throw InputError(fmt::format("out has the shape ({}, {}), expected ({}, {})", out.shape(0), out.shape(1),
                                 samples.num_samples(), engine.num_outputs()));
  auto const write = [&out](std::size_t first, SampleSet const& activations) {
    write_dense(activations.matrix, out.data() + first * out.shape(1));
  };
  return engine.run(std::move(samples), {false, predictions, write}, progress);
}

/// A matrix of the caller in host memory or on a device, with any strides.
template <class Scalar>
using Strided = nb::ndarray<Scalar, nb::ndim<2>>;

/// The matrix for a device. Throws InputError if the device of the backend cannot reach it, or a stride is negative.
template <class Address, class Scalar>
DeviceMatrix<Address> on_device(Strided<Scalar> const& matrix, Backend backend, char const* place) {
  auto const kind = matrix.device_type();
  bool const is_reached =
      backend == Backend::cuda  ? kind == nb::device::cuda::value || kind == nb::device::cuda_managed::value
      : backend == Backend::hip ? kind == nb::device::rocm::value
                                : kind == nb::device::cpu::value || kind == nb::device::cuda_host::value;
  if (!is_reached)
    throw InputError(fmt::format("{} lies in memory that the backend {} cannot reach", place, to_string(backend)));
  if (matrix.stride(0) < 0 || matrix.stride(1) < 0)
    throw InputError(fmt::format("{} has negative strides, expected rows and columns in ascending order", place));
  return {matrix.data(), matrix.shape(0), matrix.shape(1), static_cast<std::size_t>(matrix.stride(0)),
          static_cast<std::size_t>(matrix.stride(1))};
}

template <class Scalar>
Outcome run_in_place(Engine& engine, Strided<Scalar const> const& rows, Strided<Scalar> const& out,
                     nb::object const& callback) {
  if ((engine.precision() == Precision::double_precision) != std::is_same_v<Scalar, double>)
    throw InputError("X and out have another type than the precision of this call");
  auto const progress = to_progress(callback);
  WithoutGil const no_gil;
  return engine.run_in_place(on_device<void const*>(rows, engine.backend(), "X"),
                             on_device<void*>(out, engine.backend(), "out"), progress);
}

/// Adds run and run_into for one form of samples.
template <class Rows>
void add_runs(nb::class_<Engine>& engine) {
  engine
      .def("run", &run<Rows>, nb::arg("rows").noconvert(), nb::arg("activations"), nb::arg("predictions"),
           nb::arg("progress").none())
      .def("run_into", &run_into<Rows, float>, nb::arg("rows").noconvert(), nb::arg("out").noconvert(),
           nb::arg("predictions"), nb::arg("progress").none())
      .def("run_into", &run_into<Rows, double>, nb::arg("rows").noconvert(), nb::arg("out").noconvert(),
           nb::arg("predictions"), nb::arg("progress").none());
}

void add_outcome(nb::module_& module) {
  nb::class_<Outcome>(module, "Outcome", "The results of one call.")
      .def_ro("activation_hash", &Outcome::activation_hash)
      .def_ro("loop_seconds", &Outcome::loop_seconds)
      .def(
          "live_samples", [](Outcome& self) { return to_numpy(std::move(self.live_samples)); }, "May be called once.")
      .def(
          "predictions", [](Outcome& self) { return to_numpy(std::move(self.predictions)); }, "May be called once.")
      .def("float32", [](Outcome const& self) { return dense_rows<float>(self.activations.matrix); })
      .def("float64", [](Outcome const& self) { return dense_rows<double>(self.activations.matrix); })
      .def("compressed", [](Outcome const& self) { return to_tuple(self.activations.matrix); });
}

} // namespace

void add_rows(nb::module_& module) {
  nb::class_<CompressedRows>(module, "CompressedRows", "A matrix in compressed sparse rows.")
      .def(nb::init<Vector<std::int64_t>, Vector<std::int64_t>, Vector<double>, std::size_t, std::size_t>(),
           nb::arg("row_pointers"), nb::arg("column_indices"), nb::arg("values"), nb::arg("num_rows"),
           nb::arg("num_columns"));
}

void add_engine(nb::module_& module) {
  add_outcome(module);
  nb::class_<Engine> engines(module, "Engine", "A network prepared for one backend.");
  engines
      .def(nb::new_([](HeldNetwork const& network, std::string engine, std::string backend, std::string precision,
                       std::string reductions, std::string edge_order, std::optional<std::size_t> batch,
                       std::optional<std::size_t> memory_limit, std::optional<std::size_t> expected_samples) {
             return make_engine(network,
                                {std::move(engine), std::move(backend), std::move(precision), std::move(reductions),
                                 std::move(edge_order), batch, memory_limit, expected_samples});
           }),
           nb::arg("network"), nb::arg("engine"), nb::arg("backend"), nb::arg("precision"), nb::arg("reductions"),
           nb::arg("edge_order"), nb::arg("batch").none(), nb::arg("memory_limit").none(),
           nb::arg("expected_samples").none())
      .def(
          "plan_for",
          [](Engine& self, std::size_t num_samples, std::size_t num_entries, bool has_one_value) {
            return self.plan_lines({num_samples, num_entries, has_one_value});
          },
          nb::arg("num_samples"), nb::arg("num_entries"), nb::arg("has_one_value"), nb::call_guard<WithoutGil>());
  engines
      .def("run_in_place", &run_in_place<float>, nb::arg("rows").noconvert(), nb::arg("out").noconvert(),
           nb::arg("progress").none())
      .def("run_in_place", &run_in_place<double>, nb::arg("rows").noconvert(), nb::arg("out").noconvert(),
           nb::arg("progress").none());
  add_runs<Matrix<float>>(engines);
  add_runs<Matrix<double>>(engines);
  add_runs<CompressedRows>(engines);
  module.def(
      "shape_of",
      [](CompressedRows const& rows) {
        auto const shape = shape_of(SampleBatch(to_samples(rows, "X", Precision::double_precision)));
        return nb::make_tuple(shape.num_samples, shape.num_entries, shape.has_one_value);
      },
      nb::arg("rows"), "Samples, stored values, and whether all values are equal.");
}

} // namespace varve::python
