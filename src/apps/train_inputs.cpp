#include "apps/train_inputs.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "distribute/rank_exchange.hpp"
#include "io/json_text.hpp"
#include "io/labels.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"
#include "plan/memory.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace varve {
namespace {

/// Gives this rank its share of the memory that several ranks use, unless the user limits it. A CPU is the device of
/// all ranks that compute on it.
void share_memory(TrainingOptions& engine, std::size_t ranks_on_device, std::size_t ranks_on_host) {
  auto const limits = memory_limits({engine.memory_limit, engine.device_memory_limit, {}}, engine.backend);
  if (!has_own_memory(engine.backend)) {
    if (!engine.memory_limit && ranks_on_device > 1)
      engine.memory_limit = (limits.device + limits.host_weights) / ranks_on_device;
    return;
  }
  if (!engine.device_memory_limit && ranks_on_device > 1) engine.device_memory_limit = limits.device / ranks_on_device;
  if (!engine.memory_limit && ranks_on_host > 1) engine.memory_limit = limits.host_weights / ranks_on_host;
}

} // namespace

AnsweredSamples read_answered_samples(AnswerFiles const& files, Network const& network, Loss loss) {
  AnsweredSamples read;
  read.samples = open_samples(files.samples, network.num_inputs());
  if (read.samples.num_samples() == 0) throw InputError(files.samples + " holds no samples");
  read.files.samples = files.samples;
  SampleRange const range{read.samples.first_sample, read.samples.first_sample + read.samples.num_samples()};
  bool const has_targets = loss == Loss::mean_square && files.labels.empty() &&
                           kind_of(files.samples) == FileKind::container &&
                           read_sample_header(files.samples).num_targets.has_value();
  if (!files.targets.empty() || has_targets) {
    if (!files.labels.empty()) throw UsageError("samples have labels or targets, not both");
    read.files.targets = files.targets.empty() ? files.samples : files.targets;
    auto const reader = open_targets(read.files.targets, network.num_outputs(), range, OtherSamples::refused);
    read.answers.values = to_set(reader->read(0, reader->num_samples())).matrix;
    return read;
  }
  read.files.labels = files.labels.empty() ? files.samples : files.labels;
  auto labels = open_labels(read.files.labels, range, OtherSamples::refused);
  require_classes(labels, network.num_outputs(), read.files.labels);
  read.answers.labels = std::move(labels.classes);
  return read;
}

std::vector<RankDevice> place_ranks(Communicator const& communicator, TrainOptions const& options,
                                    TrainingOptions& engine) {
  auto places = place_ranks(communicator, engine.backend, options.share_devices);
  communicator.together([&] { share_memory(engine, places.num_ranks_on_device, places.num_ranks_on_host); });
  if (communicator.size() > 1) engine.exchange = exchange_between_ranks();
  return places.devices;
}

void require_same_start(Communicator const& communicator, TrainOptions const& options, std::string const& recipe,
                        std::uint64_t num_steps, Network const& network) {
  if (communicator.size() == 1) return;
  nlohmann::ordered_json facts;
  std::vector<RankInput> inputs;
  communicator.together([&] {
    auto const keys = parse_json(recipe, "recipe"); // must outlive the loop
    for (auto const& [key, value] : keys.items()) facts[key + " of the recipe"] = value;
    facts["the number of steps taken"] = num_steps;
    facts["the hash of the weights"] = fmt::format("{:016x}", weights_hash(network));
    inputs.push_back({"--network " + options.network, network_files(options.network, {})});
    for (auto const& [name, path] :
         {std::pair("--input", options.input), std::pair("--labels", options.labels),
          std::pair("--targets", options.targets), std::pair("--validation", options.validation),
          std::pair("--validation-labels", options.validation_labels),
          std::pair("--validation-targets", options.validation_targets)})
      if (!path.empty()) inputs.push_back({fmt::format("{} {}", name, path), {path}});
  });
  require_same_inputs(communicator, facts, inputs);
}

} // namespace varve
