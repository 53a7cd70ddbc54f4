#include "apps/infer_report.hpp"

#include "apps/command.hpp"
#include "apps/reductions_report.hpp"
#include "apps/report_head.hpp"
#include "core/printable.hpp"
#include "io/json_text.hpp"
#include "io/output_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
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

/// The first few sample numbers (from 1) for a sentence: "3, 17, 20, ... (12 in all)".
std::string first_few(std::vector<SampleIndex> const& samples) {
  constexpr std::size_t few = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(few, samples.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", samples[i] + 1);
  return samples.size() > few ? fmt::format("{}, ... ({} in all)", text, samples.size()) : text;
}

} // namespace

InferReport::InferReport() : json_(report_head("varve infer")) {
  json_["phases"] = nlohmann::ordered_json::object();
  json_["truth"] = "none";
}

void InferReport::phase(std::string const& name, double seconds) { json_["phases"][name] = seconds; }

void InferReport::samples(std::string const& input, SampleIndex first_sample, SampleIndex num_samples,
                          std::size_t repetitions) {
  json_["input"] = {
      {"name", input}, {"first_sample", first_sample + 1}, {"samples", num_samples}, {"repetitions", repetitions}};
}

void InferReport::devices(std::string const& backend, std::string const& precision,
                          std::vector<RankDevice> const& ranks) {
  json_["ranks"] = ranks.size();
  json_["backend"] = backend;
  json_["precision"] = precision;
  for (auto const& rank : ranks) {
    json_["devices"].push_back(rank.device);
    json_["hosts"].push_back(rank.host);
  }
}

void InferReport::network(std::string const& name, nlohmann::ordered_json const& facts) {
  json_["network"] = {{"name", name}};
  if (!facts.is_null()) json_["network"].update(facts);
}

void InferReport::remark(std::string const& sentence) { json_["remarks"].push_back(sentence); }

void InferReport::plan(Plan const& plan) {
  json_["engine"] = plan.engine;
  json_["plan"] = to_json(plan);
  if (auto const found = describe_reductions(plan); !found.empty()) json_["reductions"] = found;
  if (!orders_edges(plan)) return;
  json_["edge_order"] = as_json(*plan.edge_order);
  json_["edge_order"]["description"] = to_text(*plan.edge_order);
}

void InferReport::later_plan(Plan const& plan) { json_["later_plan"] = to_json(plan); }

void InferReport::journal(std::string const& path, SampleIndex num_found, std::uint64_t num_discarded_bytes) {
  json_["journal"] = {{"name", path}, {"samples_found", num_found}, {"bytes_discarded", num_discarded_bytes}};
}

void InferReport::run(Schedule schedule, double seconds, std::vector<RankTimes> const& ranks) {
  if (ranks.empty()) return;
  std::vector<double> busy;
  auto each = nlohmann::ordered_json::array();
  for (auto const& rank : ranks) {
    busy.push_back(rank.busy_seconds);
    each.push_back({{"batches", rank.num_batches},
                    {"samples", rank.num_samples},
                    {"busy_seconds", rank.busy_seconds},
                    {"idle_seconds", std::max(0.0, seconds - rank.busy_seconds)},
                    {"wait_seconds", rank.wait_seconds}});
    if (schedule != Schedule::together) continue;
    each.back()["exchange_seconds"] = rank.exchange_seconds;
    each.back()["exchange_bytes"] = rank.exchange_bytes;
  }
  auto const mean = std::accumulate(busy.begin(), busy.end(), 0.0) / static_cast<double>(busy.size());
  json_["run"] = {{"schedule", to_string(schedule)},
                  {"seconds", seconds},
                  {"imbalance", mean > 0.0 ? std::ranges::max(busy) / mean : 1.0},
                  {"ranks", each}};
  for (auto const& [name, time] :
       {std::pair("wait", &RankTimes::wait_seconds), std::pair("upload", &RankTimes::upload_seconds),
        std::pair("collect", &RankTimes::collect_seconds), std::pair("record", &RankTimes::record_seconds)}) {
    phase(name, std::ranges::max(ranks, {}, time).*time);
  }
  rates(schedule, ranks);
  streamed_samples(ranks);
  if (json_["plan"].contains("stream")) streamed_weights(ranks);
}

/// Traffic of samples, summed over all ranks. The waiting time is the longest of any rank: until samples had been read
/// and staged, and for samples that were not staged in time.
void InferReport::streamed_samples(std::vector<RankTimes> const& ranks) {
  double wait = 0.0;
  for (auto const& rank : ranks) wait = std::max(wait, rank.wait_seconds + rank.upload_seconds);
  double const bytes = sum(ranks, &RankTimes::staged_bytes);
  double const seconds = sum(ranks, &RankTimes::stage_seconds);
  json_["streamed_samples"] = {{"wait_seconds", wait},
                               {"read_seconds", sum(ranks, &RankTimes::read_seconds)},
                               {"stage_seconds", seconds},
                               {"copied_bytes", bytes},
                               {"bytes_per_second", seconds > 0.0 ? bytes / seconds : 0.0}};
}

