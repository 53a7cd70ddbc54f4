#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "distribute/batch_queue.hpp"
#include "distribute/run_batches.hpp"
#include "io/categories.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"
#include "network/network.hpp"
#include "receipts/digests.hpp"
#include "receipts/inference_receipt.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>

namespace varve {
namespace {

/// The state of a run on this rank, from the options to the outputs.
struct InferJob {
  InferOptions const& options;
  Communicator communicator = {};
  Json report = report_head("varve infer");

  InferenceOptions engine = {};
  std::size_t ranks_on_host = 1; ///< number of ranks on this host, including this one
  bool are_ranks_alike = false;  ///< all ranks have devices of one kind, and formats and kernel were asked for alike
  std::unique_ptr<NetworkSource> network = {};
  DigestedNetwork const* digested = nullptr; ///< the network, on the rank that writes its receipt
  std::unique_ptr<SampleReader> samples = {};
  std::optional<std::vector<SampleIndex>> truth = {}; ///< true categories, without the repetitions of the input

  RecordStore store = {};             ///< finished batches until the end of the run
  std::vector<SampleRange> left = {}; ///< samples still to be run, on all ranks together
  Json facts = {};                    ///< the network's numbers of layers, inputs, outputs and edges

  SampleIndex num_samples() const { return samples->num_samples(); }
  bool has_journal() const { return !options.journal.empty(); }
  bool splits_neurons() const { return engine.exchange != nullptr; }
};

double sum(std::vector<RankTimes> const& ranks, double RankTimes::*field) {
  return std::accumulate(ranks.begin(), ranks.end(), 0.0,
                         [&](double total, RankTimes const& rank) { return total + rank.*field; });
}

double longest(std::vector<RankTimes> const& ranks, double RankTimes::*time) {
  return std::ranges::max(ranks, {}, time).*time;
}

double ratio(double count, double seconds) { return seconds > 0.0 ? count / seconds : 0.0; }

/// The first few sample numbers (from 1) for a sentence: "3, 17, 20, ... (12 in all)".
std::string first_few(std::vector<SampleIndex> const& samples) {
  constexpr std::size_t few = 5;
  auto const text = list_of_first(few, samples, 1);
  return samples.size() > few ? fmt::format("{} ({} in all)", text, samples.size()) : text;
}

/// Traffic of samples, summed over all ranks. The waiting time is the longest of any rank: until samples had been read
/// and staged, and for samples that were not staged in time.
Json streamed_samples(std::vector<RankTimes> const& ranks) {
  auto const wait_of = [](RankTimes const& rank) { return rank.wait_seconds + rank.upload_seconds; };
  double const bytes = sum(ranks, &RankTimes::staged_bytes);
  double const seconds = sum(ranks, &RankTimes::stage_seconds);
  return {{"wait_seconds", wait_of(std::ranges::max(ranks, {}, wait_of))},
          {"read_seconds", sum(ranks, &RankTimes::read_seconds)},
          {"stage_seconds", seconds},
          {"copied_bytes", bytes},
          {"bytes_per_second", ratio(bytes, seconds)}};
}

/// Traffic of streamed weights, summed over all ranks. The waiting time is the longest of any rank.
Json streamed_weights(std::vector<RankTimes> const& ranks) {
  double const bytes = sum(ranks, &RankTimes::weight_bytes);
  double const seconds = sum(ranks, &RankTimes::weight_copy_seconds);
  return {{"wait_seconds", longest(ranks, &RankTimes::weight_wait_seconds)},
          {"copied_bytes", bytes},
          {"copy_seconds", seconds},
          {"bytes_per_second", ratio(bytes, seconds)},
          {"make_seconds", sum(ranks, &RankTimes::weight_make_seconds)}};
}

/// Adds rates. The time of the layer loop is that of the rank that spends most time in it.
void add_rates(Json& report, Schedule schedule, std::vector<RankTimes> const& ranks) {
  std::vector<double> all;
  SampleIndex num_samples = 0;
  double live_edges = 0.0;
  for (auto const& rank : ranks) {
    all.resize(std::max(all.size(), rank.loop_seconds.size()), 0.0);
    for (std::size_t repetition = 0; repetition < rank.loop_seconds.size(); ++repetition)
      all[repetition] = std::max(all[repetition], rank.loop_seconds[repetition]);
    if (schedule == Schedule::together && &rank != &ranks.front()) continue;
    num_samples += rank.num_samples;
    live_edges += rank.live_edges;
  }
  double const seconds = all.empty() ? 0.0 : statistics_of(all)["median"].get<double>();
  double const edges = report["network"]["edges"].get<double>() * static_cast<double>(num_samples);
  report.update({{"loop_seconds", seconds},
                 {"loop_seconds_all", all},
                 {"edges_per_second", ratio(edges, seconds)},
                 {"live_edges_per_second", ratio(live_edges, seconds)}});
  report["phases"]["loop"] = seconds;
}

/// Prints a line for each choice of a plan, if the report has it.
void print_choices(char const* label, Json const& report, char const* plan) {
  if (!report.contains(plan)) return;
  for (auto const& choice : report[plan]["choices"]) fmt::print("{}{}\n", label, choice.get<std::string>());
}

/// Adds what the ranks did within `seconds`. With Schedule::together, every rank has taken all samples. Does nothing if
/// the list is empty, as on all ranks but the first.
void add_run(Json& report, Schedule schedule, double seconds, std::vector<RankTimes> const& ranks) {
  if (ranks.empty()) return;
  auto each = Json::array();
  for (auto const& rank : ranks) {
    each.push_back({{"batches", rank.num_batches},
                    {"samples", rank.num_samples},
                    {"busy_seconds", rank.busy_seconds},
                    {"idle_seconds", std::max(0.0, seconds - rank.busy_seconds)},
                    {"wait_seconds", rank.wait_seconds}});
    if (schedule != Schedule::together) continue;
    each.back()["exchange_seconds"] = rank.exchange_seconds;
    each.back()["exchange_bytes"] = rank.exchange_bytes;
  }
  auto const mean = sum(ranks, &RankTimes::busy_seconds) / static_cast<double>(ranks.size());
  report["run"] = {{"schedule", to_string(schedule)},
                   {"seconds", seconds},
                   {"imbalance", mean > 0.0 ? longest(ranks, &RankTimes::busy_seconds) / mean : 1.0},
                   {"ranks", each}};
  report["phases"].update({{"wait", longest(ranks, &RankTimes::wait_seconds)},
                           {"upload", longest(ranks, &RankTimes::upload_seconds)},
                           {"collect", longest(ranks, &RankTimes::collect_seconds)},
                           {"record", longest(ranks, &RankTimes::record_seconds)}});
  add_rates(report, schedule, ranks);
  report["streamed_samples"] = streamed_samples(ranks);
  if (report["plan"].contains("stream")) report["streamed_weights"] = streamed_weights(ranks);
}

/// Compares two ascending lists of sample numbers. Returns true if they are equal; otherwise adds the first
/// differences.
bool add_comparison(Json& report, std::vector<SampleIndex> const& truth, std::vector<SampleIndex> const& live_samples) {
  std::vector<SampleIndex> missing;
  std::vector<SampleIndex> unexpected;
  std::ranges::set_difference(truth, live_samples, std::back_inserter(missing));
  std::ranges::set_difference(live_samples, truth, std::back_inserter(unexpected));
  bool const matches = missing.empty() && unexpected.empty();
  report["truth"] = matches ? "match" : "differ";
  if (!missing.empty()) report["truth_missing"] = first_few(missing);
  if (!unexpected.empty()) report["truth_unexpected"] = first_few(unexpected);
  return matches;
}

/// The lines before and after a run.
void print_start(Json const& report) {
  auto shown = report;
  auto const& input = report["input"];
  shown["last_sample"] = input["first_sample"].get<SampleIndex>() + input["samples"].get<SampleIndex>() - 1;
  if (input["repetitions"] > 1) shown["times_over"] = input["repetitions"];
  if (report["ranks"] > 1) shown["plural"] = "s";
  print_lines({"network   {network/name}: {network/layers} layers, {network/inputs} inputs, {network/outputs} outputs, "
               "{network/edges:edges}",
               "input     {input/name}: {input/samples} samples ({input/first_sample}:{last_sample}[, {times_over} "
               "times over])"},
              shown);
  print_devices(report);
  print_lines({"journal   {journal/name}: {journal/samples_found} samples found finished[, {journal/bytes_discarded} "
               "bytes of a half-written record discarded]",
               "engine    {engine} on {backend}: {devices/0}, {precision}; {ranks} rank[{plural}]"},
              shown);
  print_reductions(report.value("reductions", Json()));
  print_lines({"ordered   {edge_order/description}"}, shown);
  print_choices("plan      ", report, "plan");
  print_lines({"memory    weights {plan/weight_bytes:B}, panel {plan/panel_bytes:B}, samples {plan/sample_bytes:B}; "
               "{plan/batch} samples at a time"},
              shown);
}

void print_result(Json const& report) {
  auto shown = report;
  std::vector<std::string> phases, samples;
  for (auto const& [name, seconds] : report["phases"].items())
    phases.push_back(fmt::format("{} {}", name, readable_seconds(seconds.get<double>())));
  shown["phases"] = list_of(phases);
  if (report.contains("run") && report["ranks"] > 1) {
    for (auto const& rank : report["run"]["ranks"]) samples.push_back(rank["samples"].dump());
    shown["shares"] = list_of(samples);
  }
  if (report["truth"] == "none") shown.erase("truth");
  if (report.contains("run") && report["run"]["schedule"] == to_string(Schedule::together)) {
    for (char const* const name : {"exchange_seconds", "exchange_bytes"}) {
      shown[name] = 0.0;
      for (auto const& rank : report["run"]["ranks"]) shown[name] = std::max(shown[name], rank[name]);
    }
  }
  print_lines({"time      {phases}"}, shown);
  print_choices("replanned ", report, "later_plan");
  print_lines({"ranks     {run/schedule} schedule, samples {shares}; busiest {run/imbalance:.3g} of the mean",
               "samples   waited for {streamed_samples/wait_seconds:s}; while others were computed, read in "
               "{streamed_samples/read_seconds:s}, staged in {streamed_samples/stage_seconds:s}: "
               "{streamed_samples/copied_bytes:B} copied, {streamed_samples/bytes_per_second:B/s}",
               "weights   waited for {streamed_weights/wait_seconds:s}; copied {streamed_weights/copied_bytes:B} in "
               "{streamed_weights/copy_seconds:s}, {streamed_weights/bytes_per_second:B/s}[; read and packed again in "
               "{streamed_weights/make_seconds:s}]",
               "exchange  {exchange_seconds:s} of the loop, waiting for other ranks included; up to {exchange_bytes:B} "
               "received by a rank",
               "rate      {edges_per_second:edges/s}, live {live_edges_per_second:edges/s}",
               "survivors {survivors}   activations {activation_hash}", "truth: {truth}",
               "  in the truth, but not alive here: {truth_missing}",
               "  alive here, but not in the truth: {truth_unexpected}"},
              shown);
}

/// A prepared network, its plan, and the rules for its batches.
struct Prepared {
  BatchRules rules;
  std::unique_ptr<Inference> inference;
  Plan plan;
};

/// Number of samples in these ranges.
SampleIndex length_of(std::vector<SampleRange> const& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), SampleIndex{0},
                         [](SampleIndex sum, SampleRange range) { return sum + range.second - range.first; });
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
    fail<InputError>("{} names sample {}, but {} holds samples {} to {}; compare a part with --samples FIRST:LAST",
                     options.truth, truth.back() + 1, options.input, first + 1, last);
  }
  return truth;
}

