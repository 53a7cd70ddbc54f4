#include "library/engine_options.hpp"

#include "core/error.hpp"
#include "library/crossing.hpp"
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

std::array<EngineOption, 5> const all_options = {{
    {"reductions", "reductions", nullptr, &v0_3::InferenceOptions::reductions,
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
    {"edge-order", "edge_order", "edge order", &v0_3::InferenceOptions::edge_order,
     [](InferenceOptions& engine, std::string const& value) { engine.edge_order = parse_edge_order(value); },
     [] {
       return std::vector<std::string>{"balanced", "ascending"};
     },
     "order in which an output adds its products. It decides last bits. ascending: by input; balanced: as GPUs have "
     "fewer bank conflicts, in layers of at most 4096 neurons that gain from it, else ascending"},
    {"engine", "engine", "engine", &v0_3::InferenceOptions::engine,
     [](InferenceOptions& engine, std::string const& value) { engine.engine = parse_engine(value); }, engine_names,
     "varve, or another one for comparison"},
    {"formats", "formats", nullptr, &v0_3::InferenceOptions::formats,
     [](InferenceOptions& engine, std::string const& value) { engine.formats = parse_formats(value); },
     [] { return auto_or(all_formats); }, "formats in which layers may be stored, with commas between"},
    {"kernel", "kernel", nullptr, &v0_3::InferenceOptions::kernel,
     [](InferenceOptions& engine, std::string const& value) {
       engine.kernel.reset();
       if (value != "auto") engine.kernel = parse_kernel(value);
     },
     [] { return auto_or(all_kernels); }, "use this kernel for every layer that supports it (auto: chosen per layer)"},
}};

} // namespace

std::span<EngineOption const> engine_options() { return all_options; }

TrainingOptions training_options(Recipe const& recipe) {
  TrainingOptions training;
  training.precision = recipe.precision;
  training.loss = recipe.loss;
  training.optimizer = recipe.optimizer;
  training.batch = recipe.batch;
  training.pattern = recipe.pattern.kind;
  return training;
}

varve::InferenceOptions v0_3::to_private(InferenceOptions const& options) {
  varve::InferenceOptions own;
  own.backend = options.backend.value_or(compiled_backends().front());
  own.precision = options.precision;
  for (auto const& option : all_options) option.set(own, options.*option.value);
  own.batch = options.batch;
  own.expected_samples = options.expected_samples;
  own.memory_limit = options.memory_limit;
  own.device_memory_limit = options.device_memory_limit;
  own.input_name = options.input_name;
  return own;
}

varve::Recipe v0_3::to_private(Recipe const& recipe) {
  varve::Recipe own;
  own.precision = recipe.precision;
  own.loss = parse_loss(recipe.loss, recipe.delta);
  own.optimizer = {
      parse_optimizer(recipe.optimizer), recipe.momentum, recipe.beta1, recipe.beta2, recipe.epsilon, recipe.l2};
  own.rate = {parse_rate_schedule(recipe.schedule), recipe.rate, recipe.rate_factor, recipe.rate_every, recipe.warm_up};
  own.batch = recipe.batch;
  own.epochs = recipe.epochs;
  own.seed = recipe.seed;
  own.pattern = {parse_pattern_kind(recipe.pattern), recipe.pattern_fraction, recipe.pattern_every,
                 recipe.pattern_until, parse_pattern_schedule(recipe.pattern_schedule)};
  require_valid(own);
  return own;
}

} // namespace varve
