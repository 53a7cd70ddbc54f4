#include "arrays.hpp"
#include "bindings.hpp"
#include "device.hpp"
#include "gil.hpp"
#include "interruptible.hpp"

#include "core/error.hpp"
#include "library/engine_options.hpp"
#include "network/sample_set.hpp"

#include <varve/inference.hpp>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace varve::python {
namespace {

using v0_3::InferenceResult;

/// A network prepared for one backend, kept warm between calls. Prepared on first use. Call its methods without the
/// GIL; they throw what those of PreparedNetwork and Turn() throw.
class Engine final : public HoldsViews {
public:
  /// Throws UsageError about the options.
  Engine(v0_3::Network const& network, v0_3::InferenceOptions options)
      : source_(std::make_shared<InterruptibleNetwork>(network)),
        network_(hold(network, source_)),
        options_(std::move(options)) {
    static_cast<void>(to_private(options_));
  }
  ~Engine() override { close_in_turn(); }

  InferenceResult run(SampleSet samples, v0_3::Wanted const& wanted, v0_3::Progress const& progress) {
    Turn const turn;
    return prepared().infer(v0_3::hold(std::move(samples)), wanted, progress);
  }

  /// Runs dense samples [samples, inputs] and writes all last activations [samples, outputs], both in memory that the
  /// device of the backend reads and writes, without a copy. They must not overlap, and hold numbers of the precision.
  InferenceResult run_in_place(v0_3::DeviceInput const& samples, v0_3::DeviceOutput const& activations,
                               v0_3::Progress const& progress) {
    Turn const turn;
    auto& network = prepared();
    return network.infer_on_device(network.backend(), network.precision(), instance(backend()), samples, activations,
                                   progress);
  }

  /// The lines of the plan for some samples, or for a number of samples of any values.
  template <class Input>
  std::vector<std::string> plan_lines(Input const& input) {
    Turn const turn;
    return prepared().plan_lines(input);
  }

  void close() override { prepared_.reset(); }

  Precision precision() const { return options_.precision; }
  Backend backend() const { return options_.backend.value_or(compiled_backends().front()); }

  /// Throws InputError unless `out` has the shape of the results of so many samples.
  void require_shape(std::size_t num_rows, std::size_t num_columns, std::size_t num_samples) const {
    if (num_rows != num_samples || num_columns != network_.num_outputs())
      throw InputError(fmt::format("out has the shape ({}, {}), expected ({}, {})", num_rows, num_columns, num_samples,
                                   network_.num_outputs()));
  }

private:
  void lose() override { static_cast<void>(prepared_.release()); }

  v0_3::PreparedNetwork& prepared() {
    source_->belong_to_this_thread();
    if (!prepared_) prepared_ = std::make_unique<v0_3::PreparedNetwork>(network_, options_);
    return *prepared_;
  }

