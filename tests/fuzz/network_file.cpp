#include "fuzz/target.hpp"

#include "core/error.hpp"
#include "io/network_file.hpp"
#include "io/open.hpp"

namespace varve::fuzz {

/// A network or a checkpoint, read as `varve infer`, `varve info` and `varve train` do. A layer and its header agree.
VARVE_FUZZ_TARGET(network_file) {
  auto const path = file_of(bytes, "network.safetensors");
  if (holds_samples(path)) return;
  NetworkFile const file(path);
  for (std::size_t number = 0; number < file.num_layers(); ++number) {
    auto const header = file.header(number);
    auto const layer = file.layer(number);
    require_valid(layer, number);
    require(header.num_edges == layer.num_edges() && header.num_inputs == layer.num_inputs() &&
                header.num_outputs == layer.num_outputs() && header.bias == layer.bias &&
                header.activation == layer.activation,
            "a layer differs from its header");
  }
  if (file.best() != nullptr) load(*file.best());
  ChallengeOptions options;
  options.cap = 32.0;
  try {
    open_network(path, options); // looks at the headers of all layers
  } catch (UsageError const&) {
  }
  try {
    file.training_record();
  } catch (InputError const&) {
  }
}

} // namespace varve::fuzz
