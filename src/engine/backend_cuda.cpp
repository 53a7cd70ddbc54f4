#include "engine/prepare_on.hpp"

namespace varve {

template std::unique_ptr<Inference> prepare_on_backend<Backend::cuda>(NetworkToRun const&, InferenceOptions const&);

} // namespace varve
