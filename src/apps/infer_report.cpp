#include "apps/infer_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

namespace varve {
namespace {

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0.0;
  std::ranges::sort(numbers);
  std::size_t const middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2.0;
}

double sum(std::vector<RankTimes> const& ranks, double RankTimes::*field) {
  return std::accumulate(ranks.begin(), ranks.end(), 0.0,
                         [&](double total, RankTimes const& rank) { return total + rank.*field; });
}

double ratio(double count, double seconds) { return seconds > 0.0 ? count / seconds : 0.0; }

/// The first few sample numbers (from 1) for a sentence: "3, 17, 20, ... (12 in all)".
std::string first_few(std::vector<SampleIndex> const& samples) {
  constexpr std::size_t few = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(few, samples.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", samples[i] + 1);
  return samples.size() > few ? fmt::format("{}, ... ({} in all)", text, samples.size()) : text;
}

/// Traffic of samples, summed over all ranks. The waiting time is the longest of any rank: until samples had been read
/// and staged, and for samples that were not staged in time.
Json streamed_samples(std::vector<RankTimes> const& ranks) {
  double wait = 0.0;
  for (auto const& rank : ranks) wait = std::max(wait, rank.wait_seconds + rank.upload_seconds);
  double const bytes = sum(ranks, &RankTimes::staged_bytes);
  double const seconds = sum(ranks, &RankTimes::stage_seconds);
  return {{"wait_seconds", wait},
          {"read_seconds", sum(ranks, &RankTimes::read_seconds)},
          {"stage_seconds", seconds},
          {"copied_bytes", bytes},
          {"bytes_per_second", ratio(bytes, seconds)}};
}

/// Traffic of streamed weights, summed over all ranks. The waiting time is the longest of any rank.
Json streamed_weights(std::vector<RankTimes> const& ranks) {
  double const bytes = sum(ranks, &RankTimes::weight_bytes);
  double const seconds = sum(ranks, &RankTimes::weight_copy_seconds);
  auto const wait = &RankTimes::weight_wait_seconds;
  return {{"wait_seconds", std::ranges::max(ranks, {}, wait).*wait},
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
  double const seconds = median(all);
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

} // namespace

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
  auto const longest = [&](double RankTimes::*time) { return std::ranges::max(ranks, {}, time).*time; };
  auto const mean = sum(ranks, &RankTimes::busy_seconds) / static_cast<double>(ranks.size());
  report["run"] = {{"schedule", to_string(schedule)},
                   {"seconds", seconds},
                   {"imbalance", mean > 0.0 ? longest(&RankTimes::busy_seconds) / mean : 1.0},
                   {"ranks", each}};
  report["phases"].update({{"wait", longest(&RankTimes::wait_seconds)},
                           {"upload", longest(&RankTimes::upload_seconds)},
                           {"collect", longest(&RankTimes::collect_seconds)},
                           {"record", longest(&RankTimes::record_seconds)}});
  add_rates(report, schedule, ranks);
  report["streamed_samples"] = streamed_samples(ranks);
  if (report["plan"].contains("stream")) report["streamed_weights"] = streamed_weights(ranks);
}

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

} // namespace varve