/// Records which rank runs on which device. Throws ResourceError if two share one without --tuning share-devices=on.
void place_ranks(InferJob& job) {
  auto const& communicator = job.communicator;
  communicator.together([&] { job.engine = engine_options(job.options); });
  auto const places = varve::place_ranks(communicator, job.engine.backend, job.options.share_devices == "on");
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
  std::vector<RankInput> inputs;
  job.communicator.together([&] { inputs = job.options.files.inputs(job.options.challenge); });
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
    if (job.communicator.is_root()) options.files.require_writable();
  });
  require_same_files(job);
  if (job.engine.batch) job.engine.batch = std::clamp<std::size_t>(job.num_samples(), 1, *job.engine.batch);
  job.report["input"] = {{"name", options.input},
                         {"first_sample", job.samples->first_sample() + 1},
                         {"samples", job.num_samples()},
                         {"repetitions", options.repeat_input}};
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

/// Opens the job's store and finds the samples that earlier runs have finished.
void find_finished(InferJob& job) {
  if (!job.has_journal()) {
    auto const& activations = job.options.activations; // may be larger than memory
    job.communicator.together([&] {
      if (!activations.empty()) job.store = RecordStore(std::filesystem::path(activations).parent_path());
    });
    job.left = find_left(job);
    return;
  }
  job.communicator.together(
      [&] { job.store = RecordStore(job.options.journal, job.communicator.rank(), job.communicator.size()); });
  resume(
      job.store, job.communicator, [&] { return describe_run(job.options, *job.samples); },
      [](std::string_view record, std::string const& place) { return batch_of_bytes(record, place).samples; });
  job.left = find_left(job);
  std::string text;
  for (auto const& found : job.communicator.gather(json_text(job.store.network())))
    if (text.empty() || text == "null") text = found;
  job.facts = Json::parse(job.communicator.broadcast(text));
  job.communicator.together([&] {
    for (char const* const name : {"layers", "inputs", "outputs", "edges"}) {
      auto const& facts = job.facts;
      if (facts.is_null() || (facts.is_object() && facts.value(name, Json()).is_number_unsigned())) continue;
      fail<InputError>("{} does not say how many {} its network has, expected a number", job.options.journal, name);
    }
  });
  job.report["journal"] = {{"name", job.options.journal},
                           {"samples_found", job.num_samples() - length_of(job.left)},
                           {"bytes_discarded", job.communicator.sum(job.store.num_discarded_bytes())}};
}

