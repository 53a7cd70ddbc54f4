#include "core/execution.hpp"
#include "engine/inference.hpp"
#include "engine/upload_memory.hpp"

namespace varve {
namespace {

template <class... Spaces>
std::shared_ptr<SampleMemory> memory_of(Backend wanted, SpaceList<Spaces...> /*spaces*/) {
  std::shared_ptr<SampleMemory> memory;
  ((wanted == to_backend<Spaces>() ? void(memory = upload_memory<Spaces>()) : void()), ...);
  return memory;
}

} // namespace

std::shared_ptr<SampleMemory> sample_memory_for(InferenceOptions const& options) {
  return options.engine == Engine::varve ? memory_of(options.backend, CompiledSpaces()) : nullptr;
}

} // namespace varve
