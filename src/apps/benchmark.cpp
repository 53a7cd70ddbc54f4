#include "apps/benchmark_machine.hpp"
#include "apps/command.hpp"
#include "apps/network_run.hpp"
#include "apps/options.hpp"
#include "apps/standard_streams.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "core/version.hpp"
#include "engine/ceilings.hpp"
#include "engine/launch_times.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// A network and its input, as `varve benchmark` runs them.
struct BenchmarkCase {
  std::string name;
  std::string about; ///< how the data come to be
  std::function<std::shared_ptr<NetworkSource const>()> network;
  std::function<SampleSet()> samples;
  std::vector<std::size_t> sample_counts; ///< each is measured by itself: the first so many samples; empty: all
  std::vector<std::string> reductions;    ///< each is measured by itself, as --reductions takes it
};

constexpr std::uint64_t case_seed = 1;
constexpr std::size_t challenge_degree = 32;
/// The challenge's own bias keeps no sample alive where an image's neighbours part ways; this one about as many.
constexpr double random_pattern_bias = -0.19;

std::vector<std::string> const none_and_auto = {"none", "auto"};
std::vector<std::string> const only_auto = {"auto"};

/// A network of the challenge and images like its own.
BenchmarkCase radixnet(std::size_t neurons, std::size_t layers, std::size_t images) {
  return {fmt::format("radixnet-{}x{}", neurons, layers),
          "the challenge's pattern and weights, images of digits, generated",
          [=] { return std::make_shared<RadixNet const>(neurons, layers, case_seed); },
          [=] { return digit_images(neurons, images, case_seed); },
          {},
          none_and_auto};
}

RandomNetworkRecipe recipe_of(std::vector<std::size_t> widths) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.seed = case_seed;
  return recipe;
}

std::function<std::shared_ptr<NetworkSource const>()> network_of(RandomNetworkRecipe const& recipe) {
  return [recipe] { return std::make_shared<RandomNetwork const>(recipe); };
}

/// The challenge's weights, cap and degree on a random pattern, or weights and biases of their own.
BenchmarkCase random_pattern(std::size_t neurons, std::size_t layers, std::size_t images, bool has_own_weights) {
  auto recipe = recipe_of(std::vector<std::size_t>(layers + 1, neurons));
  recipe.degree = challenge_degree;
  if (!has_own_weights) {
    recipe.weight = 1.0 / 16.0;
    recipe.lowest_bias = recipe.highest_bias = random_pattern_bias;
    recipe.cap = 32.0;
  }
  return {fmt::format("{}-{}x{}", has_own_weights ? "own-weights" : "random", neurons, layers),
          has_own_weights ? "random pattern of 32 inputs an output, own weights and biases; all samples stay alive"
                          : "random pattern of 32 inputs an output, the challenge's weights; most samples die",
          network_of(recipe),
          [=] { return digit_images(neurons, images, case_seed); },
          {},
          has_own_weights ? only_auto : none_and_auto};
}

/// A network like trained ones: random weights at this density, a bias per neuron, real inputs.
BenchmarkCase trained(std::vector<std::size_t> const& widths, double density, std::vector<std::size_t> counts) {
  auto recipe = recipe_of(widths);
  recipe.density = density;
  std::string shape;
  bool const is_square = std::vector<std::size_t>(widths.size(), widths.front()) == widths;
  if (is_square) shape = fmt::format("{}x{}", widths.front(), widths.size() - 1);
  for (auto const width : is_square ? std::vector<std::size_t>{} : widths)
    shape += (shape.empty() ? "" : "-") + std::to_string(width);
  std::size_t const most = counts.back();
  return {fmt::format("trained-{}-{}", shape, density),
          "random edges of this density, own weights and biases, real inputs of which half are nonzero",
          network_of(recipe),
          [inputs = widths.front(), most] { return random_samples(inputs, most, 0.5, case_seed); },
          std::move(counts),
          only_auto};
}

std::vector<std::size_t> square(std::size_t neurons, std::size_t layers) {
  return std::vector<std::size_t>(layers + 1, neurons);
}

/// The names of the suites: "quick", "challenge", "general", "trained", "train", "products".
std::vector<std::string> suite_names() { return {"quick", "challenge", "general", "trained"}; }

