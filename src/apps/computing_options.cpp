#include "apps/computing_options.hpp"

#include "apps/options.hpp"
#include "core/backend.hpp"

namespace varve {

void add_engine_options(CLI::App& command, ComputingOptions& options, OptionKind kind, std::string const& except,
                        std::string const& condition) {
  OptionGroup const group(command, kind == OptionKind::arithmetic ? "Arithmetic" : "For studies");
  for (auto const& one : engine_options())
    if (one.kind == kind && one.name != except)
      group.add("--" + std::string(one.name), options.named.*one.value, condition + one.help, known(one.names()));
}

void add_computing_options(CLI::App& command, ComputingOptions& options, std::string const& condition) {
  add_backend(command, options.backend, condition);
  add_precision(OptionGroup(command), options.precision, condition);
  add_engine_options(command, options, OptionKind::arithmetic, "", condition);
}

void add_batch(CLI::App& command, ComputingOptions& options) {
  OptionGroup(command, "Memory")
      .add("--batch", options.batch, "samples at a time (default: as many as fit and suit the speed of the rank)",
           above_zero());
}

void add_options(Json& report, ComputingOptions const& options) {
  report["precision"] = options.precision;
  for (auto const& one : engine_options()) report[one.key] = options.named.*one.value;
}

InferenceOptions engine_options(ComputingOptions const& options) {
  InferenceOptions engine;
  engine.backend = parse_backend(options.backend);
  engine.precision = precision_of(options.precision);
  engine.batch = options.batch;
  set_named(engine, options.named);
  return engine;
}

Precision precision_of(std::string const& name) {
  return name == "double" ? Precision::double_precision : Precision::single_precision;
}

} // namespace varve
