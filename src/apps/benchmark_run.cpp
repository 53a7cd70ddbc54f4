#include "apps/benchmark_run.hpp"

#include "apps/benchmark_machine.hpp"
#include "apps/command.hpp"
#include "apps/infer_options.hpp"
#include "apps/standard_streams.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "io/json_text.hpp"
#include "plan/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace varve {
namespace {

/// Samples that the reference computes in a few seconds.
std::size_t samples_to_check(EdgeOffset num_edges) {
  constexpr EdgeOffset most_fma = 1'000'000'000;
  return std::max<std::size_t>(1, most_fma / std::max<EdgeOffset>(1, num_edges));
}

std::string name_of(Setup const& setup) {
  return fmt::format("{}, reductions {}", to_string(setup.backend), setup.reductions);
}

/// True if both add the same terms, so that their bits must be equal.
bool add_alike(Reductions const& one, Reductions const& other) {
  return one.merge_neurons == other.merge_neurons && one.fold_constants == other.fold_constants;
}

/// Says which processors these are and whether they have other work, which makes times vary.
void print_machine(nlohmann::ordered_json const& machine) {
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

} // namespace

BenchmarkRun::BenchmarkRun(BenchmarkOptions const& options) : options_(options), machine_(describe_machine()) {
  print_machine(machine_);
  for (auto const& name : options.backends) {
    auto const backend = parse_backend(name);
    if (ceilings_.contains(backend)) continue;
    constexpr int num_rounds = 3;
    ceilings_[backend] = measure_ceilings(backend, precision(), num_rounds);
    print_ceilings(backend, ceilings_[backend]);
  }
}

Precision BenchmarkRun::precision() const {
  return engine_options(options_, options_.backends.front(), "none").precision;
}

void BenchmarkRun::raise_ceilings() {
  for (auto& [backend, best] : ceilings_) best = best_of(best, measure_ceilings(backend, precision(), 1));
}

RecordHead BenchmarkRun::head_of(std::string const& case_name, std::string const& about) const {
  return {machine_, as_json(options_), options_.suite, case_name, about};
}

void BenchmarkRun::add(nlohmann::ordered_json const& record) { lines_.push_back(json_text(record)); }

Setup BenchmarkRun::setup_of(std::string const& backend, std::string const& reductions) const {
  Setup setup{parse_backend(backend), reductions, engine_options(options_, backend, reductions)};
  limit_memory(setup.options, 1);
  setup.options.device_memory_limit = memory_limits(setup.options, setup.backend).device;
  return setup;
}

/// Compares all activations with those of the contenders before that add the same terms.
bool BenchmarkRun::agrees(BenchmarkContender const& contender, Field const& field) {
  return std::ranges::none_of(field, [&](auto const& other) {
    return add_alike(contender.setup().options.reductions, other->setup().options.reductions) &&
           contender.activation_hash() != other->activation_hash();
  });
}

BenchmarkRun::Group BenchmarkRun::enter(BenchmarkCase const& one, NetworkSource const& network,
                                        SampleBatch const& samples) {
  Group group;
  for (auto const& backend : options_.backends) {
    std::size_t memory_left = available_memory(parse_backend(backend)) / 3;
    for (auto const& reductions : options_.reductions.empty() ? one.reductions : options_.reductions) {
      auto contender = std::make_unique<BenchmarkContender>(network, samples, setup_of(backend, reductions));
      auto const most = options_.check > 0 ? options_.check : samples_to_check(contender->inference().num_edges());
      auto verdict = judge(*contender, network, samples, most);
      for (int warm_up = 0; verdict.is_right && warm_up < 2; ++warm_up) contender->run();
      if (verdict.is_right && !agrees(*contender, group.field))
        verdict = {false, "the activations have other bits than those of the backends before", samples.num_samples()};
      if (!verdict.is_right) {
        is_all_right_ = false;
        say(fmt::format("varve: {}, {}: {}; it is not timed", one.name, name_of(contender->setup()), verdict.way));
        continue;
      }
      if (contender->device_bytes() > memory_left) contender->prepare_each_time();
      memory_left -= std::min(memory_left, contender->device_bytes());
      group.field.push_back(std::move(contender));
      group.verdicts.push_back(std::move(verdict));
    }
  }
  return group;
}

void BenchmarkRun::measure_in_turn(Field& field) const {
  double const enough = options_.seconds * static_cast<double>(field.size());
  Stopwatch const time;
  for (std::size_t round = 0;
       round < options_.repeats || (round < most_rounds && !field.empty() && time.seconds() < enough); ++round)
    for (auto& contender : field) contender->measure();
}

void BenchmarkRun::report(BenchmarkCase const& one, NetworkSource const& network, SampleBatch const& samples,
                          Group& group) {
  std::map<std::string, std::vector<std::size_t>> widths; // by reductions
  for (std::size_t number = 0; number < group.field.size(); ++number) {
    auto& contender = *group.field[number];
    auto const& setup = contender.setup();
    auto record = describe(head_of(one.name, one.about), contender, network, samples, group.verdicts[number]);
    print_record(record);
    auto const traced = contender.trace();
    auto& known = widths[setup.reductions];
    if (known.empty()) known = widths_of(network, setup.options.reductions);
    auto const& ceilings = ceilings_.at(setup.backend);
    auto const steps = measure_steps(traced, known, setup.options.precision, ceilings);
    add_steps(record, steps, ceilings);
    print_steps(steps, options_.shown_steps);
    flush_output();
    if (!options_.trace.empty())
      add_trace_events(trace_events_, num_traced_++,
                       fmt::format("{}, {} samples, {}", one.name, samples.num_samples(), name_of(setup)),
                       traced.spans);
    add(record);
  }
}

void BenchmarkRun::measure(BenchmarkCase const& one) {
  if (!lines_.empty()) raise_ceilings();
  auto const network = one.network();
  SampleBatch const all = one.samples();
  auto counts = options_.samples.empty() ? one.sample_counts : options_.samples;
  if (counts.empty()) counts = {all.num_samples()};
  for (auto const count : counts) {
    if (count > all.num_samples() || count == 0)
      throw UsageError(fmt::format("{} has {} samples, {} were asked for", one.name, all.num_samples(), count));
    auto const samples = all.part(0, count);
    auto group = enter(one, *network, samples);
    measure_in_turn(group.field);
    report(one, *network, samples, group);
  }
}

} // namespace varve
