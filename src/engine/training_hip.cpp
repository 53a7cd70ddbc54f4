#include "engine/train_on.hpp"

namespace varve {

template std::unique_ptr<Training> train_on_backend<Backend::hip>(Network const&, TrainingOptions const&);

} // namespace varve
