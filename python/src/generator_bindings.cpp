#include "arrays.hpp"
#include "bindings.hpp"
#include "gil.hpp"
#include "interruptible.hpp"

#include "core/host_threads.hpp"
#include "radixnet/images.hpp"

#include <varve/generate.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace varve::python {
namespace {

v0_3::Network random(std::vector<std::size_t> widths, std::optional<std::size_t> degree, std::optional<double> density,
                     std::optional<double> weight, double gain, double lowest_bias, double highest_bias, double cap,
                     std::uint64_t seed) {
  return random_network(
      v0_3::RandomRecipe{std::move(widths), degree, density, weight, gain, lowest_bias, highest_bias, cap, seed});
}

/// The arrays of `count` samples that draw(first, last) makes.
template <class Draw>
nb::tuple drawn(std::size_t count, Draw const& draw) {
  std::size_t const at_a_time = 128 * num_host_threads(); // images are drawn 64 at a time on each thread
  SampleSet samples;
  {
    WithoutGil const no_gil;
    samples = in_parts(count, at_a_time, draw);
  }
  return to_tuple(samples.matrix);
}

nb::tuple images(std::size_t neurons, std::size_t count, std::uint64_t seed) {
  return drawn(count, [&](std::size_t first, std::size_t last) { return digit_images(neurons, first, last, seed); });
}

nb::tuple samples(std::size_t neurons, std::size_t count, double density, std::uint64_t seed) {
  return drawn(
      count, [&](std::size_t first, std::size_t last) { return random_samples(neurons, first, last, density, seed); });
}

} // namespace

void add_generators(nb::module_& module) {
  using NoGil = nb::call_guard<WithoutGil>;
  module.def("radixnet", &v0_3::radixnet, nb::arg("neurons"), nb::arg("layers"), nb::arg("seed"),
             nb::arg("bias").none(), nb::arg("cap"), NoGil());
  module.def("random_network", &random, nb::arg("widths"), nb::arg("degree").none(), nb::arg("density").none(),
             nb::arg("weight").none(), nb::arg("gain"), nb::arg("lowest_bias"), nb::arg("highest_bias"), nb::arg("cap"),
             nb::arg("seed"), NoGil());
  module.def("images", &images, nb::arg("neurons"), nb::arg("samples"), nb::arg("seed"));
  module.def("samples", &samples, nb::arg("neurons"), nb::arg("samples"), nb::arg("density"), nb::arg("seed"));
}

} // namespace varve::python
