#include "apps/command.hpp"
#include "apps/network_options.hpp"
#include "apps/reductions_report.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "io/open.hpp"
#include "io/sample_reader.hpp"
#include "passes/reduced_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
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

/// Memory limit, in bytes, for rewritten layers; layers beyond it are rewritten twice.
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

/// Converts a limited number of samples at a time, so that the input may be larger than memory.
void convert_samples(ConvertOptions const& options) {
  constexpr std::size_t samples_at_a_time = 16384;
  auto const half_of_memory = available_memory(Backend::serial) / 2; // unsorted text must be sorted in memory
  auto const reader = open_sample_reader(options.source, options.challenge.neurons, half_of_memory);
  auto const writer = open_sample_writer(options.target, reader->num_neurons());
  auto const progress = terminal_progress("converting samples");
  auto const num_samples = reader->num_samples();
  std::size_t done = 0;
  do {
    auto const samples = to_set(reader->read(done, std::min(done + samples_at_a_time, num_samples)));
    writer->append(samples);
    done += samples.num_samples();
    if (progress) progress(done, num_samples);
  } while (done < num_samples);
  writer->commit();
}

int convert(ConvertOptions const& options) {
  FileRoles files;
  files.reads("SRC", options.source);
  files.writes("DST", options.target, Content::network_or_samples);
  check_files(files);
  if (options.is_samples || holds_samples(options.source)) {
    if (options.reduce)
      throw UsageError(fmt::format("{} holds samples; only a network can be reduced", options.source));
    convert_samples(options);
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
      ->add_option("SRC", options->source,
                   "input: network (.h5, folder of layer files) or samples (.h5, .tsv, compressed .tsv)")
      ->required();
  command
      ->add_option("DST", options->target,
                   "output, in the format of its ending (.h5, .tsv, .tsv.gz, .tsv.xz, .tsv.zst); a network in text "
                   "becomes a folder")
      ->required();
  add_network_options(*command, options->challenge);
  command->add_flag(
      "--reduce", options->reduce,
      "write a smaller network with the same outputs: merge equal neurons, fold constants, drop unread neurons");
  command->callback([options, &action] { action = [options] { return convert(*options); }; });
}

} // namespace varve
