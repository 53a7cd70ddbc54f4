#include "apps/infer_report.hpp"

#include "apps/command.hpp"
#include "apps/reductions_report.hpp"
#include "core/version.hpp"
#include "io/output_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>

namespace varve {
namespace {

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0.0;
  std::ranges::sort(numbers);
  std::size_t const middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2.0;
}

/// The first few sample numbers (from 1) for a sentence: "3, 17, 20, ... (12 in all)".
std::string first_few(std::vector<SampleIndex> const& samples) {
  constexpr std::size_t few = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(few, samples.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", samples[i] + 1);
  return samples.size() > few ? fmt::format("{}, ... ({} in all)", text, samples.size()) : text;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

} // namespace

InferReport::InferReport() {
  json_["program"] = "varve infer";
  json_["version"] = provenance.version;
  json_["git_commit"] = provenance.git_commit;
  json_["compiler"] = provenance.compiler;
  json_["build_type"] = provenance.build_type;
  json_["kokkos_version"] = provenance.kokkos_version;
  json_["host"] = host_name();
  json_["date"] = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
  json_["phases"] = nlohmann::ordered_json::object();
  json_["truth"] = "none";
}

void InferReport::phase(std::string const& name, double seconds) { json_["phases"][name] = seconds; }

void InferReport::network(NetworkSource const& source, Inference const& inference) {
  json_["network"] = {{"name", source.name()},
                      {"layers", inference.num_layers()},
                      {"inputs", inference.num_inputs()},
                      {"outputs", inference.num_outputs()},
                      {"edges", inference.num_edges()}};
}

void InferReport::samples(std::string const& input, SampleRange range, int num_ranks) {
  json_["input"] = {{"name", input}, {"first_sample", range.first + 1}, {"samples", range.second - range.first}};
  json_["ranks"] = num_ranks;
}

void InferReport::plan(PlanSummary const& plan, std::string const& backend, std::string const& precision,
                       std::vector<std::string> const& devices) {
  json_["backend"] = backend;
  json_["precision"] = precision;
  json_["engine"] = plan.engine;
  json_["devices"] = devices;
  auto choices = nlohmann::ordered_json::array();
  for (auto const& choice : plan.choices) choices.push_back(describe(choice));
  if (!plan.method.empty()) choices.push_back(plan.method);
  json_["plan"] = {{"choices", choices},
                   {"batch", plan.batch},
                   {"tile_samples", plan.tile_samples},
                   {"weight_bytes", plan.weight_bytes},
                   {"panel_bytes", plan.panel_bytes},
                   {"sample_bytes", plan.sample_bytes}};
  if (auto const found = describe_reductions(plan); !found.empty()) json_["reductions"] = found;
}

void InferReport::result(std::vector<double> loop_seconds, std::vector<SampleIndex> const& live_samples,
                         std::uint64_t activation_hash, double live_edges) {
  double const seconds = median(loop_seconds);
  double const edges = json_["network"]["edges"].get<double>() * json_["input"]["samples"].get<double>();
  json_["loop_seconds"] = seconds;
  json_["loop_seconds_all"] = loop_seconds;
  json_["survivors"] = live_samples.size();
  json_["activation_hash"] = fmt::format("{:016x}", activation_hash);
  json_["edges_per_second"] = seconds > 0.0 ? edges / seconds : 0.0;
  json_["live_edges"] = live_edges;
  json_["live_edges_per_second"] = seconds > 0.0 ? live_edges / seconds : 0.0;
  json_["phases"]["loop"] = seconds;
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

void InferReport::print_plan() const {
  auto const& network = json_["network"];
  auto const& plan = json_["plan"];
  fmt::print("network   {}: {} layers, {} inputs, {} outputs, {}\n", network["name"].get<std::string>(),
             network["layers"].get<std::size_t>(), network["inputs"].get<std::size_t>(),
             network["outputs"].get<std::size_t>(), with_prefix(network["edges"].get<double>(), "edges"));
  auto const first = json_["input"]["first_sample"].get<std::size_t>();
  auto const count = json_["input"]["samples"].get<std::size_t>();
  fmt::print("input     {}: {} samples ({}:{})\n", json_["input"]["name"].get<std::string>(), count, first,
             first + count - 1);
  fmt::print("engine    {} on {}: {}, {}; {} rank{}\n", json_["engine"].get<std::string>(),
             json_["backend"].get<std::string>(), json_["devices"][0].get<std::string>(),
             json_["precision"].get<std::string>(), json_["ranks"].get<int>(),
             json_["ranks"].get<int>() == 1 ? "" : "s");
  print_reductions(json_.value("reductions", nlohmann::ordered_json()));
  for (auto const& choice : plan["choices"]) fmt::print("plan      {}\n", choice.get<std::string>());
  fmt::print("memory    weights {}, panel {}, samples {}; {} samples at a time\n",
             with_prefix(plan["weight_bytes"].get<double>(), "B"), with_prefix(plan["panel_bytes"].get<double>(), "B"),
             with_prefix(plan["sample_bytes"].get<double>(), "B"), plan["batch"].get<std::size_t>());
}

void InferReport::print_result() const {
  std::string phases;
  for (auto const& [name, seconds] : json_["phases"].items()) {
    phases += fmt::format("{}{} {}", phases.empty() ? "" : ", ", name, readable_seconds(seconds.get<double>()));
  }
  fmt::print("time      {}\n", phases);
  fmt::print("rate      {}, live {}\n", with_prefix(json_["edges_per_second"].get<double>(), "edges/s"),
             with_prefix(json_["live_edges_per_second"].get<double>(), "edges/s"));
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
  file.write(json_.dump(2) + "\n");
  file.commit();
}

} // namespace varve
