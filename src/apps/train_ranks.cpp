#include "apps/train_ranks.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "distribute/gradient_exchange.hpp"
#include "io/json_text.hpp"
#include "plan/memory.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace varve {
namespace {

nlohmann::ordered_json common_options(TrainOptions const& options, Recipe const& recipe) {
  auto common = parse_json(to_json(recipe, 0), "recipe");
  common.update({{"--network", options.network},
                 {"--input", options.input},
                 {"--labels", options.labels},
                 {"--targets", options.targets},
                 {"--validation", options.validation},
                 {"--validation-labels", options.validation_labels},
                 {"--validation-targets", options.validation_targets},
                 {"--output", options.output},
                 {"--best", options.best},
                 {"--checkpoint", options.checkpoint},
                 {"--checkpoint-every", options.checkpoint_every.value_or(0)},
                 {"--history", options.history},
                 {"--report", options.report},
                 {"--patience", options.patience.value_or(0)},
                 {"--share-devices", options.share_devices},
                 {"--no-peer-memory", options.no_peer_memory}});
  return common;
}

/// The number of ranks that gave the same name.
std::size_t ranks_with(Communicator const& communicator, std::string const& name) {
  nlohmann::json const gathered = communicator.gather(name);
  auto const all = nlohmann::json::parse(communicator.broadcast(gathered.dump()));
  return static_cast<std::size_t>(std::ranges::count(all, nlohmann::json(name)));
}

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

void require_common_options(Communicator const& communicator, TrainOptions const& options, Recipe const& recipe) {
  auto const text = json_text(common_options(options, recipe));
  auto const mine = nlohmann::ordered_json::parse(text);
  auto const theirs = nlohmann::ordered_json::parse(communicator.broadcast(text));
  communicator.together([&] {
    for (auto const& [name, value] : mine.items()) {
      if (theirs[name] == value) continue;
      throw UsageError(
          fmt::format("{} is {} here and {} on rank 0; only --backend, --recompute, --formats, --micro-batch, "
                      "--memory-limit, --device-memory-limit and options of Kokkos may differ",
                      name, json_text(value), json_text(theirs[name])));
    }
  });
}

std::vector<RankDevice> place_ranks(Communicator const& communicator, TrainOptions const& options,
                                    TrainingOptions& engine) {
  auto const mine = device_of_this_rank(engine.backend);
  auto const hosts = communicator.gather(mine.host);
  auto const devices = communicator.gather(mine.device);
  auto const identities = communicator.gather(mine.identity);
  std::vector<RankDevice> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks.push_back({hosts[rank], devices[rank], identities[rank]});
  communicator.together([&] {
    if (!options.share_devices) require_own_devices(ranks);
  });
  auto const sharing = ranks_with(communicator, mine.identity.empty() ? mine.host : mine.identity);
  auto const on_host = ranks_with(communicator, mine.host);
  communicator.together([&] { share_memory(engine, sharing, on_host); });
  engine.exchange = gradient_exchange_between_ranks();
  return ranks;
}

void require_same_start(Communicator const& communicator, std::string const& recipe, std::uint64_t num_steps,
                        std::uint64_t weights_hash) {
  auto const mine = fmt::format("step {}, weights {:016x}, {}", num_steps, weights_hash, recipe);
  auto const theirs = communicator.broadcast(mine);
  communicator.together([&] {
    if (mine == theirs) return;
    throw InputError(
        fmt::format("this rank begins with {}, but rank 0 with {}; all ranks must see the same files", mine, theirs));
  });
}

std::vector<TrainingTimes> gather(Communicator const& communicator, TrainingTimes const& times) {
  constexpr std::size_t num_fields = 6;
  auto const all = communicator.gather(
      std::vector<double>{static_cast<double>(times.num_steps), static_cast<double>(times.num_leaves),
                          times.compute_seconds, times.exchange_seconds, times.wait_seconds, times.exchange_bytes});
  std::vector<TrainingTimes> ranks;
  for (std::size_t i = 0; i + num_fields <= all.size(); i += num_fields) {
    ranks.push_back({static_cast<std::uint64_t>(all[i]), static_cast<std::uint64_t>(all[i + 1]), all[i + 2], all[i + 3],
                     all[i + 4], all[i + 5]});
  }
  return ranks;
}

} // namespace varve
