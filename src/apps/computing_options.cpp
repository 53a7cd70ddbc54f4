#include "apps/computing_options.hpp"

#include "apps/command.hpp"
#include "core/backend.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <type_traits>

namespace varve {

void add_computing_options(CLI::App& command, ComputingOptions& options, std::vector<std::string> const& names,
                           std::string const& condition) {
  /// Adds an option if it is wanted; --help-all shows its group, --help only options of no group.
  auto const add = [&](char const* name, std::string const& group, auto& value, std::string const& help,
                       std::optional<CLI::Validator> const& rule = std::nullopt) {
    if (std::ranges::find(names, name) == names.end()) return;
    auto* const option = command.add_option(name, value, condition + help);
    if (std::is_same_v<decltype(value), std::string&>) option->capture_default_str();
    if (!group.empty()) option->group(group);
    if (rule) option->check(*rule);
  };
  add("--backend", "", options.backend, compiled_backend_names());
  add("--precision", "", options.precision, "precision of activations and weights", CLI::IsMember({"float", "double"}));
  add("--batch", "Memory", options.batch, "samples at a time (default: as many as fit and suit the speed of the rank)",
      above_zero());
  add("--reductions", "Arithmetic", options.reductions,
      "work to save where results are known or equal: auto, none, or a comma-separated list of merge_neurons, "
      "fold_constants, drop_unread, saturation, equal_samples. The first two add terms of sums in advance, so last "
      "bits "
      "may differ (drop_unread: unless --edge-order is ascending), and a sum that meets its threshold up to rounding "
      "may "
      "fall on the other side; varve verify --exact tells which side is right");
  add("--edge-order", "Arithmetic", options.edge_order,
      "order in which outputs add their products, which decides last bits: balanced (in layers of at most 4096 neurons "
      "that gain from fewer bank conflicts on GPUs, else ascending) or ascending");
  add("--formats", "For studies", options.formats,
      "formats in which layers may be stored: auto, or a comma-separated list of cones, dense, pattern_blocks, "
      "staged_blocks, sliced_ell, csr");
  add("--kernel", "For studies", options.kernel,
      "kernel of all layers that it can run: direct, stationary, staged, fused, dense, cones, split_output or "
      "small_batch (default: "
      "chosen per layer)");
}

InferenceOptions engine_options(ComputingOptions const& options) {
  InferenceOptions engine;
  engine.backend = parse_backend(options.backend);
  engine.precision = precision_of(options.precision);
  engine.batch = options.batch;
  engine.formats = parse_formats(options.formats);
  engine.reductions = parse_reductions(options.reductions);
  engine.edge_order = parse_edge_order(options.edge_order);
  if (options.kernel) engine.kernel = parse_kernel(*options.kernel);
  return engine;
}

Precision precision_of(std::string const& name) {
  return name == "double" ? Precision::double_precision : Precision::single_precision;
}

} // namespace varve
