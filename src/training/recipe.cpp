#include "training/recipe.hpp"

#include "core/elementary.hpp"
#include "core/error.hpp"
#include "io/json_text.hpp"
#include "radixnet/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

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

/// Says what depends on the number of epochs, if anything does.
std::string dependent_on_epochs(nlohmann::ordered_json const& recipe) {
  if (recipe["rate schedule"] == to_string(ScheduleKind::cosine))
    return ", on which all rates of the cosine schedule depend";
  bool const changes = recipe["pattern"] != to_string(PatternKind::keep);
  if (changes && recipe["pattern until"].get<double>() <= 1.0)
    return ", on which the changes of the pattern depend (until of --pattern is a part of all steps)";
  return {};
}

/// Calls visit(key, number), or visit(key, kind, function that finds the kind by its name), for each of these options,
/// in the order of the JSON of a recipe.
template <class AnyRecipe, class Visit>
void for_each_option(AnyRecipe& recipe, Visit const& visit) {
  visit("optimizer", recipe.optimizer.kind, parse_optimizer);
  visit("momentum", recipe.optimizer.momentum);
  visit("beta1", recipe.optimizer.beta1);
  visit("beta2", recipe.optimizer.beta2);
  visit("epsilon", recipe.optimizer.epsilon);
  visit("l2", recipe.optimizer.l2);
  visit("rate", recipe.rate.rate);
  visit("rate schedule", recipe.rate.kind, parse_rate_schedule);
  visit("rate factor", recipe.rate.factor);
  visit("rate every", recipe.rate.every);
  visit("warm-up", recipe.rate.warm_up);
  visit("batch", recipe.batch);
  visit("epochs", recipe.epochs);
  visit("seed", recipe.seed);
}

template <class Evolution, class Visit>
void for_each_option_of_pattern(Evolution& pattern, Visit const& visit) {
  visit("pattern fraction", pattern.fraction);
  visit("pattern every", pattern.every);
  visit("pattern until", pattern.until);
  visit("pattern schedule", pattern.schedule, parse_pattern_schedule);
}

} // namespace

void require_valid(Recipe const& recipe) {
  require_valid(recipe.optimizer);
  bool const has_epsilon =
      recipe.precision == Precision::double_precision || static_cast<float>(recipe.optimizer.epsilon) > 0.0F;
  if (recipe.optimizer.is_adaptive() && !has_epsilon)
    fail<UsageError>("epsilon of Adam is {}, which is 0 in single precision, so that steps would divide 0 by 0; take "
                     "1e-38 or more, or double precision",
                     recipe.optimizer.epsilon);
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
  fail<UsageError>("{} epochs of {} steps each are more steps than can be counted (2^64 - 1)", recipe.epochs,
                   steps_per_epoch);
}

std::string to_json(Recipe const& recipe, std::size_t num_samples) {
  nlohmann::ordered_json json = {{"precision", recipe.precision == Precision::double_precision ? "double" : "float"},
                                 {"loss", to_string(recipe.loss)}};
  auto const put = [&](char const* key, auto const& value, auto const&... parse) {
    if constexpr (sizeof...(parse) > 0) {
      json[key] = to_string(value);
    } else {
      json[key] = value;
    }
  };
  for_each_option(recipe, put);
  json["samples"] = num_samples;
  json["pattern"] = to_string(recipe.pattern.kind);
  if (recipe.loss.kind == Loss::huber) json["delta"] = recipe.loss.delta;
  if (recipe.pattern.kind != PatternKind::keep) for_each_option_of_pattern(recipe.pattern, put);
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
    auto const text = [&](char const* key) { return json.at(key).get<std::string>(); };
    auto const take = [&](char const* key, auto& value, auto const&... parse) {
      if constexpr (sizeof...(parse) > 0) {
        value = (parse(text(key)), ...);
      } else {
        json.at(key).get_to(value);
      }
    };
    recipe.precision = text("precision") == "double" ? Precision::double_precision : Precision::single_precision;
    recipe.loss = parse_loss(text("loss"), json.contains("delta") ? json.at("delta").get<double>() : Loss().delta);
    for_each_option(recipe, take);
    recipe.pattern.kind = parse_pattern_kind(text("pattern"));
    if (recipe.pattern.kind != PatternKind::keep) for_each_option_of_pattern(recipe.pattern, take);
    require_valid(recipe);
    return recipe;
  } catch (nlohmann::json::exception const&) {
    throw InputError(place + ": found no recipe of a training, expected its options");
  } catch (UsageError const& error) {
    fail<InputError>("{}: {}", place, error.what());
  }
}

void require_same(std::string const& checkpoint_json, std::string const& own_json, std::string const& checkpoint) {
  auto const theirs = parse_json(checkpoint_json, checkpoint + ": recipe");
  auto const ours = parse_json(own_json, "the recipe");
  for (auto const& [key, value] : ours.items()) {
    auto const found = theirs.is_object() && theirs.contains(key) ? json_text(theirs[key]) : "nothing";
    bool const is_data_hash = std::ranges::find(data_hashes, key, &DataHash::key) != data_hashes.end();
    if (is_data_hash || found == json_text(value)) continue;
    auto const reason = key == "epochs" ? dependent_on_epochs(ours) : std::string();
    if (key == "epochs" && reason.empty() && found != "nothing") continue;
    fail<UsageError>(
        "{} is of a training with {} {}, not {}{}; continue with the same options, or name another checkpoint",
        checkpoint, key, found, json_text(value), reason);
  }
}