BatchRules batch_rules(InferJob const& job) {
  constexpr double max_seconds = 10.0; // longest batch with a journal: the work that a killed run loses
  bool const has_journal = !job.options.journal.empty();
  BatchRules rules;
  auto usual = job.communicator.size() > 1 || has_journal ? Schedule::dynamic : Schedule::fixed;
  if (job.splits_neurons()) usual = Schedule::together;
  rules.schedule = job.options.schedule.empty() ? usual : parse_schedule(job.options.schedule);
  rules.grain = job.engine.batch.value_or(grain_of(job.num_samples()));
  rules.one_grain = job.options.named.batch.has_value();
  if (has_journal || rules.schedule == Schedule::dynamic) rules.max_seconds = max_seconds;
  rules.are_alike = job.are_ranks_alike && has_own_memory(job.engine.backend) && !has_journal;
  // With fewer samples a GPU is no longer busy: few of them survive to the late layers, which then take as long for few
  // as for many. Unlike ranks need small batches.
  if (rules.are_alike) rules.least = SampleIndex{1} << 17U;
  return rules;
}

/// Prepares the network and plans for the largest batch that this rank can get: an equal share of the samples (all
/// samples if ranks split neurons), or as many as fit.
void prepare_for(InferJob const& job, Prepared& prepared) {
  auto& rules = prepared.rules = batch_rules(job);
  prepared.inference = prepare(*job.network, job.engine);
  auto const num_samples = job.num_samples();
  auto const num_shares = rules.schedule == Schedule::together ? 1 : static_cast<SampleIndex>(job.communicator.size());
  auto const share = capped_multiply(num_samples / num_shares / rules.grain + 1, rules.grain);
  auto const fit = samples_that_fit(*job.samples, input_bytes(job.options, job.ranks_on_host));
  auto const enough = max_samples_at_a_time(job.engine.backend);
  auto const most = rules.one_grain ? num_samples : std::min({num_samples, share, fit, enough});
  auto const entries = static_cast<double>(job.samples->num_entries()) * static_cast<double>(most) /
                       static_cast<double>(std::max<SampleIndex>(num_samples, 1));
  prepared.plan = prepared.inference->plan({most, static_cast<EdgeOffset>(entries), job.samples->has_one_value()});
  rules.most = prepared.plan.batch;
}

