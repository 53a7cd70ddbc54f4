#include "apps/benchmark_record.hpp"

#include "apps/command.hpp"
#include "apps/report_head.hpp"
#include "apps/timings.hpp"
#include "core/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> seconds_of(std::vector<RunTimes> const& times, double RunTimes::*which) {
  std::vector<double> seconds;
  for (auto const& one : times) seconds.push_back(one.*which);
  return seconds;
}

/// Rates of a number of things, by a summary of seconds: what half, 95 % and 99 % of the runs reach at least.
Json rates(double count, Json const& summary) {
  auto const rate = [&](char const* percentile) {
    double const seconds = summary[percentile].get<double>();
    return seconds > 0.0 ? Json(count / seconds) : Json();
  };
  return {{"p50", rate("p50")}, {"p95", rate("p95")}, {"p99", rate("p99")}};
}

Json describe(ContenderVerdict const& verdict) {
  return {{"right", verdict.is_right}, {"way", verdict.way}, {"samples", verdict.num_samples}};
}

Json describe_setup(Setup const& setup) {
  auto const& options = setup.options;
  auto formats = Json::array();
  for (auto const format : options.formats) formats.push_back(to_string(format));
  return {{"backend", to_string(setup.backend)},
          {"device", device_name(setup.backend)},
          {"engine", to_string(options.engine)},
          {"precision", options.precision == Precision::double_precision ? "double" : "float"},
          {"reductions", setup.reductions},
          {"formats", formats},
          {"kernel", options.kernel ? Json(to_string(*options.kernel)) : Json("auto")},
          {"asked_batch", options.batch ? Json(*options.batch) : Json()},
          {"device_memory_limit", options.device_memory_limit ? Json(*options.device_memory_limit) : Json()}};
}

Json describe_network(NetworkSource const& network, Inference const& inference) {
  return {{"name", network.name()},
          {"layers", inference.num_layers()},
          {"inputs", inference.num_inputs()},
          {"outputs", inference.num_outputs()},
          {"edges", inference.num_edges()}};
}

} // namespace

nlohmann::ordered_json summary_of(std::vector<double> const& seconds) {
  auto sorted = seconds;
  std::ranges::sort(sorted);
  auto const timings = summarize(seconds);
  return {{"median", timings.median},     {"spread", timings.spread},      {"min", sorted.front()},
          {"p50", quantile(sorted, 0.5)}, {"p95", quantile(sorted, 0.95)}, {"p99", quantile(sorted, 0.99)},
          {"measurements", sorted.size()}};
}

nlohmann::ordered_json begin_record(RecordHead const& head, std::string const& kind) {
  Json record = report_head("varve benchmark");
  record["record"] = kind;
  record["record_version"] = 1;
  record["suite"] = head.suite;
  record["case"] = head.case_name;
  record["about"] = head.about;
  record["machine"] = head.machine;
  record["options"] = head.options;
  return record;
}

nlohmann::ordered_json describe(RecordHead const& head, BenchmarkContender& contender, NetworkSource const& network,
                                SampleBatch const& samples, ContenderVerdict const& verdict) {
  Json record = begin_record(head, "inference");
  record["setup"] = describe_setup(contender.setup());
  record["network"] = describe_network(network, contender.inference());
  record["samples"] = samples.num_samples();
  record["entries"] = samples.num_entries();
  record["check"] = describe(verdict);
  record["activation_hash"] = fmt::format("{:016x}", contender.activation_hash());
  record["survivors"] = contender.num_live();
  record["prepare_seconds"] = contender.prepare_seconds();
  record["prepared_each_time"] = contender.is_prepared_each_time();
  record["plan"] = to_json(contender.plan());
  auto const loop = seconds_of(contender.times(), &RunTimes::loop_seconds);
  auto const call = seconds_of(contender.times(), &RunTimes::call_seconds);
  record["loop_seconds"] = summary_of(loop);
  record["call_seconds"] = summary_of(call);
  double const edges = record["network"]["edges"].get<double>() * static_cast<double>(samples.num_samples());
  record["throughput"] = {
      {"samples_per_second", rates(static_cast<double>(samples.num_samples()), record["call_seconds"])},
      {"loop_samples_per_second", rates(static_cast<double>(samples.num_samples()), record["loop_seconds"])},
      {"loop_edges_per_second", rates(edges, record["loop_seconds"])},
      {"loop_fma_per_second", rates(contender.live_edges(), record["loop_seconds"])}};
  record["fma"] = contender.live_edges();
  record["loop_seconds_all"] = loop;
  record["call_seconds_all"] = call;
  return record;
}

void add_steps(nlohmann::ordered_json& record, std::vector<StepMeasurement> const& steps, Ceilings const& ceilings) {
  record["ceilings"] = as_json(ceilings);
  record["steps"] = Json::array();
  for (auto const& measured : steps) record["steps"].push_back(as_json(measured));
}

void print_columns() {
  fmt::print("{:28} {:7} {:5} {:>6} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>10}  {}\n", "case", "backend", "work",
             "samples", "loop", "spread", "call p50", "p95", "p99", "samples/s", "fma/s", "checked by");
}

void print_record(nlohmann::ordered_json const& record) {
  auto const& setup = record["setup"];
  auto const& loop = record["loop_seconds"];
  auto const& call = record["call_seconds"];
  auto const seconds = [](Json const& summary, char const* name) {
    return readable_seconds(summary[name].get<double>());
  };
  fmt::print("{:28} {:7} {:5} {:>6} {:>9} {:>6.1f} % {:>9} {:>9} {:>9} {:>9} {:>10}  {}\n",
             record["case"].get<std::string>(), setup["backend"].get<std::string>(),
             setup["reductions"].get<std::string>(), record["samples"].get<std::size_t>(), seconds(loop, "median"),
             100.0 * loop["spread"].get<double>(), seconds(call, "p50"), seconds(call, "p95"), seconds(call, "p99"),
             with_prefix(record["throughput"]["samples_per_second"]["p50"].get<double>(), ""),
             with_prefix(record["throughput"]["loop_fma_per_second"]["p50"].get<double>(), ""),
             record["check"]["way"].get<std::string>().starts_with("all last activations have the bits of the ref")
                 ? fmt::format("reference's bits ({} samples)", record["check"]["samples"].get<std::size_t>())
                 : fmt::format("another format's bits ({} samples)", record["check"]["samples"].get<std::size_t>()));
}

void add_trace_events(nlohmann::ordered_json& events, std::size_t number, std::string const& name,
                      std::vector<TracedSpan> const& spans) {
  constexpr double microseconds = 1e6;
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", number}, {"args", {{"name", name}}}});
  for (auto const& span : spans) {
    events.push_back({{"name", span.name},
                      {"cat", span.is_region ? "region" : "launch"},
                      {"ph", "X"},
                      {"ts", span.begin * microseconds},
                      {"dur", (span.end - span.begin) * microseconds},
                      {"pid", number},
                      {"tid", 0}});
  }
}

} // namespace varve
