#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/challenge.hpp"
#include "io/challenge_files.hpp"
#include "io/triple_text.hpp"
#include "io/triple_writer.hpp"
#include "network/challenge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

/// The functions of io/challenge.hpp for networks.
namespace varve {
namespace {

namespace fs = std::filesystem;

class ChallengeNetwork final : public NetworkSource {
public:
  ChallengeNetwork(fs::path folder, std::vector<fs::path> files, std::size_t neurons, double bias, double cap)
      : folder_(std::move(folder)), files_(std::move(files)), neurons_(neurons), bias_(bias), cap_(cap) {}

  std::string name() const override { return folder_.string(); }
  std::size_t num_layers() const override { return files_.size(); }

  Layer layer(std::size_t number) const override {
    TripleFormat format;
    format.names = {"input", "output", "weight"};
    format.largest = {neurons_, neurons_};
    format.row_position = 1;
    auto triples = read_triples(files_.at(number), format, neurons_, {0, neurons_}, false);
    return {std::move(triples.matrix), {bias_}, Activation::clipped_relu(cap_)};
  }

private:
  fs::path folder_;
  std::vector<fs::path> files_;
  std::size_t neurons_;
  double bias_;
  double cap_;
};

/// Throws unless text can store this layer: it must match layer 0 in everything but its weights.
void require_like_challenge(Layer const& layer, Layer const& first, std::size_t number, fs::path const& folder) {
  auto const fail = [&](std::string const& found) {
    throw UsageError(fmt::format("{} cannot hold the network as text: layer {} {}; write a .safetensors file instead",
                                 folder.string(), number, found));
  };
  auto const bias = first.bias.front();
  if (layer.num_inputs() != layer.num_outputs()) {
    fail(fmt::format("has {} inputs and {} outputs, expected as many", layer.num_inputs(), layer.num_outputs()));
  }
  if (layer.num_outputs() != first.num_outputs()) {
    fail(fmt::format("has {} outputs, expected {} as in layer 0", layer.num_outputs(), first.num_outputs()));
  }
  auto const other = std::ranges::find_if(layer.bias, [&](double value) { return value != bias; });
  if (other != layer.bias.end()) fail(fmt::format("has a bias of {}, expected {} everywhere", *other, bias));
  if (!layer.activation.has_cap()) fail("has no clipped relu");
  if (layer.activation.cap != first.activation.cap) {
    fail(fmt::format("has the cap {}, expected {} as in layer 0", layer.activation.cap, first.activation.cap));
  }
}

void write_layer_file(Layer const& layer, fs::path const& path) {
  TripleWriter file(path, Appears::with_folder);
  for (std::size_t output = 0; output < layer.num_outputs(); ++output) {
    for (auto entry = layer.weights.row_pointers[output]; entry < layer.weights.row_pointers[output + 1]; ++entry) {
      file.write(std::uint64_t{layer.weights.column_indices[entry]} + 1, output + 1, layer.weights.value(entry));
    }
  }
  file.commit();
}

} // namespace

std::unique_ptr<NetworkSource> open_challenge_network(fs::path const& folder, ChallengeOptions const& options) {
  auto [neurons, paths] = find_challenge_files(folder, options);
  auto const bias = options.bias ? options.bias : challenge_bias(neurons);
  if (!bias) {
    throw UsageError(
        fmt::format("{} holds a network of {} neurons, for which the challenge names no bias: give the bias",
                    folder.string(), neurons));
  }
  return std::make_unique<ChallengeNetwork>(folder, std::move(paths), neurons, *bias,
                                            options.cap.value_or(kChallengeCap));
}

void write_challenge_network(NetworkSource const& network, fs::path const& path, Compression compression,
                             Progress const& progress) {
  OutputFolder folder(path);
  auto const num_layers = network.num_layers();
  auto const first = network.layer(0);
  std::mutex progress_guard;
  std::size_t num_done = 0;
  for_each_on_host_threads(num_layers, [&](std::size_t number) {
    auto const layer = network.layer(number);
    require_like_challenge(layer, first, number, path);
    auto const name = fmt::format("n{}-l{}.tsv{}", layer.num_outputs(), number + 1, ending_of(compression));
    write_layer_file(layer, folder.partial_path() / name);
    std::lock_guard const lock(progress_guard);
    ++num_done;
    if (progress) progress(num_done, num_layers);
  });
  folder.commit();
}

} // namespace varve