/// True if neurons may be split where whole layers do not fit the memory of a rank.
bool may_split(InferJob const& job) {
  bool const is_alone = job.communicator.size() == 1 || job.engine.engine != Engine::varve;
  return job.options.split == "auto" && job.options.schedule.empty() && !is_alone;
}

/// Prepares whole layers on each rank. False if the memory of some rank is too small and neurons shall be split
/// instead.
bool prepare_to_share_samples(InferJob& job, Prepared& prepared) {
  std::uint64_t lacks_memory = 0;
  job.engine.cuts_layers = !may_split(job); // strips are read for every batch; parts of all layers stay on the ranks
  job.communicator.together([&] {
    try {
      prepare_for(job, prepared);
    } catch (Error const& error) {
      bool const smaller_batch_helps = prepared.inference && job.options.named.batch;
      if (!may_split(job) || error.kind() != ErrorKind::resource || smaller_batch_helps) throw;
      lacks_memory = 1;
    }
  });
  return job.communicator.sum(lacks_memory) == 0;
}

/// Prepares a part of each layer on each rank. All ranks take the smallest of the batches that fit the ranks.
void prepare_to_split_neurons(InferJob& job, Prepared& prepared) {
  prepared.inference.reset(); // frees the memory of the first attempt
  job.engine.exchange = exchange_between_ranks(job.options.exchange == "host");
  job.engine.cuts_layers = true;
  job.communicator.together([&] { prepare_for(job, prepared); });
  prepared.plan.batch = std::ranges::min(job.communicator.gather_everywhere({prepared.plan.batch}));
  prepared.rules.most = prepared.plan.batch;
}

