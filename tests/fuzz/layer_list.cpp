#include "fuzz/target.hpp"

#include "io/open.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

namespace varve::fuzz {

/// A JSON text that lists layers, then the files weights.safetensors and weights.npy beside it; a line `@` divides
/// them. A file whose bytes are missing is empty.
VARVE_FUZZ_TARGET(layer_list) {
  std::string const names[] = {"network.json", "weights.safetensors", "weights.npy"};
  std::filesystem::path list;
  for (auto const& name : names) {
    auto const end = std::min(bytes.find("\n@\n"), bytes.size());
    auto const path = file_of(bytes.substr(0, end), name);
    bytes.remove_prefix(std::min(end + 3, bytes.size()));
    if (list.empty()) list = path;
  }
  if (holds_samples(list)) return;
  auto const network = open_network(list);
  for (std::size_t number = 0; number < network->num_layers(); ++number) require_valid(network->layer(number), number);
}

} // namespace varve::fuzz
