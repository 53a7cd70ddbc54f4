#include "apps/command.hpp"
#include "apps/infer_options.hpp"
#include "apps/infer_report.hpp"
#include "apps/journal_contents.hpp"
#include "apps/options_file.hpp"
#include "apps/standard_streams.hpp"
#include "apps/tuning_target.hpp"
#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/stopwatch.hpp"
#include "distribute/batch_queue.hpp"
#include "distribute/batch_store.hpp"
#include "distribute/communicator.hpp"
#include "distribute/journal.hpp"
#include "distribute/rank_device.hpp"
#include "distribute/rank_exchange.hpp"
#include "distribute/run_batches.hpp"
#include "distribute/stop_signal.hpp"
#include "engine/inference.hpp"
#include "io/categories.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

constexpr int stopped_by_signal = 5; ///< exit code

/// A run on this rank, from the options to the outputs.
struct Job {
  InferOptions const& options;
  Communicator communicator = {};
  InferReport report = {};

  InferenceOptions engine = {};
  std::size_t ranks_on_host = 1; ///< this one included
  std::unique_ptr<NetworkSource> network = {};
  std::unique_ptr<SampleReader> samples = {};
  std::optional<std::vector<SampleIndex>> truth = {}; ///< of samples that are repeated: once

  std::unique_ptr<BatchStore> store = {}; ///< where finished batches wait for the end
  std::vector<SampleRange> left = {};     ///< what is still to be run, on all ranks together
  nlohmann::ordered_json facts = {};      ///< what is known of the network: layers, inputs, outputs, edges

  SampleIndex num_samples() const { return samples->num_samples(); }
  bool splits_neurons() const { return engine.exchange != nullptr; }
};

/// What a run gives: on rank 0, of all samples in order.
struct Outcome {
  std::vector<SampleIndex> live_samples;
  std::vector<NeuronIndex> predictions;
  std::uint64_t activation_hash = 0;
  double live_edges = 0.0;
};

/// Ranks are started by one command each; what decides the outputs must be the same in all.
void require_common_options(Job const& job) {
  auto const text = json_text(common_options(job.options));
  auto const mine = nlohmann::ordered_json::parse(text);
  auto const theirs = nlohmann::ordered_json::parse(job.communicator.broadcast(text));
  job.communicator.together([&] {
    for (auto const& [name, value] : mine.items()) {
      if (theirs[name] == value) continue;
      throw UsageError(
          fmt::format("{} is {} here and {} on rank 0; only --backend, --memory-limit, --device-memory-limit, "
                      "--device-weight-limit, --input-memory, --formats, --kernel, --narrow-tiles and "
                      "options of Kokkos may differ",
                      name, json_text(value), json_text(theirs[name])));
    }
  });
}

/// Before anything is read or written: no output is another file of this run, and every rank can read every input.
void check_roles(Job const& job) {
  job.communicator.together([&] {
    auto const files = file_roles(job.options);
    files.require_readable_by(static_cast<std::size_t>(job.communicator.size()));
    if (job.communicator.is_root()) check_files(files);
  });
}

/// True categories within the samples that are run, before they are repeated. Throws InputError if the file names
/// samples beyond the input.
std::vector<SampleIndex> read_truth(InferOptions const& options, SampleReader const& samples) {
  std::vector<SampleIndex> truth = read_categories(options.truth);
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

/// The true categories of all repetitions. Called at the end: what ran has few enough of them.
std::vector<SampleIndex> repeat_truth(Job const& job) {
  auto const repetitions = job.options.repeat_input;
  auto const num_samples = job.num_samples() / repetitions;
  std::vector<SampleIndex> all;
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (auto const sample : *job.truth) all.push_back(sample + repetition * num_samples);
  }
  return all;
}