/// Traffic of streamed weights, summed over all ranks. The waiting time is the longest of any rank.
void InferReport::streamed_weights(std::vector<RankTimes> const& ranks) {
  double const bytes = sum(ranks, &RankTimes::weight_bytes);
  double const seconds = sum(ranks, &RankTimes::weight_copy_seconds);
  auto const wait = &RankTimes::weight_wait_seconds;
  json_["streamed_weights"] = {{"wait_seconds", std::ranges::max(ranks, {}, wait).*wait},
                               {"copied_bytes", bytes},
                               {"copy_seconds", seconds},
                               {"bytes_per_second", seconds > 0.0 ? bytes / seconds : 0.0},
                               {"make_seconds", sum(ranks, &RankTimes::weight_make_seconds)}};
}

/// Records rates. The time of the layer loop is that of the rank that spends most time in it. With Schedule::together,
/// every rank has taken all samples.
void InferReport::rates(Schedule schedule, std::vector<RankTimes> const& ranks) {
  std::vector<double> all;
  SampleIndex num_samples = 0;
  double live_edges = 0.0;
  for (auto const& rank : ranks) {
    all.resize(std::max(all.size(), rank.loop_seconds.size()), 0.0);
    for (std::size_t repetition = 0; repetition < rank.loop_seconds.size(); ++repetition) {
      all[repetition] = std::max(all[repetition], rank.loop_seconds[repetition]);
    }
    if (schedule == Schedule::together && &rank != &ranks.front()) continue;
    num_samples += rank.num_samples;
    live_edges += rank.live_edges;
  }
  double const seconds = median(all);
  double const edges = json_["network"]["edges"].get<double>() * static_cast<double>(num_samples);
  json_["loop_seconds"] = seconds;
  json_["loop_seconds_all"] = all;
  json_["edges_per_second"] = seconds > 0.0 ? edges / seconds : 0.0;
  json_["live_edges_per_second"] = seconds > 0.0 ? live_edges / seconds : 0.0;
  phase("loop", seconds);
}

void InferReport::result(std::size_t num_live_samples, std::uint64_t activation_hash, double live_edges) {
  json_["survivors"] = num_live_samples;
  json_["activation_hash"] = fmt::format("{:016x}", activation_hash);
  json_["live_edges"] = live_edges;
}

bool InferReport::compare(std::vector<SampleIndex> const& truth, std::vector<SampleIndex> const& live_samples) {
  std::vector<SampleIndex> missing;
  std::vector<SampleIndex> unexpected;
  std::ranges::set_difference(truth, live_samples, std::back_inserter(missing));
  std::ranges::set_difference(live_samples, truth, std::back_inserter(unexpected));
  bool const matches = missing.empty() && unexpected.empty();
  json_["truth"] = matches ? "match" : "differ";
  if (!missing.empty()) json_["truth_missing"] = first_few(missing);
  if (!unexpected.empty()) json_["truth_unexpected"] = first_few(unexpected);
  return matches;
}

void InferReport::print_start() const {
  auto const& network = json_["network"];
  fmt::print("network   {}: {} layers, {} inputs, {} outputs, {}\n", printable(network["name"].get<std::string>()),
             network["layers"].get<std::size_t>(), network["inputs"].get<std::size_t>(),
             network["outputs"].get<std::size_t>(), with_prefix(network["edges"].get<double>(), "edges"));
  auto const first = json_["input"]["first_sample"].get<std::size_t>();
  auto const count = json_["input"]["samples"].get<std::size_t>();
  auto const repetitions = json_["input"]["repetitions"].get<std::size_t>();
  fmt::print("input     {}: {} samples ({}:{}{})\n", printable(json_["input"]["name"].get<std::string>()), count, first,
             first + count - 1, repetitions == 1 ? "" : fmt::format(", {} times over", repetitions));
  print_devices();
  if (json_.contains("journal")) print_journal();
  if (json_.contains("plan")) print_plan();
}

void InferReport::print_journal() const {
  auto const& journal = json_["journal"];
  auto const discarded = journal["bytes_discarded"].get<std::uint64_t>();
  fmt::print("journal   {}: {} samples found finished{}\n", printable(journal["name"].get<std::string>()),
             journal["samples_found"].get<SampleIndex>(),
             discarded == 0 ? "" : fmt::format(", {} bytes of a half-written record discarded", discarded));
}

void InferReport::print_plan() const {
  auto const& plan = json_["plan"];
  auto const num_ranks = json_["ranks"].get<std::size_t>();
  fmt::print("engine    {} on {}: {}, {}; {} rank{}\n", json_["engine"].get<std::string>(),
             json_["backend"].get<std::string>(), json_["devices"][0].get<std::string>(),
             json_["precision"].get<std::string>(), num_ranks, num_ranks == 1 ? "" : "s");
  print_reductions(json_.value("reductions", nlohmann::ordered_json()));
  if (json_.contains("edge_order")) fmt::print("ordered   {}\n", json_["edge_order"]["description"].get<std::string>());
  for (auto const& choice : plan["choices"]) fmt::print("plan      {}\n", choice.get<std::string>());
  fmt::print("memory    weights {}, panel {}, samples {}; {} samples at a time\n",
             with_prefix(plan["weight_bytes"].get<double>(), "B"), with_prefix(plan["panel_bytes"].get<double>(), "B"),
             with_prefix(plan["sample_bytes"].get<double>(), "B"), plan["batch"].get<std::size_t>());
}