/// The inference cases of a suite, all from fixed seeds, so that every machine runs the same; none for "train" and
/// "products".
std::vector<BenchmarkCase> cases_of(std::string const& suite) {
  if (suite == "quick") {
    return {radixnet(1024, 120, 10000), random_pattern(1024, 30, 5000, false), random_pattern(1024, 30, 5000, true),
            trained(square(256, 12), 0.6, {1, 64, 1000}), trained({784, 2000, 1000, 10}, 0.1, {1, 64, 1000})};
  }
  if (suite == "challenge")
    return {radixnet(1024, 120, 60000), radixnet(4096, 120, 60000), radixnet(16384, 120, 60000)};
  if (suite == "general") {
    return {random_pattern(1024, 120, 60000, false),
            random_pattern(1024, 120, 60000, true),
            random_pattern(4096, 60, 20000, true),
            random_pattern(65536, 12, 2000, true),
            trained({784, 2000, 1000, 500, 10}, 0.1, {20000}),
            trained(square(1024, 30), 0.3, {20000})};
  }
  if (suite == "trained") {
    std::vector<std::size_t> const counts = {1, 64, 1000, 10000};
    return {trained(square(256, 12), 0.6, counts), trained(square(1024, 30), 0.1, counts),
            trained({784, 512, 512, 10}, 0.05, counts), trained(square(4096, 6), 0.01, counts)};
  }
  return {};
}

struct BenchmarkOptions {
  std::string network, input, suite;
  std::vector<std::size_t> samples; ///< each is measured by itself; empty: all samples of the case
  std::vector<std::string> backends = {to_string(compiled_backends().front())};
  std::vector<std::string> reductions; ///< each is measured by itself; empty: those of the case
  ComputingOptions computing;          ///< for all backends and reductions
  std::size_t repeats = 11;
  double seconds = 0.5;
  std::optional<std::size_t> check; ///< samples; empty: as many as the reference computes in a few seconds
  std::string output;
  CommandFiles files;
};

void add_benchmark_options(CLI::App& command, BenchmarkOptions& options) {
  OptionGroup const shown(command);
  shown.reads(options.files, "--network", options.network, network_help);
  shown.reads(options.files, "--input", options.input, input_help);
  shown.add("--suite", options.suite, "networks and samples from fixed seeds, instead of files of your own",
            CLI::IsMember(suite_names()));
  shown
      .add("--samples", options.samples, "N,N,...: measure the first N samples, each N by itself (default: all)",
           above_zero())
      ->delimiter(',');
  shown.add("--backend", options.backends, "some of " + compiled_backend_names() + ", with commas between")
      ->delimiter(',')
      ->capture_default_str();
  add_precision(shown, options.computing.precision);
  shown.add("--repeats", options.repeats, "measurements of each, alternating with the others, at least", above_zero());
  shown.add("--seconds", options.seconds,
            "measure each case for at least this many seconds, at most 1000 times: for percentiles of short runs");
  shown.add("--check", options.check,
            "samples to compare with the reference's plain loops before anything is timed (default: as many as they "
            "compute in a few seconds)",
            above_zero());
  shown.writes(options.files, "--output", options.output, Content::json,
               "write one JSON record a line, for perf/compare.py (.jsonl)");
  OptionGroup(command, "Arithmetic")
      .add("--reductions", options.reductions,
           "see varve infer --help; several are measured beside each other (--reductions none auto)");
  add_tuning(command, {engine_key(options.computing, "edge-order"), engine_key(options.computing, "formats"),
                       engine_key(options.computing, "kernel"),
                       number_key("batch", options.computing.batch, "N", "samples at a time", above_zero())});
}

/// Throws UsageError unless the options name either a network and its input or a suite, and every name is known.
void require_sound(BenchmarkOptions const& options) {
  bool const has_files = !options.network.empty() || !options.input.empty();
  if (has_files == !options.suite.empty())
    throw UsageError("varve benchmark takes either --suite, or --network and --input");
  if (has_files && (options.network.empty() || options.input.empty()))
    throw UsageError("varve benchmark takes --network and --input together");
  if (!std::isfinite(options.seconds) || options.seconds < 0.0)
    throw UsageError(fmt::format("--seconds is {}, expected a number from 0", options.seconds));
  for (auto const& backend : options.backends) static_cast<void>(parse_backend(backend));
  for (auto const& reductions : options.reductions) static_cast<void>(parse_reductions(reductions));
  if (has_kokkos_tool())
    throw UsageError("a tool of Kokkos is loaded (KOKKOS_TOOLS_LIBS or --kokkos-tools-libs), which changes times; "
                     "varve benchmark runs without");
}