/// Says which rank runs where, and that no two share a device unless they may.
void place_ranks(Job& job) {
  auto const& communicator = job.communicator;
  communicator.together([&] { job.engine = engine_options(job.options); });
  auto const mine = device_of_this_rank(job.engine.backend);
  auto const hosts = communicator.gather(mine.host);
  auto const devices = communicator.gather(mine.device);
  auto const identities = communicator.gather(mine.identity);
  std::vector<RankDevice> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks.push_back({hosts[rank], devices[rank], identities[rank]});
  communicator.together([&] {
    if (!job.options.share_devices) require_own_devices(ranks);
  });
  job.report.devices(job.options.backend, job.options.precision, ranks);
  auto const all_hosts = nlohmann::json::parse(communicator.broadcast(nlohmann::json(hosts).dump()));
  job.ranks_on_host = static_cast<std::size_t>(std::ranges::count(all_hosts, nlohmann::json(mine.host)));
  limit_memory(job.engine, job.ranks_on_host);
}

/// Opens all files, so that what is wrong with them is found before the work begins.
void open_files(Job& job) {
  auto const& options = job.options;
  job.communicator.together([&] {
    job.network = open_network(options.network, options.challenge);
    job.samples = open_sample_reader(options.input, job.network->layer(0).num_inputs(), parse_samples(options.samples),
                                     input_bytes(options, job.ranks_on_host));
    if (!options.truth.empty()) job.truth = read_truth(options, *job.samples);
    job.samples = repeated(std::move(job.samples), options.repeat_input, input_bytes(options, job.ranks_on_host));
    if (!job.communicator.is_root()) return;
    for (auto const& path : output_paths(options)) require_writable(path);
  });
  if (job.engine.batch) job.engine.batch = std::clamp<std::size_t>(job.num_samples(), 1, *job.engine.batch);
  job.report.samples(options.input, job.samples->first_sample(), job.num_samples(), options.repeat_input);
}

/// Options that were found for another network or device are taken all the same, but that is said.
void compare_tuning(Job& job) {
  if (job.options.options_file.empty()) return;
  job.communicator.together([&] {
    if (!job.communicator.is_root()) return;
    auto const here = describe_tuning_target(job.options.network, job.options.challenge, job.engine);
    auto const tuning = read_options_file(job.options.options_file);
    for (auto const& sentence : tuning_differences(tuning, here)) {
      auto const remark = fmt::format("{} {}", job.options.options_file, sentence);
      job.report.remark(remark);
      say("varve: " + remark);
    }
  });
}

std::unique_ptr<Journal> open_journal(Job const& job) {
  std::string run;
  job.communicator.together([&] {
    if (job.communicator.is_root()) run = json_text(describe_run(job.options, *job.samples));
  });
  run = job.communicator.broadcast(run);
  std::unique_ptr<Journal> journal;
  job.communicator.together([&] {
    journal = std::make_unique<Journal>(job.options.journal, nlohmann::ordered_json::parse(run),
                                        job.communicator.rank(), job.communicator.size());
  });
  return journal;
}

/// Activations may be larger than memory.
std::unique_ptr<BatchStore> open_temporary_store(Job const& job) {
  if (job.options.activations.empty()) return store_in_memory();
  std::unique_ptr<BatchStore> store;
  job.communicator.together(
      [&] { store = store_in_temporary_file(std::filesystem::path(job.options.activations).parent_path()); });
  return store;
}

/// The samples that are in no rank's store.
std::vector<SampleRange> find_left(Job const& job) {
  std::vector<std::uint64_t> bounds;
  for (auto const& [first, last] : job.store->ranges()) bounds.insert(bounds.end(), {first, last});
  auto const all = job.communicator.gather_everywhere(bounds);
  std::vector<SampleRange> finished;
  for (std::size_t place = 0; place < all.size(); place += 2) finished.emplace_back(all[place], all[place + 1]);
  std::vector<SampleRange> left;
  job.communicator.together([&] { left = left_over(job.num_samples(), finished); });
  return left;
}