/// Prepares the network on all ranks: whole layers on each rank, or a part of each layer (--split neurons, or if whole
/// layers exceed the memory of a rank).
Prepared prepare_job(InferJob& job) {
  auto const num_ranks = static_cast<SampleIndex>(job.communicator.size());
  job.engine.expected_samples = std::min<std::size_t>((job.num_samples() + num_ranks - 1) / num_ranks,
                                                      job.engine.batch.value_or(job.num_samples()));
  Prepared prepared;
  bool const shares_samples = job.options.split != "neurons" && prepare_to_share_samples(job, prepared);
  if (!shares_samples) prepare_to_split_neurons(job, prepared);
  return prepared;
}

/// The true categories of all repetitions. Called at the end, when the samples are known to be few enough to repeat.
std::vector<SampleIndex> repeat_truth(InferJob const& job) {
  auto const repetitions = job.options.repeat_input;
  auto const num_samples = job.num_samples() / repetitions;
  std::vector<SampleIndex> all;
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (auto const sample : *job.truth) all.push_back(sample + repetition * num_samples);
  }
  return all;
}

/// Throws InputError, naming the journal, if a batch of it lacks wanted predictions, activations or digests, or has
/// those of other samples or outputs.
void require_fit(FinishedBatch const& batch, WantedOutputs wanted, SampleIndex first_sample, std::size_t num_outputs,
                 std::string const& journal) {
  auto const num_samples = batch.samples.second - batch.samples.first;
  auto const& activations = batch.activations;
  bool const has_predictions = !wanted.predictions || batch.predictions.size() == num_samples;
  bool const has_activations =
      !wanted.activations || (activations.num_samples() == num_samples && activations.num_neurons() == num_outputs &&
                              activations.first_sample == first_sample + batch.samples.first);
  bool const has_leaves = !wanted.digests || batch.leaves.size() == num_samples;
  if (has_predictions && has_activations && has_leaves) return;
  fail<InputError>("{}: the batch of the samples {} to {} has other {} than this run needs", journal,
                   batch.samples.first + 1, batch.samples.second,
                   !has_predictions   ? "predictions"
                   : !has_activations ? "activations"
                                      : "digests");
}