void require_same_data(std::string const& checkpoint_json, std::string const& own_json, std::string const& checkpoint) {
  auto const theirs = parse_json(checkpoint_json, checkpoint + ": recipe");
  auto const ours = parse_json(own_json, "the recipe");
  for (auto const& [key, difference] : data_hashes) {
    if (!theirs.is_object() || !theirs.contains(key) || !ours.contains(key) || theirs[key] == ours[key]) continue;
    fail<InputError>("{} is a checkpoint of a training {}; give it the same files, or name another checkpoint",
                     checkpoint, difference);
  }
}

namespace {

/// cos(pi * part) for a part from 0 to 1, by the Taylor series of the sine: libraries' cos() differ in last bits.
double half_turn_cosine(double part) {
  constexpr double half_pi = 1.57079632679489661923;
  double const x = half_pi * (1.0 - 2.0 * part); // cos(pi * part) = sin(pi / 2 - pi * part)
  double const square = x * x;
  double series = 1.0;
  for (int odd = 23; odd >= 3; odd -= 2) // 1 - x^2 / (2 * 3) * (1 - x^2 / (4 * 5) * (...
    series = multiply_add(-series, square / (odd * (odd - 1)), 1.0);
  return x * series;
}

std::uint64_t hash_of(Answers const& answers, Precision precision) {
  constexpr std::uint64_t label_mark = 1; // no bits of a target: those of 1e-45f and 5e-324
  if (!answers.are_labels()) return hash(answers.values, 0, precision);
  std::uint64_t sum = 0;
  for (std::size_t sample = 0; sample < answers.labels.size(); ++sample)
    sum += activation_fingerprint(sample, answers.labels[sample], label_mark);
  return sum;
}

} // namespace

TrainingData training_data_of(Network const& network, SampleSet const& samples, Answers const& answers,
                              Precision precision) {
  return {samples.num_samples(), weights_hash(network), hash(samples.matrix, 0, precision),
          hash_of(answers, precision)};
}

std::vector<std::uint64_t> sample_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_samples) {
  std::vector<std::uint64_t> order(num_samples);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  RandomStream random(seed, epoch);
  for (std::uint64_t left = num_samples; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

std::string to_string(ScheduleKind kind) {
  return kind == ScheduleKind::constant ? "constant" : kind == ScheduleKind::step ? "step" : "cosine";
}

ScheduleKind parse_rate_schedule(std::string const& name) {
  for (auto const kind : {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine})
    if (name == to_string(kind)) return kind;
  throw UsageError("there is no rate schedule '" + name + "'; there are: constant, step, cosine");
}

void require_valid(RateSchedule const& schedule) {
  auto const require_positive = [](char const* name, double number) {
    if (number > 0.0 && std::isfinite(number)) return;
    fail<UsageError>("{} is {}, expected a positive number", name, number);
  };
  require_positive("the rate", schedule.rate);
  require_positive("the factor of the rate", schedule.factor);
  if (schedule.every == 0)
    throw UsageError("the rate can change after every epoch (1), every second (2) and so on, not 0");
}

double rate_at(RateSchedule const& schedule, std::uint64_t step, std::uint64_t steps_per_epoch,
               std::uint64_t num_epochs) {
  double rate = schedule.rate;
  if (schedule.kind == ScheduleKind::step) {
    for (std::uint64_t epoch = schedule.every; epoch <= step / steps_per_epoch; epoch += schedule.every)
      rate *= schedule.factor;
  } else if (schedule.kind == ScheduleKind::cosine) {
    double const part = static_cast<double>(step) / static_cast<double>(steps_per_epoch * num_epochs);
    rate *= 0.5 + 0.5 * half_turn_cosine(part);
  }
  if (step < schedule.warm_up) rate *= static_cast<double>(step + 1) / static_cast<double>(schedule.warm_up);
  return rate;
}

std::string to_string(PatternSchedule schedule) {
  return schedule == PatternSchedule::constant ? "constant" : "cosine";
}

PatternSchedule parse_pattern_schedule(std::string const& name) {
  for (auto const schedule : {PatternSchedule::constant, PatternSchedule::cosine})
    if (name == to_string(schedule)) return schedule;
  throw UsageError("there is no schedule '" + name + "' of changes of the pattern; there are: constant, cosine");
}

void require_valid(PatternEvolution const& evolution) {
  if (!(evolution.fraction > 0.0 && evolution.fraction <= 1.0)) {
    fail<UsageError>("the fraction of edges that are dropped is {}, expected a number above 0 and at most 1",
                     evolution.fraction);
  }
  if (evolution.every == 0)
    throw UsageError("the pattern can change before every step (1), every second (2) and so on, not 0");
  if (!(evolution.until > 0.0 && evolution.until <= 0x1p53)) {
    fail<UsageError>(
        "changes of the pattern end at {}, expected a part of all steps, above 0 and at most 1, or a number of steps",
        evolution.until);
  }
}

std::optional<PatternEvent> event_before(PatternEvolution const& evolution, std::uint64_t step, std::uint64_t num_steps,
                                         std::uint64_t seed) {
  if (evolution.kind == PatternKind::keep || step == 0 || step % evolution.every != 0) return std::nullopt;
  double const last =
      std::floor(evolution.until <= 1.0 ? evolution.until * static_cast<double>(num_steps) : evolution.until);
  if (static_cast<double>(step) >= last) return std::nullopt;
  PatternEvent event{evolution.kind, evolution.fraction, seed, step / evolution.every};
  if (evolution.schedule == PatternSchedule::cosine)
    event.fraction *= 0.5 + 0.5 * half_turn_cosine(static_cast<double>(step) / last);
  return event;
}

} // namespace varve
