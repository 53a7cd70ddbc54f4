#include "fuzz/target.hpp"

#include "core/error.hpp"
#include "io/open.hpp"

namespace varve::fuzz {

/// A network in HDF5, read as `varve infer` and `varve info` do.
VARVE_FUZZ_TARGET(hdf5_network) {
  auto const path = file_of(bytes, "network.safetensors");
  if (holds_samples(path)) return;
  ChallengeOptions options;
  options.cap = 32.0;
  auto const network = open_network(path);
  for (std::size_t number = 0; number < network->num_layers(); ++number) require_valid(network->layer(number), number);
  try {
    open_network(path, options); // looks at the headers of all layers
  } catch (UsageError const&) {
  }
}

} // namespace varve::fuzz