void InferReport::print_devices() const {
  constexpr std::size_t most = 16; // lines on the terminal; the JSON report has all ranks
  auto const num_ranks = json_["ranks"].get<std::size_t>();
  for (std::size_t rank = 0; num_ranks > 1 && rank < std::min(num_ranks, most); ++rank) {
    fmt::print("rank      {} on {}: {}{}\n", rank, json_["hosts"][rank].get<std::string>(),
               json_["devices"][rank].get<std::string>(), rank + 1 == most && num_ranks > most ? ", ..." : "");
  }
}

void InferReport::print_ranks() const {
  auto const& run = json_["run"];
  std::string batches;
  for (auto const& rank : run["ranks"]) {
    batches += fmt::format("{}{}", batches.empty() ? "" : ", ", rank["samples"].get<SampleIndex>());
  }
  fmt::print("ranks     {} schedule, samples {}; busiest {:.3g} of the mean\n", run["schedule"].get<std::string>(),
             batches, run["imbalance"].get<double>());
}

void InferReport::print_streamed_samples() const {
  auto const& samples = json_["streamed_samples"];
  auto const number = [&](char const* name) { return samples[name].get<double>(); };
  fmt::print("samples   waited for {}; while others were computed, read in {}, staged in {}: {} copied, {}\n",
             readable_seconds(number("wait_seconds")), readable_seconds(number("read_seconds")),
             readable_seconds(number("stage_seconds")), with_prefix(number("copied_bytes"), "B"),
             with_prefix(number("bytes_per_second"), "B/s"));
}

void InferReport::print_streamed_weights() const {
  auto const& weights = json_["streamed_weights"];
  auto const number = [&](char const* name) { return weights[name].get<double>(); };
  fmt::print("weights   waited for {}; copied {} in {}, {}", readable_seconds(number("wait_seconds")),
             with_prefix(number("copied_bytes"), "B"), readable_seconds(number("copy_seconds")),
             with_prefix(number("bytes_per_second"), "B/s"));
  if (number("make_seconds") > 0.0)
    fmt::print("; read and packed again in {}", readable_seconds(number("make_seconds")));
  fmt::print("\n");
}

void InferReport::print_exchange() const {
  auto const& ranks = json_["run"]["ranks"];
  double seconds = 0.0;
  double bytes = 0.0;
  for (auto const& rank : ranks) {
    seconds = std::max(seconds, rank["exchange_seconds"].get<double>());
    bytes = std::max(bytes, rank["exchange_bytes"].get<double>());
  }
  fmt::print("exchange  {} of the loop, waiting for other ranks included; up to {} received by a rank\n",
             readable_seconds(seconds), with_prefix(bytes, "B"));
}

void InferReport::print_result() const {
  std::string phases;
  for (auto const& [name, seconds] : json_["phases"].items()) {
    phases += fmt::format("{}{} {}", phases.empty() ? "" : ", ", name, readable_seconds(seconds.get<double>()));
  }
  fmt::print("time      {}\n", phases);
  if (json_.contains("later_plan")) {
    for (auto const& choice : json_["later_plan"]["choices"]) fmt::print("replanned {}\n", choice.get<std::string>());
  }
  if (json_.contains("run") && json_["ranks"] > 1) print_ranks();
  if (json_.contains("streamed_samples")) print_streamed_samples();
  if (json_.contains("streamed_weights")) print_streamed_weights();
  if (json_.contains("run") && json_["run"]["schedule"] == to_string(Schedule::together)) print_exchange();
  if (json_.contains("edges_per_second")) {
    fmt::print("rate      {}, live {}\n", with_prefix(json_["edges_per_second"].get<double>(), "edges/s"),
               with_prefix(json_["live_edges_per_second"].get<double>(), "edges/s"));
  }
  fmt::print("survivors {}   activations {}\n", json_["survivors"].get<std::size_t>(),
             json_["activation_hash"].get<std::string>());
  auto const truth = json_["truth"].get<std::string>();
  if (truth == "none") return;
  fmt::print("truth: {}\n", truth);
  if (json_.contains("truth_missing"))
    fmt::print("  in the truth, but not alive here: {}\n", json_["truth_missing"].get<std::string>());
  if (json_.contains("truth_unexpected"))
    fmt::print("  alive here, but not in the truth: {}\n", json_["truth_unexpected"].get<std::string>());
}

void InferReport::write(std::string const& path) const {
  OutputFile file(path);
  file.write(json_text(json_, 2) + "\n");
  file.commit();
}

} // namespace varve