SampleIndex length_of(std::vector<SampleRange> const& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), SampleIndex{0},
                         [](SampleIndex sum, SampleRange range) { return sum + range.second - range.first; });
}

/// Finds what earlier runs have finished. Returns the journal, which the job's store is then, if there is one.
Journal* find_finished(Job& job) {
  if (job.options.journal.empty()) {
    job.store = open_temporary_store(job);
    job.left = find_left(job);
    return nullptr;
  }
  auto journal = open_journal(job);
  auto* const opened = journal.get();
  job.store = std::move(journal);
  job.left = find_left(job);
  std::string facts;
  for (auto const& found : job.communicator.gather(json_text(opened->network())))
    if (facts.empty() || facts == "null") facts = found;
  job.facts = nlohmann::ordered_json::parse(job.communicator.broadcast(facts));
  job.communicator.together([&] {
    if (!job.facts.is_null()) require_facts(job.facts, job.options.journal);
  });
  job.report.journal(job.options.journal, job.num_samples() - length_of(job.left),
                     job.communicator.sum(opened->num_discarded_bytes()));
  return opened;
}

BatchRules batch_rules(Job const& job) {
  constexpr double most_seconds = 10.0; // what is lost at most when the run is killed
  bool const has_journal = !job.options.journal.empty();
  BatchRules rules;
  auto usual = job.communicator.size() > 1 || has_journal ? Schedule::dynamic : Schedule::fixed;
  if (job.splits_neurons()) usual = Schedule::together;
  rules.schedule = job.options.schedule ? parse_schedule(*job.options.schedule) : usual;
  rules.grain = job.engine.batch.value_or(grain_of(job.num_samples()));
  rules.one_grain = job.options.batch.has_value();
  if (has_journal || rules.schedule == Schedule::dynamic) rules.most_seconds = most_seconds;
  return rules;
}

/// Plans for the largest batch that this rank can get: its equal share of the samples (all, where ranks take them
/// together), if so many fit.
Plan plan_batches(Inference& inference, Job const& job, BatchRules& rules) {
  auto const num_samples = job.num_samples();
  auto const num_shares = rules.schedule == Schedule::together ? 1 : static_cast<SampleIndex>(job.communicator.size());
  auto const share = capped_multiply(num_samples / num_shares / rules.grain + 1, rules.grain);
  auto const fit = samples_that_fit(*job.samples, input_bytes(job.options, job.ranks_on_host));
  auto const enough = most_samples_at_a_time(job.engine.backend);
  auto const most = rules.one_grain ? num_samples : std::min({num_samples, share, fit, enough});
  auto const entries = static_cast<double>(job.samples->num_entries()) * static_cast<double>(most) /
                       static_cast<double>(std::max<SampleIndex>(num_samples, 1));
  auto const plan = inference.plan({most, static_cast<EdgeOffset>(entries), job.samples->has_one_value()});
  rules.most = plan.batch;
  return plan;
}

/// True if a signal has come: to this rank, or to any where all work together.
bool has_to_stop(Job const& job) {
  double const has_come = StopSignal::has_come() ? 1.0 : 0.0;
  return (job.splits_neurons() ? job.communicator.max(has_come) : has_come) > 0.0;
}

nlohmann::ordered_json facts_of(Inference const& inference) {
  return {{"layers", inference.num_layers()},
          {"inputs", inference.num_inputs()},
          {"outputs", inference.num_outputs()},
          {"edges", inference.num_edges()}};
}

/// A network that is ready to run.
struct Prepared {
  BatchRules rules;
  std::unique_ptr<Inference> inference;
  Plan plan;
};

void prepare_for(Job const& job, Prepared& prepared) {
  prepared.rules = batch_rules(job);
  prepared.inference = prepare(*job.network, job.engine);
  prepared.plan = plan_batches(*prepared.inference, job, prepared.rules);
}