/// Collects the batches of all ranks on rank 0, in order, and writes activations to their file as they come: one batch
/// with the other results of all samples.
FinishedBatch collect(InferJob const& job) {
  FinishedBatch outcome;
  job.communicator.together([&] {
    auto const num_outputs = job.facts["outputs"].get<std::size_t>();
    std::unique_ptr<SampleWriter> writer;
    if (job.communicator.is_root() && !job.options.activations.empty()) {
      SampleSet none; // appended first, so that a run without samples writes a valid file, too
      none.first_sample = job.samples->first_sample();
      none.matrix.num_columns = num_outputs;
      writer = create_sample_file(job.options.activations, none.num_neurons());
      writer->append(none);
    }
    for_each_in_order(job.communicator, job.store, [&](std::string const& record) {
      auto const batch = batch_of_bytes(record, "finished batches");
      require_fit(batch, job.options.wanted(), job.samples->first_sample(), num_outputs, job.options.journal);
      outcome.live_samples.insert(outcome.live_samples.end(), batch.live_samples.begin(), batch.live_samples.end());
      outcome.predictions.insert(outcome.predictions.end(), batch.predictions.begin(), batch.predictions.end());
      outcome.leaves.insert(outcome.leaves.end(), batch.leaves.begin(), batch.leaves.end());
      outcome.activation_hash += batch.activation_hash;
      outcome.live_edges += batch.live_edges;
      if (writer) writer->append(batch.activations);
    });
    if (writer) writer->commit();
  });
  return outcome;
}

void write_lists(InferOptions const& options, FinishedBatch const& outcome, SampleIndex first_sample) {
  if (!options.categories.empty()) write_categories(options.categories, outcome.live_samples);
  if (options.predictions.empty()) return;
  std::vector<SampleIndex> numbers(outcome.predictions.size());
  std::iota(numbers.begin(), numbers.end(), first_sample);
  write_predictions(options.predictions, numbers, outcome.predictions);
}

void write_receipt(InferJob const& job, std::vector<SampleLeaves> leaves) {
  if (job.options.receipt.empty()) return;
  InferenceReceipt receipt;
  receipt.network = job.digested->digest();
  receipt.precision = job.options.precision;
  receipt.edge_order = job.options.named.edge_order;
  bool const reduces = job.engine.engine == Engine::varve;
  auto const reductions = reduces ? job.engine.reductions : Reductions();
  if (reductions.merge_neurons) receipt.reductions.emplace_back("merge_neurons");
  if (reductions.fold_constants) receipt.reductions.emplace_back("fold_constants");
  if (reductions.drop_unread) receipt.reductions.emplace_back("drop_unread");
  receipt.first_sample = job.samples->first_sample();
  receipt.leaves = std::move(leaves);
  receipt.made_by = report_head("varve infer");
  receipt.made_by["backend"] = job.options.backend;
  receipt.made_by["ranks"] = job.communicator.size();
  receipt.seal();
  varve::write_receipt(job.options.receipt, receipt);
}

/// Collects the results of all ranks, writes all outputs and prints the result. Returns the exit code, on every rank.
int finish_job(InferJob& job, Stopwatch const& total_time) {
  Stopwatch const write_time;
  job.communicator.together(require_unchanged_inputs);
  auto outcome = collect(job);
  int exit_code = 0;
  job.communicator.on_root([&] {
    write_lists(job.options, outcome, job.samples->first_sample());
    write_receipt(job, std::move(outcome.leaves));
    job.report["phases"]["write"] = write_time.seconds();
    job.report.update({{"survivors", outcome.live_samples.size()},
                       {"activation_hash", fmt::format("{:016x}", outcome.activation_hash)},
                       {"live_edges", outcome.live_edges}});
    bool const matches = !job.truth || add_comparison(job.report, repeat_truth(job), outcome.live_samples);
    exit_code = matches ? 0 : 1;
    job.report["phases"]["total"] = total_time.seconds();
    if (!job.options.report.empty()) write_report(job.options.report, job.report);
    print_result(job.report); // last: a failure to print loses no output
  });
  return static_cast<int>(job.communicator.sum(static_cast<std::uint64_t>(exit_code)));
}

/// True if a stop signal has come to this rank, or, with Schedule::together, to any rank.
bool has_to_stop(InferJob const& job) {
  double const has_come = StopSignal::has_come() ? 1.0 : 0.0;
  return (job.splits_neurons() ? job.communicator.max(has_come) : has_come) > 0.0;
}

