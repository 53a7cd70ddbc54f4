#include "arrays.hpp"
#include "bindings.hpp"
#include "engine.hpp"
#include "gil.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

namespace nb = nanobind;

namespace varve::python {
namespace {

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