/// True if neurons may be split because of this error: memory lacks, and a smaller batch is no help.
bool may_split(Job const& job, Prepared const& prepared, Error const& error) {
  bool const is_alone = job.communicator.size() == 1 || job.engine.engine != Engine::varve;
  if (job.options.split != "auto" || job.options.schedule || is_alone) return false;
  return error.kind() == ErrorKind::resource && !(prepared.inference && job.options.batch);
}

/// Prepares whole layers on each rank. False if on some rank memory lacks and neurons are to be split instead.
bool prepare_to_share_samples(Job const& job, Prepared& prepared) {
  std::uint64_t lacks_memory = 0;
  job.communicator.together([&] {
    try {
      prepare_for(job, prepared);
    } catch (Error const& error) {
      if (!may_split(job, prepared, error)) throw;
      lacks_memory = 1;
    }
  });
  return job.communicator.sum(lacks_memory) == 0;
}

/// Prepares a part of each layer on each rank. The smallest batch that a rank has room for is that of all.
void prepare_to_split_neurons(Job& job, Prepared& prepared) {
  prepared.inference.reset(); // what there was takes memory
  job.engine.exchange = exchange_between_ranks(job.options.exchange == "host");
  job.communicator.together([&] { prepare_for(job, prepared); });
  prepared.plan.batch = std::ranges::min(job.communicator.gather_everywhere({prepared.plan.batch}));
  prepared.rules.most = prepared.plan.batch;
}

/// Says what is run. Where that cannot be written, nothing is run.
void print_start(Job const& job) {
  job.communicator.together([&] {
    if (!job.communicator.is_root()) return;
    job.report.print_start();
    flush_output();
  });
}

/// Prepares the network and runs what is left.
void run_left(Job& job, Journal* journal) {
  auto const& communicator = job.communicator;
  Stopwatch const prepare_time;
  auto const num_ranks = static_cast<SampleIndex>(communicator.size());
  job.engine.expected_samples = std::min<std::size_t>((job.num_samples() + num_ranks - 1) / num_ranks,
                                                      job.engine.batch.value_or(job.num_samples()));
  Prepared prepared;
  bool const shares_samples = job.options.split != "neurons" && prepare_to_share_samples(job, prepared);
  if (!shares_samples) prepare_to_split_neurons(job, prepared);
  communicator.together([&] {
    job.facts = facts_of(*prepared.inference);
    if (journal != nullptr) journal->begin(job.facts);
  });
  job.report.phase("prepare", communicator.max(prepare_time.seconds()));
  job.report.network(job.network->name(), job.facts);
  job.report.plan(prepared.plan);
  print_start(job);

  auto const num_found = job.num_samples() - length_of(job.left);
  auto const progress = communicator.is_root() ? terminal_progress("inferring samples") : Progress();
  BatchQueue queue(communicator, job.left, prepared.rules);
  bool const keeps_batches = !job.splits_neurons() || communicator.is_root(); // else all ranks have the same
  auto const nowhere = store_nowhere();
  auto& store = keeps_batches ? *job.store : *nowhere;
  auto const wanted = keeps_batches ? job.options.wanted() : WantedOutputs{};
  RankTimes times;
  Stopwatch const run_time;
  communicator.together([&] {
    times = run_batches(*prepared.inference, *job.samples, queue, store, prepared.plan.batch, wanted, [&] {
      if (progress) progress(num_found + queue.num_taken(), job.num_samples());
      return journal == nullptr || !has_to_stop(job);
    });
  });
  if (progress) progress(job.num_samples(), job.num_samples());
  auto const& later = prepared.inference->plan();
  if (to_text(later) != to_text(prepared.plan)) job.report.later_plan(later);
  job.report.run(prepared.rules.schedule, run_time.seconds(), gather(communicator, times));
}

