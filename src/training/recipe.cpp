#include "training/recipe.hpp"

#include "core/error.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace varve {
namespace {

/// A hash of TrainingData in the JSON of a recipe, and what a checkpoint with another one is.
struct DataHash {
  char const* key;
  char const* difference;
};
constexpr std::array<DataHash, 3> data_hashes = {
    {{"network hash", "started from another network: other weights, biases or edges"},
     {"input hash", "with other samples"},
     {"answers hash", "with other labels or targets"}}};

bool is_data_hash(std::string const& key) {
  return std::ranges::any_of(data_hashes, [&](DataHash const& hash) { return key == hash.key; });
}

/// Says what depends on the number of epochs, if anything does.
std::string dependent_on_epochs(nlohmann::ordered_json const& recipe) {
  if (recipe["rate schedule"] == to_string(ScheduleKind::cosine))
    return ", on which all rates of the cosine schedule depend";
  bool const changes = recipe["pattern"] != to_string(PatternKind::keep);
  if (changes && recipe["pattern until"].get<double>() <= 1.0)
    return ", on which the changes of the pattern depend (until of --pattern is a part of all steps)";
  return {};
}

} // namespace

void require_valid(Recipe const& recipe) {
  require_valid(recipe.optimizer);
  bool const has_epsilon =
      recipe.precision == Precision::double_precision || static_cast<float>(recipe.optimizer.epsilon) > 0.0F;
  if (recipe.optimizer.is_adaptive() && !has_epsilon)
    throw UsageError(
        fmt::format("epsilon of Adam is {}, which is 0 in single precision, so that steps would divide 0 by 0; "
                    "take 1e-38 or more, or double precision",
                    recipe.optimizer.epsilon));
  require_valid(recipe.rate);
  require_valid(recipe.pattern);
  if (recipe.batch == 0) throw UsageError("a mini-batch needs at least 1 sample");
  if (recipe.epochs == 0) throw UsageError("training needs at least 1 epoch");
}

std::uint64_t num_steps_of(Recipe const& recipe, std::size_t num_samples) {
  std::uint64_t const batch = std::clamp<std::size_t>(num_samples, 1, recipe.batch);
  std::uint64_t const steps_per_epoch = num_samples / batch + (num_samples % batch == 0 ? 0 : 1);
  auto const num_steps = checked_multiply(steps_per_epoch, recipe.epochs);
  if (num_steps) return *num_steps;
  throw UsageError(fmt::format("{} epochs of {} steps each are more steps than can be counted (2^64 - 1)",
                               recipe.epochs, steps_per_epoch));
}

std::string to_json(Recipe const& recipe, std::size_t num_samples) {
  auto const& optimizer = recipe.optimizer;
  auto const& rate = recipe.rate;
  nlohmann::ordered_json json = {{"precision", recipe.precision == Precision::double_precision ? "double" : "float"},
                                 {"loss", to_string(recipe.loss)},
                                 {"optimizer", to_string(optimizer.kind)},
                                 {"momentum", optimizer.momentum},
                                 {"beta1", optimizer.beta1},
                                 {"beta2", optimizer.beta2},
                                 {"epsilon", optimizer.epsilon},
                                 {"l2", optimizer.l2},
                                 {"rate", rate.rate},
                                 {"rate schedule", to_string(rate.kind)},
                                 {"rate factor", rate.factor},
                                 {"rate every", rate.every},
                                 {"warm-up", rate.warm_up},
                                 {"batch", recipe.batch},
                                 {"epochs", recipe.epochs},
                                 {"seed", recipe.seed},
                                 {"samples", num_samples},
                                 {"pattern", to_string(recipe.pattern.kind)}};
  if (recipe.loss.kind == Loss::huber) json["delta"] = recipe.loss.delta;
  if (recipe.pattern.kind != PatternKind::keep) {
    json["pattern fraction"] = recipe.pattern.fraction;
    json["pattern every"] = recipe.pattern.every;
    json["pattern until"] = recipe.pattern.until;
    json["pattern schedule"] = to_string(recipe.pattern.schedule);
  }
  return json_text(json);
}

