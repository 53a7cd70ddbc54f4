#include "training/recipe.hpp"

#include "core/error.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

namespace varve {

void require_valid(Recipe const& recipe) {
  require_valid(recipe.optimizer);
  require_valid(recipe.rate);
  require_valid(recipe.pattern);
  if (recipe.batch == 0) throw UsageError("a mini-batch needs at least 1 sample");
  if (recipe.epochs == 0) throw UsageError("training needs at least 1 epoch");
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
  if (recipe.pattern.kind != PatternKind::keep) {
    json["pattern fraction"] = recipe.pattern.fraction;
    json["pattern every"] = recipe.pattern.every;
    json["pattern until"] = recipe.pattern.until;
    json["pattern schedule"] = to_string(recipe.pattern.schedule);
  }
  return json_text(json);
}

void require_same(std::string const& checkpoint_json, std::string const& own_json, std::string const& checkpoint) {
  auto const theirs = parse_json(checkpoint_json, checkpoint + ": recipe");
  auto const ours = parse_json(own_json, "the recipe");
  for (auto const& [key, value] : ours.items()) {
    auto const found = theirs.is_object() && theirs.contains(key) ? theirs[key].dump() : "nothing";
    if (found == value.dump()) continue;
    throw UsageError(fmt::format("{} is of a training with {} {}, not {}; go on with the same options, or name another "
                                 "checkpoint",
                                 checkpoint, key, found, value.dump()));
  }
}

} // namespace varve