/// Rank 0 takes the batches of all ranks in order; activations go to their file at once.
Outcome collect(Job const& job) {
  Outcome outcome;
  job.communicator.together([&] {
    auto const num_outputs = job.facts["outputs"].get<std::size_t>();
    std::optional<SampleFileWriter> writer;
    if (job.communicator.is_root() && !job.options.activations.empty()) {
      SampleSet none; // a run of no samples has a file, too
      none.first_sample = job.samples->first_sample();
      none.matrix.num_columns = num_outputs;
      writer.emplace(job.options.activations, none.num_neurons());
      writer->append(none);
    }
    for_each_in_order(job.communicator, *job.store, [&](FinishedBatch const& batch) {
      require_fit(batch, job.options.wanted(), job.samples->first_sample(), num_outputs, job.options.journal);
      outcome.live_samples.insert(outcome.live_samples.end(), batch.live_samples.begin(), batch.live_samples.end());
      outcome.predictions.insert(outcome.predictions.end(), batch.predictions.begin(), batch.predictions.end());
      outcome.activation_hash += batch.activation_hash;
      outcome.live_edges += batch.live_edges;
      if (writer) writer->append(batch.activations);
    });
    if (writer) writer->commit();
  });
  return outcome;
}

void write_lists(InferOptions const& options, Outcome const& outcome, SampleIndex first_sample) {
  if (!options.categories.empty()) write_categories(options.categories, outcome.live_samples);
  if (options.predictions.empty()) return;
  std::vector<SampleIndex> numbers(outcome.predictions.size());
  std::iota(numbers.begin(), numbers.end(), first_sample);
  write_predictions(options.predictions, numbers, outcome.predictions);
}

int say_stopped(Job const& job, SampleIndex num_finished) {
  if (job.communicator.is_root()) {
    say(fmt::format("varve: a signal stopped the run after {} of {} samples; the same command goes on from {}",
                    num_finished, job.num_samples(), printable(job.options.journal)));
  }
  return stopped_by_signal;
}

/// Writes all outputs and says how it went. Returns the exit code.
int finish(Job& job, Stopwatch const& total_time) {
  Stopwatch const write_time;
  job.communicator.together(require_unchanged_inputs);
  auto const outcome = collect(job);
  int exit_code = 0;
  job.communicator.together([&] {
    if (!job.communicator.is_root()) return;
    write_lists(job.options, outcome, job.samples->first_sample());
    job.report.phase("write", write_time.seconds());
    job.report.result(outcome.live_samples.size(), outcome.activation_hash, outcome.live_edges);
    bool const matches = !job.truth || job.report.compare(repeat_truth(job), outcome.live_samples);
    exit_code = matches ? 0 : 1;
    job.report.phase("total", total_time.seconds());
    if (!job.options.report.empty()) job.report.write(job.options.report);
    job.report.print_result(); // last: a failure to print loses no output
  });
  return static_cast<int>(job.communicator.sum(static_cast<std::uint64_t>(exit_code)));
}

int infer(InferOptions const& options) {
  Stopwatch const total_time;
  std::optional<StopSignal> stop_signal;
  if (!options.journal.empty()) stop_signal.emplace();

  Job job{.options = options};
  require_common_options(job);
  check_roles(job);
  place_ranks(job);
  open_files(job);
  compare_tuning(job);
  Journal* const journal = find_finished(job);
  job.report.phase("read", total_time.seconds());

  bool const is_all_known = job.left.empty() && !job.facts.is_null();
  if (!is_all_known) {
    run_left(job, journal);
  } else {
    job.report.network(job.network->name(), job.facts);
    print_start(job);
  }
  auto const num_finished = job.communicator.sum(std::uint64_t{length_of(job.store->ranges())});
  return num_finished < job.num_samples() ? say_stopped(job, num_finished) : finish(job, total_time);
}

} // namespace

void add_infer(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand("infer", "Run samples through a network and say which survive");
  auto const options = std::make_shared<InferOptions>();
  add_infer_options(*command, *options);
  add_options_file(*command, options->options_file);
  command->callback([options, &action] { action = [options] { return infer(*options); }; });
}

} // namespace varve
