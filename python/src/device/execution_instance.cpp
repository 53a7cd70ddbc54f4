#include "../execution_instance.hpp"

#include "core/execution.hpp"

namespace varve::python {
namespace {

template <class... Spaces>
std::shared_ptr<void const> instance_of(Backend backend, SpaceList<Spaces...> /*spaces*/) {
  std::shared_ptr<void const> found;
  ((to_backend<Spaces>() == backend ? void(found = std::make_shared<Spaces const>()) : void()), ...);
  return found;
}

} // namespace

std::shared_ptr<void const> default_instance(Backend backend) { return instance_of(backend, CompiledSpaces()); }

} // namespace varve::python
