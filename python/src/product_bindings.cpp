#include "bindings.hpp"
#include "gil.hpp"
#include "process.hpp"

#include <varve/product.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <optional>
#include <string>
#include <variant>

namespace nb = nanobind;

namespace varve::python {

using namespace v0_3;

namespace {

/// A matrix of the caller in host memory, with any strides.
template <class Scalar>
using HostMatrix = nb::ndarray<Scalar, nb::ndim<2>, nb::device::cpu>;

/// A matrix in memory, or the name of a file.
using Operand = std::variant<HostMatrix<float const>, HostMatrix<double const>, std::string>;
using Target = std::variant<HostMatrix<float>, HostMatrix<double>, std::string>;

template <class Scalar>
DenseView<Scalar> view_of(HostMatrix<Scalar> const& matrix) {
  return {matrix.data(), matrix.shape(0), matrix.shape(1), static_cast<std::ptrdiff_t>(matrix.stride(0)),
          static_cast<std::ptrdiff_t>(matrix.stride(1))};
}

MatrixFile view_of(std::string const& name) { return {name}; }

/// A matrix or the name of a file as the library takes it: a ProductOperand or ProductTarget.
template <class Result, class Given>
Result to_public(Given const& given) {
  return std::visit([](auto const& matrix) { return Result(view_of(matrix)); }, given);
}

/// Multiplies and returns the hash of the product.
std::uint64_t run(Operand const& a, Operand const& b, Target const& c, std::optional<Operand> const& added,
                  ProductOptions options, nb::object const& callback) {
  auto const progress = to_progress(callback);
  WithoutGil const no_gil;
  if (added) options.added = to_public<ProductOperand>(*added);
  Turn const turn;
  return v0_3::multiply(to_public<ProductOperand>(a), to_public<ProductOperand>(b), to_public<ProductTarget>(c),
                        options, progress)
      .hash;
}

} // namespace

void add_products(nb::module_& module) {
  nb::class_<ProductOptions>(module, "ProductOptions", "Options of multiply().")
      .def(nb::init<>())
      .def_rw("transpose_a", &ProductOptions::transpose_a)
      .def_rw("transpose_b", &ProductOptions::transpose_b)
      .def_rw("alpha", &ProductOptions::alpha)
      .def_rw("beta", &ProductOptions::beta)
      .def_rw("tile", &ProductOptions::tile, nb::arg().none())
      .def_rw("device_memory_limit", &ProductOptions::device_memory_limit, nb::arg().none())
      .def_prop_rw(
          "precision", [](ProductOptions const& self) { return name_of(self.precision); },
          [](ProductOptions& self, std::string const& name) { self.precision = to_precision(name); })
      .def_prop_rw(
          "backend", [](ProductOptions const& self) { return self.backend ? to_string(*self.backend) : std::string(); },
          [](ProductOptions& self, std::string const& name) {
            self.backend = name.empty() ? std::nullopt : std::optional(parse_backend(name));
          });
  module.def("multiply", &run, nb::arg("a").noconvert(), nb::arg("b").noconvert(), nb::arg("c").noconvert(),
             nb::arg("added").noconvert().none(), nb::arg("options"), nb::arg("progress").none(),
             "Writes the product to c and returns its hash.");
  module.def(
      "describe_matrix",
      [](std::string const& name) {
        MatrixDescription description;
        {
          WithoutGil const no_gil;
          description = describe_matrix({name});
        }
        return nb::make_tuple(description.num_rows, description.num_columns, name_of(description.precision));
      },
      nb::arg("name"), "Rows, columns and type of the matrix of a file.");
}

} // namespace varve::python
