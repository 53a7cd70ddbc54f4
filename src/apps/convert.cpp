#include "apps/command.hpp"
#include "apps/network_options.hpp"
#include "io/open.hpp"

#include <memory>
#include <string>

namespace varve {
namespace {

struct ConvertOptions {
  std::string source, target;
  ChallengeOptions challenge;
  bool is_samples = false;
};

int convert(ConvertOptions const& options) {
  if (options.is_samples || holds_samples(options.source)) {
    save_samples(open_samples(options.source, options.challenge.neurons), options.target);
  } else {
    save_network(*open_network(options.source, options.challenge), options.target,
                 terminal_progress("converting layers"));
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
  command->callback([options, &action] { action = [options] { return convert(*options); }; });
}

} // namespace varve
