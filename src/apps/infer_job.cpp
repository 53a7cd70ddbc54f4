#include "apps/infer_job.hpp"

#include "apps/command.hpp"
#include "apps/options_file.hpp"
#include "apps/standard_streams.hpp"
#include "core/error.hpp"
#include "distribute/ranks.hpp"
#include "distribute/run_batches.hpp"
#include "io/categories.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

namespace varve {
namespace {

/// Checks, before anything is read or written, that no output is another file of this run and that every rank can read
/// every input.
void check_roles(InferJob const& job) {
  job.communicator.together([&] {
    auto const files = file_roles(job.options);
    files.require_readable_by(static_cast<std::size_t>(job.communicator.size()));
    if (job.communicator.is_root()) check_files(files);
  });
}

/// True categories within the samples that are run, before they are repeated. Throws InputError if the file names
/// samples beyond the input.
std::vector<SampleIndex> read_truth(InferOptions const& options, SampleReader const& samples) {
  std::vector<SampleIndex> truth = read_categories(options.truth, options.first_number());
  SampleIndex const first = samples.first_sample();
  SampleIndex const last = first + samples.num_samples();
  if (!options.samples.empty()) {
    std::erase_if(truth, [&](SampleIndex sample) { return sample < first || sample >= last; });
  } else if (!truth.empty() && truth.back() >= last) {
    throw InputError(
        fmt::format("{} names sample {}, but {} holds samples {} to {}; compare a part with --samples FIRST:LAST",
                    options.truth, truth.back() + 1, options.input, first + 1, last));
  }
  return truth;
}

/// Records which rank runs on which device. Throws ResourceError if two share one without --share-devices.
void place_ranks(InferJob& job) {
  auto const& communicator = job.communicator;
  communicator.together([&] { job.engine = engine_options(job.options); });
  auto const places = varve::place_ranks(communicator, job.engine.backend, job.options.share_devices);
  add_devices(job.report, places.devices);
  job.report["backend"] = job.options.backend;
  job.report["precision"] = job.options.precision;
  job.ranks_on_host = places.num_ranks_on_host;
  auto const kind = fmt::format("{} {} {}", kind_of(places.own), job.options.named.formats, job.options.named.kernel);
  job.are_ranks_alike = num_ranks_with(communicator, kind) == static_cast<std::size_t>(communicator.size());
  limit_memory(job.engine, job.ranks_on_host);
}

/// Compares what the ranks opened.
void require_same_files(InferJob const& job) {
  auto const& options = job.options;
  std::vector<RankInput> inputs;
  job.communicator.together([&] {
    inputs.push_back({"--network " + options.network, network_files(options.network, options.challenge)});
    inputs.push_back({"--input " + options.input, {options.input}});
    if (!options.truth.empty()) inputs.push_back({"--truth " + options.truth, {options.truth}});
  });
  require_same_inputs(job.communicator,
                      {{"the number of layers", job.network->num_layers()},
                       {"the first sample", job.samples->first_sample() + 1},
                       {"the number of samples", job.num_samples()}},
                      inputs);
}

/// Opens all files, so that errors in them appear before the work begins.
void open_files(InferJob& job) {
  auto const& options = job.options;
  job.communicator.together([&] {
    job.network = open_network(options.network, options.challenge);
    if (!options.receipt.empty() && job.communicator.is_root()) {
      auto digested = std::make_unique<DigestedNetwork>(std::move(job.network));
      job.digested = digested.get();
      job.network = std::move(digested);
    }
    job.samples = open_sample_reader(options.input, job.network->layer(0).num_inputs(), parse_samples(options.samples),
                                     input_bytes(options, job.ranks_on_host));
    if (!options.truth.empty()) job.truth = read_truth(options, *job.samples);
    job.samples = repeated(std::move(job.samples), options.repeat_input, input_bytes(options, job.ranks_on_host));
    if (!job.communicator.is_root()) return;
    for (auto const& path : output_paths(options)) require_writable(path);
  });
  require_same_files(job);
  if (job.engine.batch) job.engine.batch = std::clamp<std::size_t>(job.num_samples(), 1, *job.engine.batch);
  job.report["input"] = {{"name", options.input},
                         {"first_sample", job.samples->first_sample() + 1},
                         {"samples", job.num_samples()},
                         {"repetitions", options.repeat_input}};
}

/// Prints a remark if the options file was tuned for another network or device; its options apply all the same.
void compare_tuning(InferJob& job) {
  if (job.options.options_file.empty()) return;
  job.communicator.together([&] {
    if (!job.communicator.is_root()) return;
    auto const here = describe_tuning_target(job.options.network, job.options.challenge, job.engine);
    auto const tuning = read_options_file(job.options.options_file);
    for (auto const& sentence : tuning_differences(tuning, here)) {
      auto const remark = fmt::format("{} {}", job.options.options_file, sentence);
      job.report["remarks"].push_back(remark);
      say("varve: " + remark);
    }
  });
}

/// Opens the journal and takes the batches in it.
void open_journal(InferJob& job) {
  std::string run;
  job.communicator.together([&] {
    if (job.communicator.is_root()) run = json_text(describe_run(job.options, *job.samples));
  });
  run = job.communicator.broadcast(run);
  job.communicator.together([&] {
    job.store = RecordStore(job.options.journal, job.communicator.rank(), job.communicator.size());
    job.store.resume(nlohmann::ordered_json::parse(run), [](std::string_view record, std::string const& place) {
      return batch_of_bytes(record, place).samples;
    });
  });
}

/// The samples that no rank's store has.
std::vector<SampleRange> find_left(InferJob const& job) {
  std::vector<std::uint64_t> bounds;
  for (auto const& [first, last] : job.store.ranges()) bounds.insert(bounds.end(), {first, last});
  auto const all = job.communicator.gather_everywhere(bounds);
  std::vector<SampleRange> finished;
  for (std::size_t place = 0; place < all.size(); place += 2) finished.emplace_back(all[place], all[place + 1]);
  std::vector<SampleRange> left;
  job.communicator.together([&] { left = left_over(job.num_samples(), finished); });
  return left;
}

/// Throws InputError, naming the journal, unless its description of the network has all numbers.
void require_facts(Json const& facts, std::string const& journal) {
  for (char const* const name : {"layers", "inputs", "outputs", "edges"}) {
    if (facts.is_object() && facts.contains(name) && facts[name].is_number_unsigned()) continue;
    throw InputError(fmt::format("{} does not say how many {} its network has, expected a number", journal, name));
  }
}

} // namespace

void open_job(InferJob& job) {
  job.report.update({{"phases", Json::object()}, {"truth", "none"}});
  check_roles(job);
  place_ranks(job);
  open_files(job);
  compare_tuning(job);
}

SampleIndex length_of(std::vector<SampleRange> const& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), SampleIndex{0},
                         [](SampleIndex sum, SampleRange range) { return sum + range.second - range.first; });
}

void find_finished(InferJob& job) {
  if (!job.has_journal()) {
    auto const& activations = job.options.activations; // may be larger than memory
    job.communicator.together([&] {
      if (!activations.empty()) job.store = RecordStore(std::filesystem::path(activations).parent_path());
    });
    job.left = find_left(job);
    return;
  }
  open_journal(job);
  job.left = find_left(job);
  std::string facts;
  for (auto const& found : job.communicator.gather(json_text(job.store.network())))
    if (facts.empty() || facts == "null") facts = found;
  job.facts = nlohmann::ordered_json::parse(job.communicator.broadcast(facts));
  job.communicator.together([&] {
    if (!job.facts.is_null()) require_facts(job.facts, job.options.journal);
  });
  job.report["journal"] = {{"name", job.options.journal},
                           {"samples_found", job.num_samples() - length_of(job.left)},
                           {"bytes_discarded", job.communicator.sum(job.store.num_discarded_bytes())}};
}

} // namespace varve
