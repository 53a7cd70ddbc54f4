#include "apps/command.hpp"
#include "apps/network_options.hpp"
#include "apps/reductions_report.hpp"
#include "core/error.hpp"
#include "io/open.hpp"
#include "passes/reduced_network.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>

namespace varve {
namespace {

struct ConvertOptions {
  std::string source, target;
  ChallengeOptions challenge;
  bool is_samples = false;
  bool reduce = false;
};

/// Rewritten layers are kept in memory up to this size and rewritten twice beyond.
constexpr std::size_t kept_bytes = std::size_t(4) << 30U;

void convert_network(NetworkSource const& network, ConvertOptions const& options) {
  auto const progress = terminal_progress("converting layers");
  if (!options.reduce) {
    save_network(network, options.target, progress);
    return;
  }
  ReducedNetwork const reduced(network, {.merge_outputs = false}, kept_bytes);
  save_network(reduced, options.target, progress);
  print_reductions(describe(reduced.report()));
}

int convert(ConvertOptions const& options) {
  if (options.is_samples || holds_samples(options.source)) {
    if (options.reduce)
      throw UsageError(fmt::format("{} holds samples; only a network can be reduced", options.source));
    save_samples(open_samples(options.source, options.challenge.neurons), options.target);
  } else {
    convert_network(*open_network(options.source, options.challenge), options);
  }
  return 0;
}

} // namespace

void add_convert(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand("convert", "Rewrite a network or samples in another format");
  auto const options = std::make_shared<ConvertOptions>();
  command
      ->add_option("SRC", options->source, "network (.h5, folder of layer files) or samples (.h5, .tsv and compressed)")
      ->required();
  command
      ->add_option("DST", options->target,
                   "file (.h5, .tsv, .tsv.gz, .tsv.xz, .tsv.zst); a network in text is a folder")
      ->required();
  add_network_options(*command, options->challenge);
  command->add_flag(
      "--reduce", options->reduce,
      "store the network with equal neurons merged, constants folded and unread neurons dropped; its outputs "
      "are the same");
  command->callback([options, &action] { action = [options] { return convert(*options); }; });
}

} // namespace varve
