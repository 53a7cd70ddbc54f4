#include "products/product_engine.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace varve {
char const* name_of(ProductEvent::What what) {
  static constexpr std::array<char const*, ProductEvent::num_kinds> names = {"task", "copy", "wait", "finish"};
  return names[static_cast<std::size_t>(what)];
}

void ProductTimeline::add(ProductEvent const& event) {
  auto& events = kinds_[static_cast<std::size_t>(event.what)];
  events.push_back(event);
  if (events.size() <= max_of_a_kind) return;
  auto const middle = events.begin() + static_cast<std::ptrdiff_t>(events.size() / 2);
  std::ranges::nth_element(events, middle, std::ranges::greater(),
                           [](ProductEvent const& one) { return one.end - one.begin; });
  num_dropped_ += static_cast<std::uint64_t>(std::distance(middle, events.end()));
  events.erase(middle, events.end());
}

std::vector<ProductEvent> ProductTimeline::events() const {
  std::vector<ProductEvent> all;
  for (auto const& events : kinds_) all.insert(all.end(), events.begin(), events.end());
  std::ranges::sort(all, {}, [](ProductEvent const& event) { return event.begin; });
  return all;
}

template <class Scalar>
std::unique_ptr<ProductKernels<Scalar>> product_kernels(Backend backend, ProductWay way) {
#if VARVE_HAVE_KOKKOS_KERNELS
  if (way == ProductWay::library)
    return on_chosen_backend<VARVE_BACKENDS>(
        backend, [&]<Backend one>() { return library_kernels_of<one, Scalar>(device_memory(backend)); });
#endif
  if (way == ProductWay::library) {
    throw UsageError("this build lacks Kokkos Kernels, which --tuning product=library takes gemm from (cmake "
                     "-DVARVE_ENABLE_KOKKOS_KERNELS=ON)");
  }
  return on_chosen_backend<VARVE_BACKENDS>(
      backend, [&]<Backend one>() { return product_kernels_of<one, Scalar>(device_memory(backend)); });
}

template std::unique_ptr<ProductKernels<float>> product_kernels(Backend, ProductWay);
template std::unique_ptr<ProductKernels<double>> product_kernels(Backend, ProductWay);

template class ProductEngine<float>;
template class ProductEngine<double>;

std::size_t default_product_memory(Backend backend, std::size_t num_sharing) {
  auto const available = available_memory(backend);
  return (has_own_memory(backend) ? available / 10 * 9 : available / 2) / num_sharing;
}

} // namespace varve