/// Adds the network to the report and prints what will be run. Throws if standard output cannot be written, so that
/// nothing is run then.
void say_start(InferJob& job) {
  job.report["network"] = {{"name", job.network->name()}};
  job.report["network"].update(job.facts);
  job.communicator.on_root([&] {
    print_start(job.report);
    flush_output();
  });
}

/// Begins to read the samples, if they are all this rank's and so few that they will make one batch: preparing the
/// network leaves threads idle. Not with a journal, which keeps the batches before samples that cannot be read.
void read_samples_ahead(InferJob& job) {
  auto const& options = job.options;
  auto const num_samples = job.num_samples();
  bool const is_one_batch = job.communicator.size() == 1 && options.journal.empty() && !options.named.batch &&
                            num_samples <= max_samples_at_a_time(job.engine.backend) &&
                            samples_that_fit(*job.samples, input_bytes(options, job.ranks_on_host)) == num_samples;
  if (is_one_batch) job.samples = read_ahead(std::move(job.samples), sample_memory_for(job.engine));
}

/// Prepares the network and runs the samples that are left.
void run_left(InferJob& job) {
  auto const& communicator = job.communicator;
  read_samples_ahead(job);
  Stopwatch const prepare_time;
  Prepared const prepared = prepare_job(job);
  communicator.together([&] {
    job.facts = shape_facts(*prepared.inference);
    if (job.has_journal()) job.store.begin(job.facts);
  });
  job.report["phases"]["prepare"] = communicator.max(prepare_time.seconds());
  job.report.update({{"engine", prepared.plan.engine}, {"plan", to_json(prepared.plan)}});
  add_rewrites(job.report, prepared.plan);
  say_start(job);

  auto const num_found = job.num_samples() - length_of(job.left);
  auto const progress = communicator.is_root() ? terminal_progress("inferring samples") : Progress();
  BatchQueue queue(communicator, job.left, prepared.rules);
  bool const keeps_batches = !job.splits_neurons() || communicator.is_root(); // else all ranks have the same
  auto const keep = [&](FinishedBatch const& batch) {
    if (keeps_batches) job.store.add(batch.samples, to_bytes(batch));
  };
  auto const wanted = keeps_batches ? job.options.wanted() : WantedOutputs{};
  RankTimes times;
  Stopwatch const run_time;
  communicator.together([&] {
    times = run_batches(*prepared.inference, *job.samples, queue, keep, prepared.plan.batch, wanted, [&] {
      if (progress) progress(num_found + queue.num_taken(), job.num_samples());
      return !job.has_journal() || !has_to_stop(job);
    });
  });
  if (progress) progress(job.num_samples(), job.num_samples());
  auto const& later = prepared.inference->plan();
  if (to_text(later) != to_text(prepared.plan)) job.report["later_plan"] = to_json(later);
  add_run(job.report, prepared.rules.schedule, run_time.seconds(), gather(communicator, times));
}

int infer(InferOptions const& options) {
  Stopwatch const total_time;
  std::optional<StopSignal> stop_signal;
  if (!options.journal.empty()) stop_signal.emplace();

  InferJob job{.options = options};
  job.report.update({{"phases", Json::object()}, {"truth", "none"}});
  check_files(options.files.roles(), job.communicator);
  place_ranks(job);
  open_files(job);
  find_finished(job);
  job.report["phases"]["read"] = total_time.seconds();

  bool const is_all_known = job.left.empty() && !job.facts.is_null();
  if (is_all_known) {
    say_start(job);
  } else {
    run_left(job);
  }
  auto const num_finished = job.communicator.sum(std::uint64_t{length_of(job.store.ranges())});
  if (num_finished == job.num_samples()) return finish_job(job, total_time);
  VARVE_REQUIRE(job.has_journal(), "a run without a journal ends before its last sample");
  return say_stopped(job.communicator.is_root(), "the run", num_finished, job.num_samples(), "samples",
                     options.journal);
}

} // namespace

void add_infer(CLI::App& command_line, Action& action) {
  auto [command, options] = add_command<InferOptions>(
      command_line, action, "infer", "Run samples through a network and say which survive", infer, true, true);
  add_infer_options(command, options);
}

} // namespace varve
