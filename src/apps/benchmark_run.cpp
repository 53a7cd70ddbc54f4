#include "apps/benchmark_run.hpp"

#include "apps/benchmark_machine.hpp"
#include "apps/command.hpp"
#include "apps/report_head.hpp"
#include "apps/standard_streams.hpp"
#include "apps/timings.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

/// Says which processors these are and whether they have other work, which makes times vary.
void print_machine(Json const& machine) {
  auto const& processor = machine["processor"];
  auto const& load = machine["system"]["load_average_1_minute"];
  fmt::print("machine   {}: {}, {} processors, load {}\n", printable(machine["host"].get<std::string>()),
             processor["model"].is_null() ? "unknown processor" : printable(processor["model"].get<std::string>()),
             processor["units_allowed"].get<std::size_t>(),
             load.is_null() ? "unknown" : fmt::format("{:.2g}", load.get<double>()));
}

void print_ceilings(Backend backend, Ceilings const& ceilings) {
  fmt::print("ceilings  {} ({}): copy {}, gather {} near, {} far, {}, launch {}\n", to_string(backend),
             device_name(backend), with_prefix(ceilings.copy_bytes_per_second, "B/s"),
             with_prefix(ceilings.gather_bytes_per_second, "B/s"),
             with_prefix(ceilings.far_gather_bytes_per_second, "B/s"), with_prefix(ceilings.fma_per_second, "fma/s"),
             readable_seconds(ceilings.launch_seconds));
}

Json as_json(Ceilings const& ceilings) {
  return {{"copy_bytes", ceilings.copy_bytes},
          {"copy_bytes_per_second", ceilings.copy_bytes_per_second},
          {"gather_bytes_per_second", ceilings.gather_bytes_per_second},
          {"far_gather_bytes_per_second", ceilings.far_gather_bytes_per_second},
          {"fma_per_second", ceilings.fma_per_second},
          {"launch_seconds", ceilings.launch_seconds}};
}

/// Median, interquartile range over median, minimum, and percentiles. (Of few measurements, the high percentiles are
/// near the longest.)
Json summary_of(std::vector<double> seconds) {
  auto const timings = summarize(seconds);
  std::ranges::sort(seconds);
  return {{"median", timings.median},      {"spread", timings.spread},       {"min", seconds.front()},
          {"p50", quantile(seconds, 0.5)}, {"p95", quantile(seconds, 0.95)}, {"p99", quantile(seconds, 0.99)},
          {"measurements", seconds.size()}};
}

/// What half, 95 % and 99 % of the runs reach at least.
Json rates_of(double count, Json const& summary) {
  auto rates = Json::object();
  for (char const* const percentile : {"p50", "p95", "p99"}) {
    double const seconds = summary[percentile].get<double>();
    rates[percentile] = seconds > 0.0 ? Json(count / seconds) : Json();
  }
  return rates;
}

void print_columns() {
  fmt::print("{:37} {:7} {:7} {:>6} {:>9} {:>8} {:>9} {:>9} {:>14}  {}\n", "case", "backend", "work", "samples", "time",
             "spread", "p95", "p99", "rate", "checked");
}

void print_record(Json const& record, Contender const& contender) {
  auto const& rate = contender.rates.front();
  auto const& summary = record[rate.seconds];
  auto const seconds = [&](char const* name) { return readable_seconds(summary[name].get<double>()); };
  auto const unit = rate.name.substr(0, rate.name.find("_per_second"));
  fmt::print("{:37} {:7} {:7} {:>6} {:>9} {:>6.1f} % {:>9} {:>9} {:>14}  {}\n", record["case"].get<std::string>(),
             to_string(contender.backend), contender.work, record["samples"].get<std::size_t>(), seconds("median"),
             100.0 * summary["spread"].get<double>(), seconds("p95"), seconds("p99"),
             with_prefix(record["throughput"][rate.name]["p50"].get<double>(), unit + "/s"),
             record["check"]["way"].get<std::string>());
}

} // namespace

