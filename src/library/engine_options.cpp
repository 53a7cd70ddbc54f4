#include "library/engine_options.hpp"

#include "core/error.hpp"
#include "passes/edge_order.hpp"
#include "plan/names.hpp"

#include <array>

namespace varve {
namespace {

/// Names of formats or kernels that can be asked for, after "auto".
template <class Entries>
std::vector<std::string> auto_or(Entries const& entries) {
  auto names = names_of(entries);
  names.insert(names.begin(), "auto");
  return names;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names = {"varve", "reference"};
  try {
    static_cast<void>(parse_engine("kokkos-kernels"));
    names.emplace_back("kokkos-kernels");
  } catch (UsageError const&) { // not in this build
  }
  return names;
}

std::array<EngineOption, 5> const options = {{
    {"reductions", "reductions", nullptr, &NamedOptions::reductions,
     [](InferenceOptions& engine, std::string const& value) { engine.reductions = parse_reductions(value); },
     [] {
       return std::vector<std::string>{"auto",        "none",       "merge_neurons", "fold_constants",
                                       "drop_unread", "saturation", "equal_samples"};
     },
     "work that is saved where results are known or equal: all (auto), none, or a list with commas. merge_neurons and "
     "fold_constants add terms of sums in advance, so last bits may differ (with drop_unread, too, unless edges "
     "ascend), "
     "and a sum that meets its threshold up to rounding may be decided the other way; varve verify --exact says which "
     "result is right"},
    {"edge-order", "edge_order", "edge order", &NamedOptions::edge_order,
     [](InferenceOptions& engine, std::string const& value) { engine.edge_order = parse_edge_order(value); },
     [] {
       return std::vector<std::string>{"balanced", "ascending"};
     },
     "order in which an output adds its products. It decides last bits. ascending: by input; balanced: as GPUs have "
     "fewer bank conflicts, in layers of at most 4096 neurons that gain from it, else ascending"},
    {"engine", "engine", "engine", &NamedOptions::engine,
     [](InferenceOptions& engine, std::string const& value) { engine.engine = parse_engine(value); }, engine_names,
     "varve, or another one for comparison"},
    {"formats", "formats", nullptr, &NamedOptions::formats,
     [](InferenceOptions& engine, std::string const& value) { engine.formats = parse_formats(value); },
     [] { return auto_or(all_formats); }, "formats in which layers may be stored, with commas between"},
    {"kernel", "kernel", nullptr, &NamedOptions::kernel,
     [](InferenceOptions& engine, std::string const& value) {
       engine.kernel.reset();
       if (value != "auto") engine.kernel = parse_kernel(value);
     },
     [] { return auto_or(all_kernels); }, "use this kernel for every layer that supports it (auto: chosen per layer)"},
}};

} // namespace

std::span<EngineOption const> engine_options() { return options; }

void set_named(InferenceOptions& engine, NamedOptions const& named) {
  for (auto const& option : options) option.set(engine, named.*option.value);
}

Recipe complete_recipe(Recipe recipe, RecipeNames const& names) {
  recipe.loss = parse_loss(names.loss, recipe.loss.delta);
  recipe.optimizer.kind = parse_optimizer(names.optimizer);
  recipe.rate.kind = parse_rate_schedule(names.rate_schedule);
  recipe.pattern.kind = parse_pattern_kind(names.pattern);
  recipe.pattern.schedule = parse_pattern_schedule(names.pattern_schedule);
  require_valid(recipe);
  return recipe;
}

TrainingOptions training_options(Recipe const& recipe) {
  TrainingOptions training;
  training.precision = recipe.precision;
  training.loss = recipe.loss;
  training.optimizer = recipe.optimizer;
  training.batch = recipe.batch;
  training.pattern = recipe.pattern.kind;
  return training;
}

} // namespace varve
