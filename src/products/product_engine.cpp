#include "products/product_engine.hpp"

#include "core/config.hpp"
#include "core/error.hpp"

namespace varve {
namespace {

/// Calls work.operator()<backend>() with the backend among `Compiled` of this name.
template <Backend... Compiled, class Work>
void on_backend(Backend wanted, Work const& work) {
  bool is_compiled = false;
  auto const visit = [&]<Backend backend>() {
    if (backend != wanted) return;
    work.template operator()<backend>();
    is_compiled = true;
  };
  (visit.template operator()<Compiled>(), ...);
  if (!is_compiled) throw UsageError("this build has no backend " + to_string(wanted));
}

} // namespace

bool has_library_product() { return VARVE_HAVE_KOKKOS_KERNELS == 1; }

template <class Scalar>
std::unique_ptr<ProductEngine<Scalar>> make_product_engine(Backend backend, ProductTiles const& tiles,
                                                           std::size_t memory_limit,
                                                           ProductInputs<Scalar> const& inputs, ProductWay way) {
  if (way == ProductWay::library && !has_library_product()) {
    throw UsageError("this build lacks Kokkos Kernels, which --product library takes gemm from (cmake "
                     "-DVARVE_ENABLE_KOKKOS_KERNELS=ON)");
  }
  std::unique_ptr<ProductEngine<Scalar>> engine;
  on_backend<VARVE_BACKENDS>(backend, [&]<Backend chosen>() {
#if VARVE_HAVE_KOKKOS_KERNELS
    if (way == ProductWay::library) {
      engine = library_product_on<chosen, Scalar>(tiles, memory_limit, inputs);
      return;
    }
#endif
    engine = product_engine_on<chosen, Scalar>(tiles, memory_limit, inputs);
  });
  return engine;
}
template std::unique_ptr<ProductEngine<float>> make_product_engine(Backend, ProductTiles const&, std::size_t,
                                                                   ProductInputs<float> const&, ProductWay);
template std::unique_ptr<ProductEngine<double>> make_product_engine(Backend, ProductTiles const&, std::size_t,
                                                                    ProductInputs<double> const&, ProductWay);

template <class Scalar>
ProductDevice product_device(Backend backend, std::size_t memory_limit) {
  ProductDevice device;
  on_backend<VARVE_BACKENDS>(backend,
                             [&]<Backend chosen>() { device = product_device_on<chosen, Scalar>(memory_limit); });
  return device;
}
template ProductDevice product_device<float>(Backend, std::size_t);
template ProductDevice product_device<double>(Backend, std::size_t);

} // namespace varve