std::string to_json(Recipe const& recipe, TrainingData const& data) {
  auto json = parse_json(to_json(recipe, data.num_samples), "recipe");
  std::array const hashes = {data.network, data.samples, data.answers};
  for (std::size_t i = 0; i < hashes.size(); ++i) json[data_hashes[i].key] = fmt::format("{:016x}", hashes[i]);
  return json_text(json);
}

Recipe recipe_from(nlohmann::ordered_json const& json, std::string const& place) {
  try {
    Recipe recipe;
    auto const take = [&](char const* key, auto& value) { json.at(key).get_to(value); };
    auto const text = [&](char const* key) { return json.at(key).get<std::string>(); };
    recipe.precision = text("precision") == "double" ? Precision::double_precision : Precision::single_precision;
    double const delta = json.contains("delta") ? json.at("delta").get<double>() : Loss().delta;
    recipe.loss = parse_loss(text("loss"), delta);
    recipe.optimizer.kind = parse_optimizer(text("optimizer"));
    take("momentum", recipe.optimizer.momentum);
    take("beta1", recipe.optimizer.beta1);
    take("beta2", recipe.optimizer.beta2);
    take("epsilon", recipe.optimizer.epsilon);
    take("l2", recipe.optimizer.l2);
    take("rate", recipe.rate.rate);
    recipe.rate.kind = parse_rate_schedule(text("rate schedule"));
    take("rate factor", recipe.rate.factor);
    take("rate every", recipe.rate.every);
    take("warm-up", recipe.rate.warm_up);
    take("batch", recipe.batch);
    take("epochs", recipe.epochs);
    take("seed", recipe.seed);
    recipe.pattern.kind = parse_pattern_kind(text("pattern"));
    if (recipe.pattern.kind != PatternKind::keep) {
      take("pattern fraction", recipe.pattern.fraction);
      take("pattern every", recipe.pattern.every);
      take("pattern until", recipe.pattern.until);
      recipe.pattern.schedule = parse_pattern_schedule(text("pattern schedule"));
    }
    require_valid(recipe);
    return recipe;
  } catch (nlohmann::json::exception const&) {
    throw InputError(place + ": found no recipe of a training, expected its options");
  } catch (UsageError const& error) {
    throw InputError(fmt::format("{}: {}", place, error.what()));
  }
}

void require_same(std::string const& checkpoint_json, std::string const& own_json, std::string const& checkpoint) {
  auto const theirs = parse_json(checkpoint_json, checkpoint + ": recipe");
  auto const ours = parse_json(own_json, "the recipe");
  for (auto const& [key, value] : ours.items()) {
    auto const found = theirs.is_object() && theirs.contains(key) ? json_text(theirs[key]) : "nothing";
    if (is_data_hash(key) || found == json_text(value)) continue;
    auto const reason = key == "epochs" ? dependent_on_epochs(ours) : std::string();
    if (key == "epochs" && reason.empty() && found != "nothing") continue;
    throw UsageError(fmt::format("{} is of a training with {} {}, not {}{}; continue with the same options, or name "
                                 "another checkpoint",
                                 checkpoint, key, found, json_text(value), reason));
  }
}

void require_same_data(std::string const& checkpoint_json, std::string const& own_json, std::string const& checkpoint) {
  auto const theirs = parse_json(checkpoint_json, checkpoint + ": recipe");
  auto const ours = parse_json(own_json, "the recipe");
  for (auto const& [key, difference] : data_hashes) {
    if (!theirs.is_object() || !theirs.contains(key) || !ours.contains(key) || theirs[key] == ours[key]) continue;
    throw InputError(fmt::format("{} is a checkpoint of a training {}; give it the same files, or name another "
                                 "checkpoint",
                                 checkpoint, difference));
  }
}

} // namespace varve
