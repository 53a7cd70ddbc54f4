#include "bindings.hpp"
#include "gil.hpp"
#include "process.hpp"
#include "sparse_linear.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace nb = nanobind;

namespace varve::python {
namespace {

/// An address of the caller, 0 for none.
using Address = std::uintptr_t;

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

/// A layer of varve.torch.SparseLinear: the addresses of its pattern, where it runs, and its precision.
struct SparseLayer {
  LayerPlace place;
  LayerPattern pattern;
  bool is_double = false;

  SparseLayer(std::string const& backend, Address stream, bool of_double, Address row_pointers, Address columns,
              Address input_pointers, Address outputs, Address places, std::size_t num_inputs, std::size_t num_outputs,
              std::size_t num_edges)
      : place{parse_backend(backend), stream},
        pattern{at<std::uint32_t const>(row_pointers),
                at<std::uint32_t const>(columns),
                at<std::uint32_t const>(input_pointers),
                at<std::uint32_t const>(outputs),
                at<std::uint32_t const>(places),
                num_inputs,
                num_outputs,
                num_edges},
        is_double(of_double) {}

  std::size_t scratch(std::size_t num_samples) const {
    Turn const turn;
    return is_double ? scratch_bytes<double>(place, pattern, num_samples)
                     : scratch_bytes<float>(place, pattern, num_samples);
  }

  void forward(std::size_t num_samples, Address x, Address weights, Address bias, Address y, Address scratch) const {
    Turn const turn;
    auto const run = [&]<class Scalar>(Scalar /*type*/) {
      layer_forward<Scalar>(place, pattern, num_samples, at<Scalar const>(x), at<Scalar const>(weights),
                            at<Scalar const>(bias), at<Scalar>(y), at<void>(scratch));
    };
    is_double ? run(0.0) : run(0.0F);
  }

  void backward(std::size_t num_samples, Address x, Address dy, Address weights, Address dx, Address dweights,
                Address dbias, Address scratch) const {
    Turn const turn;
    auto const run = [&]<class Scalar>(Scalar /*type*/) {
      layer_backward<Scalar>(place, pattern, num_samples, at<Scalar const>(x), at<Scalar const>(dy),
                             at<Scalar const>(weights), at<Scalar>(dx), at<Scalar>(dweights), at<Scalar>(dbias),
                             at<void>(scratch));
    };
    is_double ? run(0.0) : run(0.0F);
  }
};

} // namespace

void add_sparse_linear(nb::module_& module) {
  using NoGil = nb::call_guard<WithoutGil>;
  nb::class_<SparseLayer>(module, "SparseLayer", "One sparse layer on arrays of the caller, given by their addresses.")
      .def(nb::init<std::string const&, Address, bool, Address, Address, Address, Address, Address, std::size_t,
                    std::size_t, std::size_t>(),
           nb::arg("backend"), nb::arg("stream"), nb::arg("is_double"), nb::arg("row_pointers"), nb::arg("columns"),
           nb::arg("input_pointers"), nb::arg("outputs"), nb::arg("places"), nb::arg("num_inputs"),
           nb::arg("num_outputs"), nb::arg("num_edges"))
      .def("scratch", &SparseLayer::scratch, nb::arg("num_samples"), NoGil(), "Bytes that the others need.")
      .def("forward", &SparseLayer::forward, nb::arg("num_samples"), nb::arg("x"), nb::arg("weights"), nb::arg("bias"),
           nb::arg("y"), nb::arg("scratch"), NoGil())
      .def("backward", &SparseLayer::backward, nb::arg("num_samples"), nb::arg("x"), nb::arg("dy"), nb::arg("weights"),
           nb::arg("dx"), nb::arg("dweights"), nb::arg("dbias"), nb::arg("scratch"), NoGil());
}

} // namespace varve::python