BenchmarkRun::BenchmarkRun(BenchmarkOptions const& options) : options_(options), machine_(describe_machine()) {
  print_machine(machine_);
  for (auto const& name : options.backends) {
    auto const backend = parse_backend(name);
    if (ceilings_.contains(backend)) continue;
    constexpr int num_rounds = 3;
    ceilings_[backend] = measure_ceilings(backend, precision_of(options.computing.precision), num_rounds);
    print_ceilings(backend, ceilings_[backend]);
  }
  print_columns();
}

/// Measures the ceilings again, since the machine may have been busy before, and keeps the best.
void BenchmarkRun::raise_ceilings() {
  for (auto& [backend, best] : ceilings_)
    best = best_of(best, measure_ceilings(backend, precision_of(options_.computing.precision), 1));
}

/// Checks an answer, also against those of the contenders before that compute the same. A wrong one is named.
bool BenchmarkRun::is_right(std::string const& name, Contender const& contender, AnswerCheck verdict,
                            std::span<std::unique_ptr<Contender> const> before) {
  auto const mine = contender.answer();
  auto const differs = [&](auto const& other) {
    auto const theirs = other->answer();
    return mine && theirs && mine->first == theirs->first && mine->second != theirs->second;
  };
  if (verdict.is_right && std::ranges::any_of(before, differs))
    verdict = {false, "the answer has other bits than those of the backends before", verdict.num_checked};
  if (verdict.is_right) return true;
  is_all_right_ = false;
  say(fmt::format("varve: {}, {}, {}: {}; its times do not count", name, to_string(contender.backend), contender.work,
                  verdict.way));
  return false;
}

nlohmann::ordered_json BenchmarkRun::record_of(std::string const& name, std::string const& about, Contender& contender,
                                               AnswerCheck const& verdict) const {
  Json record = report_head("varve benchmark");
  record.update({{"record", contender.kind},
                 {"record_version", 1},
                 {"suite", options_.suite},
                 {"case", name},
                 {"about", about},
                 {"machine", machine_},
                 {"options", varve::as_json(options_)},
                 {"setup", {{"backend", to_string(contender.backend)}, {"device", device_name(contender.backend)}}},
                 {"check", {{"right", true}, {"way", verdict.way}, {"samples", verdict.num_checked}}}});
  contender.describe(record);
  for (auto const& [times, seconds] : contender.seconds) record[times] = summary_of(seconds);
  for (auto const& rate : contender.rates) record["throughput"][rate.name] = rates_of(rate.count, record[rate.seconds]);
  for (auto const& [times, seconds] : contender.seconds) record[times + "_all"] = seconds;
  record["ceilings"] = as_json(ceilings_.at(contender.backend));
  return record;
}

void BenchmarkRun::measure(std::string const& name, std::string const& about, Field field) {
  if (!lines_.empty()) raise_ceilings();
  Field right;
  std::vector<AnswerCheck> verdicts;
  for (auto& contender : field) {
    auto const verdict = contender->check();
    if (!is_right(name, *contender, verdict, right)) continue;
    right.push_back(std::move(contender));
    verdicts.push_back(verdict);
  }
  measure_in_turn(right, options_.repeats, options_.seconds);
  for (std::size_t number = 0; number < right.size(); ++number) {
    auto& contender = *right[number];
    if (!is_right(name, contender, verdicts[number], std::span(right).first(number))) continue;
    auto const record = record_of(name, about, contender, verdicts[number]);
    print_record(record, contender);
    flush_output();
    lines_.push_back(json_text(record));
  }
}

void measure_in_turn(Field const& field, std::size_t repeats, double seconds) {
  constexpr std::size_t most_rounds = 1000;
  double const enough = seconds * static_cast<double>(field.size());
  Stopwatch const time;
  for (std::size_t round = 0; round < repeats || (round < most_rounds && !field.empty() && time.seconds() < enough);
       ++round)
    for (auto const& contender : field) contender->measure();
}

} // namespace varve
