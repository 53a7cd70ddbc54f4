#include "bindings.hpp"
#include "device.hpp"
#include "gil.hpp"
#include "process.hpp"

#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/version.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace varve::python {
namespace {

/// The class in Python of each kind of error; never freed, since errors may come until the interpreter ends.
struct ErrorClasses {
  PyObject* usage = PyExc_ValueError;
  PyObject* input = PyExc_ValueError;
  PyObject* resource = PyExc_RuntimeError;
};

ErrorClasses& classes() {
  static ErrorClasses the_classes;
  return the_classes;
}

void translate(std::exception_ptr const& thrown, void* /*unused*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (UsageError const& error) {
    PyErr_SetString(classes().usage, error.what());
  } catch (InputError const& error) {
    PyErr_SetString(classes().input, error.what());
  } catch (ResourceError const& error) {
    PyErr_SetString(classes().resource, error.what());
  }
}

} // namespace

void add_errors(nb::module_& module) {
  nb::register_exception_translator(translate);
  module.def(
      "set_error_classes",
      [](nb::type_object usage, nb::type_object input, nb::type_object resource) {
        classes() = {usage.release().ptr(), input.release().ptr(), resource.release().ptr()};
      },
      nb::arg("usage"), nb::arg("input"), nb::arg("resource"), "The classes of the errors that functions here raise.");
}

void add_process(nb::module_& module) {
  module.def("start", &start, nb::arg("num_threads").none(), nb::arg("device").none(), nb::call_guard<WithoutGil>(),
             "Starts Kokkos; see varve.start.");
  module.def("end", &end, nb::call_guard<WithoutGil>(), "Frees all engines and ends Kokkos.");
  module.def(
      "backends",
      [] {
        std::vector<std::string> names;
        for (auto const backend : compiled_backends()) names.push_back(to_string(backend));
        return names;
      },
      "The backends of this build, fastest first.");
  module.def(
      "device_name",
      [](std::string const& backend) {
        auto const chosen = parse_backend(backend);
        Turn const turn;
        return device_name(chosen);
      },
      nb::arg("backend"), nb::call_guard<WithoutGil>(), "The hardware behind a backend.");
  module.def(
      "gpu",
      []() -> std::optional<std::pair<int, std::uintptr_t>> {
        Turn const turn;
        auto const found = gpu();
        if (!found) return std::nullopt;
        return std::pair(found->number, found->stream);
      },
      nb::call_guard<WithoutGil>(),
      "The number of the GPU that Kokkos runs on and its stream there, as DLPack counts them; None without a GPU.");
  module.attr("version") = std::string(provenance.version);
  module.attr("numerics") = kNumerics;
  module.attr("commit") = std::string(provenance.git_commit);
}

} // namespace varve::python

NB_MODULE(_core, module) {
  using namespace varve::python;
  nb::set_leak_warnings(false); // objects of the user that live to the end of the process are no leaks
  module.doc() = "The C++ part of varve. Its functions check less than those of the package; use the package.";
  add_errors(module);
  add_process(module);
  add_rows(module);
  add_networks(module);
  add_files(module);
  add_generators(module);
  add_engine(module);
  add_training(module);
  add_judgement(module);
  add_products(module);
  add_sparse_linear(module);
}