Json as_json(BenchmarkOptions const& options) {
  auto const& batch = options.computing.batch;
  Json json = {{"network", options.network}, {"input", options.input},      {"suite", options.suite},
               {"samples", options.samples}, {"backend", options.backends}, {"batch", batch ? Json(*batch) : Json()},
               {"repeats", options.repeats}, {"seconds", options.seconds},  {"check", options.check.value_or(0)}};
  add_options(json, options.computing);
  json["reductions"] = options.reductions;
  return json;
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

/// The network and the samples of the user's files.
BenchmarkCase case_of_files(BenchmarkOptions const& options) {
  std::shared_ptr<NetworkSource const> const network = open_network(options.network);
  return {std::filesystem::path(options.network).filename().string(),
          "files of the user",
          [network] { return network; },
          [network, path = options.input] { return open_samples(path, network->layer(0).num_inputs()); },
          {},
          {"auto"}};
}

/// A network prepared in one way, and how its answer was judged.
struct Contender {
  std::string reductions;
  std::unique_ptr<NetworkRun> run;
  AnswerCheck verdict;
};

/// Measures cases one after the other, and prints and keeps their records. The contenders of a case are checked and
/// warmed up first and then measured in turn. One whose answer is wrong is not timed.
class BenchmarkRun {
public:
  /// Measures the ceilings of all backends. Throws what measure_ceilings() throws.
  explicit BenchmarkRun(BenchmarkOptions const& options)
      : options_(options), precision_(precision_of(options.computing.precision)), machine_(describe_machine()) {
    auto shown = machine_;
    auto const& load = machine_["system"]["load_average_1_minute"];
    if (machine_["processor"]["model"].is_null()) shown["processor"]["model"] = "unknown processor";
    shown["load"] = load.is_null() ? "unknown" : fmt::format("{:.2g}", load.get<double>());
    print_lines({"machine   {host}: {processor/model}, {processor/units_allowed} processors, load {load}"}, shown);
    for (auto const& name : options.backends) {
      constexpr int num_rounds = 3;
      auto const backend = parse_backend(name);
      if (ceilings_.contains(backend)) continue;
      ceilings_[backend] = measure_ceilings(backend, precision_, num_rounds);
      auto ceilings = as_json(ceilings_[backend]);
      ceilings.update({{"backend", name}, {"device", device_name(backend)}});
      print_lines({"ceilings  {backend} ({device}): copy {copy_bytes_per_second:B/s}, gather "
                   "{gather_bytes_per_second:B/s} near, {far_gather_bytes_per_second:B/s} far, {fma_per_second:fma/s}, "
                   "launch {launch_seconds:s}"},
                  ceilings);
    }
    fmt::print("{:37} {:7} {:7} {:>6} {:>9} {:>8} {:>9} {:>9} {:>14}  {}\n", "case", "backend", "work", "samples",
               "time", "spread", "p95", "p99", "rate", "checked");
  }

  /// Measures a case with each number of samples. Throws UsageError if it has fewer samples than were asked for.
  void measure(BenchmarkCase const& one) {
    auto const network = one.network();
    SampleBatch const all = one.samples();
    auto counts = options_.samples.empty() ? one.sample_counts : options_.samples;
    if (counts.empty()) counts = {all.num_samples()};
    for (auto const count : counts) {
      if (count > all.num_samples() || count == 0)
        throw UsageError(fmt::format("{} has {} samples, {} were asked for", one.name, all.num_samples(), count));
      measure(one, *network, all.part(0, count));
    }
  }

  /// False if some answer was wrong.
  bool is_all_right() const { return is_all_right_; }
  std::vector<std::string> const& lines() const { return lines_; }

private:
  void measure(BenchmarkCase const& one, NetworkSource const& network, SampleBatch const& samples) {
    if (!lines_.empty()) raise_ceilings();
    auto prepared = prepare_all(one, network, samples);
    std::vector<Contender> right;
    for (auto& contender : prepared) {
      contender.verdict = contender.run->check(options_.check.value_or(0));
      if (is_right(one.name, contender, right)) right.push_back(std::move(contender));
    }
    std::vector<NetworkRun*> field;
    for (auto const& contender : right) field.push_back(contender.run.get());
    measure_in_turn(field, options_.repeats, options_.seconds);
    for (auto& contender : right) {
      auto const record = record_of(one, contender, samples);
      print(record);
      lines_.push_back(json_text(record));
    }
  }

  std::vector<Contender> prepare_all(BenchmarkCase const& one, NetworkSource const& network,
                                     SampleBatch const& samples) const {
    std::vector<Contender> all;
    for (auto const& backend : options_.backends) {
      std::size_t memory_left = memory_of_field(parse_backend(backend));
      for (auto const& reductions : options_.reductions.empty() ? one.reductions : options_.reductions) {
        auto computing = options_.computing;
        computing.backend = backend;
        computing.named.reductions = reductions;
        auto engine = engine_options(computing);
        engine.input_name = options_.input.empty() ? options_.suite : options_.input;
        all.push_back({reductions, std::make_unique<NetworkRun>(network, samples, with_memory_limits(engine)), {}});
        all.back().run->stay_within(memory_left);
      }
    }
    return all;
  }

  /// Measures the ceilings again, since the machine may have been busy before, and keeps the best.
  void raise_ceilings() {
    for (auto& [backend, best] : ceilings_) best = best_of(best, measure_ceilings(backend, precision_, 1));
  }

  /// Judges an answer, also beside those of the contenders before that compute the same. A wrong one is named.
  bool is_right(std::string const& name, Contender const& contender, std::vector<Contender> const& before) {
    auto way = contender.verdict.is_right ? std::string() : contender.verdict.way;
    auto const differs = [&](Contender const& other) {
      return other.run->has_terms_of(*contender.run) &&
             other.run->activation_hash() != contender.run->activation_hash();
    };
    if (way.empty() && std::ranges::any_of(before, differs))
      way = "the answer has other bits than those of the backends before";
    if (way.empty()) return true;
    is_all_right_ = false;
    say(fmt::format("varve: {}, {}, {}: {}; its times do not count", name, to_string(contender.run->backend()),
                    contender.reductions, way));
    return false;
  }

  Json record_of(BenchmarkCase const& one, Contender& contender, SampleBatch const& samples) const {
    auto& run = *contender.run;
    Json record = report_head("varve benchmark");
    record.update(
        {{"record", "inference"},
         {"record_version", 1},
         {"suite", options_.suite},
         {"case", one.name},
         {"about", one.about},
         {"machine", machine_},
         {"options", as_json(options_)},
         {"setup",
          {{"backend", to_string(run.backend())},
           {"device", device_name(run.backend())},
           {"reductions", contender.reductions}}},
         {"check", {{"right", true}, {"way", contender.verdict.way}, {"samples", contender.verdict.num_checked}}}});
    auto const calls = run.call_seconds();
    auto const loops = run.loop_seconds();
    run.describe(record);
    record["call_seconds"] = summary_of(calls);
    record["loop_seconds"] = summary_of(loops);
    auto const num_samples = static_cast<double>(samples.num_samples());
    auto const num_edges = record["network"]["edges"].get<double>() * num_samples;
    record["throughput"] = {{"loop_samples_per_second", rates_of(num_samples, record["loop_seconds"])},
                            {"samples_per_second", rates_of(num_samples, record["call_seconds"])},
                            {"loop_edges_per_second", rates_of(num_edges, record["loop_seconds"])},
                            {"loop_fma_per_second", rates_of(record["fma"].get<double>(), record["loop_seconds"])}};
    record.update({{"call_seconds_all", calls}, {"loop_seconds_all", loops}});
    record["ceilings"] = as_json(ceilings_.at(run.backend()));
    return record;
  }

  static void print(Json const& record) {
    auto const& summary = record["loop_seconds"];
    auto const& setup = record["setup"];
    auto const seconds = [&](char const* name) { return readable_seconds(summary[name].get<double>()); };
    fmt::print("{:37} {:7} {:7} {:>6} {:>9} {:>6.1f} % {:>9} {:>9} {:>14}  {}\n", record["case"].get<std::string>(),
               setup["backend"].get<std::string>(), setup["reductions"].get<std::string>(),
               record["samples"].get<std::size_t>(), seconds("median"), 100.0 * summary["spread"].get<double>(),
               seconds("p95"), seconds("p99"), line_of("{throughput/loop_samples_per_second/p50:samples/s}", record),
               record["check"]["way"].get<std::string>());
    flush_output();
  }

  BenchmarkOptions const& options_;
  Precision precision_;
  Json machine_;
  std::map<Backend, Ceilings> ceilings_;
  std::vector<std::string> lines_;
  bool is_all_right_ = true;
};

int benchmark(BenchmarkOptions const& options) {
  require_sound(options);
  check_files(options.files.roles());
  // created before anything is measured, so that a name that cannot be written costs no measurement
  auto const file = options.output.empty() ? nullptr : std::make_unique<OutputFile>(options.output);

  Stopwatch const time;
  fmt::print("varve     {}, commit {}, {}, {}\n", provenance.version, provenance.git_commit, provenance.compiler,
             provenance.build_type);
  BenchmarkRun run(options);
  for (auto const& one : options.suite.empty() ? std::vector{case_of_files(options)} : cases_of(options.suite))
    run.measure(one);
  require_unchanged_inputs();
  for (auto const& line : run.lines())
    if (file) file->write(line + "\n");
  if (file) file->commit();
  fmt::print("{} records in {}\n", run.lines().size(), readable_seconds(time.seconds()));
  return run.is_all_right() ? 0 : 1;
}

} // namespace

void add_benchmark(CLI::App& command_line, Action& action) {
  auto [command, options] = add_command<BenchmarkOptions>(
      command_line, action, "benchmark",
      "Measure this machine: checked answers, times, rates, shares of what the device can do", benchmark);
  add_benchmark_options(command, options);
}

} // namespace varve