  std::shared_ptr<InterruptibleNetwork> source_;
  v0_3::Network network_;
  v0_3::InferenceOptions options_;
  std::unique_ptr<v0_3::PreparedNetwork> prepared_;
};

std::unique_ptr<Engine> make_engine(v0_3::Network const& network, std::string engine, std::string const& backend,
                                    std::string const& precision, std::string reductions, std::string edge_order,
                                    std::optional<std::size_t> batch, std::optional<std::size_t> memory_limit,
                                    std::optional<std::size_t> expected_samples) {
  v0_3::InferenceOptions options;
  options.engine = std::move(engine);
  if (!backend.empty()) options.backend = v0_3::parse_backend(backend);
  options.precision = to_precision(precision);
  options.reductions = std::move(reductions);
  options.edge_order = std::move(edge_order);
  options.batch = batch;
  options.memory_limit = memory_limit;
  options.expected_samples = expected_samples;
  options.input_name.assign(1, 'X');
  return std::make_unique<Engine>(network, std::move(options));
}

/// Writes the rows of a matrix, zeros included, to rows of the same width.
template <class Scalar>
void write_dense(v0_3::CsrMatrix const& matrix, Scalar* rows) {
  std::fill_n(rows, matrix.num_rows * matrix.num_columns, Scalar{0});
  for (std::size_t row = 0; row < matrix.num_rows; ++row)
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
      rows[row * matrix.num_columns + matrix.column_indices[entry]] = static_cast<Scalar>(matrix.value(entry));
}

template <class Scalar>
Numpy<Scalar> dense_rows(v0_3::CsrMatrix const& matrix) {
  std::vector<Scalar> rows;
  {
    WithoutGil const no_gil;
    rows.resize(matrix.num_rows * matrix.num_columns);
    write_dense(matrix, rows.data());
  }
  return to_numpy(std::move(rows), {matrix.num_rows, matrix.num_columns});
}

template <class Rows>
InferenceResult run(Engine& engine, Rows const& rows, bool activations, bool predictions, nb::object const& callback) {
  auto const progress = to_progress(callback);
  WithoutGil const no_gil;
  return engine.run(to_samples(rows, "X", engine.precision()), {activations, predictions}, progress);
}

/// A matrix of the caller, row by row, that is written.
template <class Scalar>
using Output = nb::ndarray<Scalar, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// Runs samples and writes their activations into `out`, which gets them only if all samples are sound.
template <class Rows, class Scalar>
InferenceResult run_into(Engine& engine, Rows const& rows, Output<Scalar> const& out, bool predictions,
                         nb::object const& callback) {
  auto const progress = to_progress(callback);
  WithoutGil const no_gil;
  auto samples = to_samples(rows, "X", engine.precision());
  engine.require_shape(out.shape(0), out.shape(1), samples.num_samples());
  auto const write = [&out](std::size_t first, v0_3::CsrMatrix const& activations) {
    write_dense(activations, out.data() + first * out.shape(1));
  };
  return engine.run(std::move(samples), {false, predictions, write}, progress);
}

/// A matrix of the caller in host memory or on a device, with any strides.
template <class Scalar>
using Strided = nb::ndarray<Scalar, nb::ndim<2>>;

/// The matrix for a device. Throws InputError if the device of the backend cannot reach it, or a stride is negative.
template <class Address, class Scalar>
v0_3::DeviceMatrix<Address> on_device(Strided<Scalar> const& matrix, Backend backend, char const* place) {
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
InferenceResult run_in_place(Engine& engine, Strided<Scalar const> const& rows, Strided<Scalar> const& out,
                             nb::object const& callback) {
  if ((engine.precision() == Precision::double_precision) != std::is_same_v<Scalar, double>)
    throw InputError("X and out have another type than the precision of this call");
  auto const progress = to_progress(callback);
  WithoutGil const no_gil;
  engine.require_shape(out.shape(0), out.shape(1), rows.shape(0));
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

/// The numbers as 64-bit integers, as NumPy has indices.
template <class Integer>
Numpy<std::int64_t> to_indices(std::vector<Integer> const& numbers) {
  return to_numpy(std::vector<std::int64_t>(numbers.begin(), numbers.end()));
}

void add_outcome(nb::module_& module) {
  nb::class_<InferenceResult>(module, "Outcome", "The results of one call.")
      .def_ro("activation_hash", &InferenceResult::activation_hash)
      .def_ro("loop_seconds", &InferenceResult::loop_seconds)
      .def("live_samples", [](InferenceResult const& self) { return to_indices(self.live_samples); })
      .def("predictions", [](InferenceResult const& self) { return to_indices(self.predictions); })
      .def("float32", [](InferenceResult const& self) { return dense_rows<float>(self.activations); })
      .def("float64", [](InferenceResult const& self) { return dense_rows<double>(self.activations); })
      .def("compressed", [](InferenceResult const& self) { return to_tuple(self.activations); });
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
  using NoGil = nb::call_guard<WithoutGil>;
  engines
      .def(nb::new_(&make_engine), nb::arg("network"), nb::arg("engine"), nb::arg("backend"), nb::arg("precision"),
           nb::arg("reductions"), nb::arg("edge_order"), nb::arg("batch").none(), nb::arg("memory_limit").none(),
           nb::arg("expected_samples").none())
      .def("plan_lines", &Engine::plan_lines<std::size_t>, nb::arg("num_samples"), NoGil())
      .def(
          "plan_lines",
          [](Engine& self, CompressedRows const& rows) {
            return self.plan_lines(v0_3::hold(to_samples(rows, "X", Precision::double_precision)));
          },
          nb::arg("rows"), NoGil());
  engines
      .def("run_in_place", &run_in_place<float>, nb::arg("rows").noconvert(), nb::arg("out").noconvert(),
           nb::arg("progress").none())
      .def("run_in_place", &run_in_place<double>, nb::arg("rows").noconvert(), nb::arg("out").noconvert(),
           nb::arg("progress").none());
  add_runs<Matrix<float>>(engines);
  add_runs<Matrix<double>>(engines);
  add_runs<CompressedRows>(engines);
}

} // namespace varve::python
