#include <varve/io.hpp>

#include "io/open.hpp"
#include "library/crossing.hpp"

namespace varve::v0_3 {

Network open_network(std::filesystem::path const& path, OpenOptions const& options) {
  return hold(varve::open_network(path, {options.neurons, options.layers, options.bias, options.cap}));
}

void save_network(Network const& network, std::filesystem::path const& path, Progress const& progress) {
  varve::save_network(*network.contents().source, path, progress);
}

Samples open_samples(std::filesystem::path const& path, std::optional<std::size_t> num_neurons) {
  return hold(varve::open_samples(path, num_neurons));
}

void save_samples(Samples const& samples, std::filesystem::path const& path) {
  varve::save_samples(samples.contents().set(), path);
}

std::vector<NeuronIndex> open_labels(std::filesystem::path const& path, Samples const& samples) {
  auto const first = samples.first_sample();
  return varve::open_labels(path, {first, first + samples.num_samples()}, varve::OtherSamples::refused).classes;
}

} // namespace varve::v0_3
