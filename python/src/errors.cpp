#include "core/error.hpp"

#include "bindings.hpp"

#include <exception>

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

} // namespace varve::python
