#include "fuzz/target.hpp"

#include "apps/infer_options.hpp"
#include "apps/options_file.hpp"
#include "core/error.hpp"

#include <CLI/CLI.hpp>

namespace varve::fuzz {

/// The file of `varve infer --options`, up to what the engine is told.
VARVE_FUZZ_TARGET(options_json) {
  auto const path = file_of(bytes, "options.json");
  CLI::App command("", "infer");
  InferOptions options;
  add_infer_options(command, options);
  add_options_file(command, options.options_file, {"--activations", "--categories", "--report"});
  try {
    command.parse(std::vector<std::string>{path.string(), "--options", "images.safetensors", "--input",
                                           "net.safetensors", "--network"});
  } catch (CLI::ParseError const& error) {
    throw UsageError(error.what());
  }
  engine_options(options);
  parse_samples(options.samples);
}

} // namespace varve::fuzz
