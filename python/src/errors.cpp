#include "core/error.hpp"

#include "bindings.hpp"

#include <array>
#include <exception>

namespace nb = nanobind;

namespace varve::python {
namespace {

/// The Python class of each kind of error; the module keeps them alive.
struct ErrorClasses {
  PyObject* usage = nullptr;
  PyObject* input = nullptr;
  PyObject* resource = nullptr;
};
ErrorClasses classes;

PyObject* add_class(nb::module_& module, char const* name, char const* document, nb::handle base, nb::handle builtin) {
  auto const full_name = nb::str("varve.{}").attr("format")(name);
  auto const bases = builtin.is_valid() ? nb::make_tuple(base, builtin) : nb::make_tuple(base);
  nb::object const made =
      nb::steal(PyErr_NewExceptionWithDoc(nb::cast<char const*>(full_name), document, bases.ptr(), nullptr));
  if (!made.is_valid()) throw nb::python_error();
  module.attr(name) = made;
  return made.ptr();
}

void translate(std::exception_ptr const& thrown, void* /*unused*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (UsageError const& error) {
    PyErr_SetString(classes.usage, error.what());
  } catch (InputError const& error) {
    PyErr_SetString(classes.input, error.what());
  } catch (ResourceError const& error) {
    PyErr_SetString(classes.resource, error.what());
  }
}

} // namespace

void add_errors(nb::module_& module) {
  auto* const base =
      add_class(module, "Error", "An error whose sentence says where, what was found and what was expected.",
                PyExc_Exception, {});
  classes.usage = add_class(module, "UsageError", "The caller asked for something contradictory or unknown.", base,
                            PyExc_ValueError);
  classes.input = add_class(module, "InputError", "A network, samples or a file is broken or does not fit the rest.",
                            base, PyExc_ValueError);
  classes.resource = add_class(module, "ResourceError", "Memory does not suffice, or a device is missing or failed.",
                               base, PyExc_RuntimeError);
  nb::register_exception_translator(translate);
}

} // namespace varve::python
