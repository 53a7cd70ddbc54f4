#include "apps/benchmark_machine.hpp"
#include "apps/command.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "core/version.hpp"
#include "engine/ceilings.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "passes/reduced_network.hpp"
#include "plan/memory.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

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

std::vector<std::size_t> square(std::size_t neurons, std::size_t layers) {
  return std::vector<std::size_t>(layers + 1, neurons);
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
  auto recipe = recipe_of(square(neurons, layers));
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
  auto const layers = widths.size() - 1;
  auto const shape = widths == square(widths.front(), layers) ? fmt::format("{}x{}", widths.front(), layers)
                                                              : fmt::format("{}", fmt::join(widths, "-"));
  std::size_t const most = counts.back();
  return {fmt::format("trained-{}-{}", shape, density),
          "random edges of this density, own weights and biases, real inputs of which half are nonzero",
          network_of(recipe),
          [inputs = widths.front(), most] { return random_samples(inputs, most, 0.5, case_seed); },
          std::move(counts),
          only_auto};
}

/// The cases of a suite, all from fixed seeds, so that every machine runs the same.
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
  std::vector<std::size_t> const counts = {1, 64, 1000, 10000};
  return {trained(square(256, 12), 0.6, counts), trained(square(1024, 30), 0.1, counts),
          trained({784, 512, 512, 10}, 0.05, counts), trained(square(4096, 6), 0.01, counts)};
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
            CLI::IsMember({"quick", "challenge", "general", "trained"}));
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
                       number_key("batch", options.computing.named.batch, "N", "samples at a time", above_zero())});
}

/// Throws UsageError unless the options name either a network and its input or a suite, and every name is known.
void require_sound(BenchmarkOptions const& options) {
  bool const has_files = !options.network.empty() || !options.input.empty();
  if (has_files == !options.suite.empty())
    throw UsageError("varve benchmark takes either --suite, or --network and --input");
  if (has_files && (options.network.empty() || options.input.empty()))
    throw UsageError("varve benchmark takes --network and --input together");
  if (!std::isfinite(options.seconds) || options.seconds < 0.0)
    fail<UsageError>("--seconds is {}, expected a number from 0", options.seconds);
  for (auto const& backend : options.backends) static_cast<void>(parse_backend(backend));
  for (auto const& reductions : options.reductions) static_cast<void>(parse_reductions(reductions));
  if (has_kokkos_tool())
    throw UsageError("a tool of Kokkos is loaded (KOKKOS_TOOLS_LIBS or --kokkos-tools-libs), which changes times; "
                     "varve benchmark runs without");
}

Json as_json(BenchmarkOptions const& options) {
  auto const& batch = options.computing.named.batch;
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

/// The results of the first `count` samples, in batches of the plan.
BatchResult results_of(Inference& inference, SampleBatch const& samples, std::size_t count) {
  BatchResult all;
  std::size_t const batch = inference.plan().batch;
  for (std::size_t first = 0; first < count; first += batch) {
    auto const part = inference.infer(samples.part(first, std::min(first + batch, count)), WantedOutputs{});
    all.loop_seconds.push_back(part.loop_seconds.front());
    all.activation_hash += part.activation_hash;
    all.live_edges += part.live_edges;
    all.live_samples.insert(all.live_samples.end(), part.live_samples.begin(), part.live_samples.end());
  }
  return all;
}

/// The results of samples by other options than those that are timed.
BatchResult results_by(InferenceOptions options, NetworkSource const& network, SampleBatch const& samples) {
  options.batch.reset();
  options.expected_samples = samples.num_samples();
  auto const inference = prepare(network, options);
  inference->plan(shape_of(samples));
  return results_of(*inference, samples, samples.num_samples());
}

/// Inputs of the network, then outputs of each layer, after the reductions that rewrite it.
std::vector<std::size_t> widths_of(NetworkSource const& network, Reductions const& reductions) {
  constexpr std::size_t kept_bytes = std::size_t{1} << 28U; // memory for rewritten layers while widths are read
  std::optional<ReducedNetwork> reduced;
  if (reductions.rewrites_network())
    reduced.emplace(network, NetworkPasses{reductions.merge_neurons, reductions.fold_constants, reductions.drop_unread},
                    kept_bytes);
  NetworkSource const& rewritten = reduced ? *reduced : network;
  std::vector<std::size_t> widths = {rewritten.layer(0).num_inputs()};
  for (std::size_t number = 0; number < rewritten.num_layers(); ++number)
    widths.push_back(rewritten.layer(number).num_outputs());
  return widths;
}

/// A step of the plan in a traced run: its kernel's time, its work, and the bytes that must move at least (stored
/// weights once, activations before and after once).
Json describe_step(Step const& step, std::size_t num_samples, std::vector<std::size_t> const& widths,
                   double scalar_bytes) {
  auto const samples = static_cast<double>(num_samples);
  auto const activations = static_cast<double>(widths.at(step.first_layer) + widths.at(step.last_layer + 1));
  double const fma = static_cast<double>(step.choice.num_edges) * samples;
  return {{"first_layer", step.first_layer},
          {"last_layer", step.last_layer},
          {"kernel", to_string(step.kernel)},
          {"format", to_json(StepRun{1, step})["format"]},
          {"launches", std::size_t{0}},
          {"seconds", 0.0},
          {"other_seconds", 0.0},
          {"samples", num_samples},
          {"edges", step.choice.num_edges},
          {"stored_weights", step.choice.num_stored},
          {"fma", fma},
          {"least_bytes", (static_cast<double>(step.choice.num_stored) + activations * samples) * scalar_bytes},
          {"gathered_bytes", fma * scalar_bytes}};
}

/// A network prepared in one way: checked and timed runs of all samples.
class NetworkRun {
public:
  /// Prepares the network as if it were alone in memory. Takes its device memory from `memory_left`, in bytes; if that
  /// is too little, the network is prepared anew for each run. Both references must outlive the object. Throws what
  /// prepare() and plan() throw.
  NetworkRun(NetworkSource const& network, SampleBatch const& samples, InferenceOptions options, std::string reductions,
             std::size_t& memory_left)
      : network_(network), samples_(samples), options_(std::move(options)), reductions_(std::move(reductions)) {
    limit_memory(options_, 1);
    options_.device_memory_limit = memory_limits(options_, options_.backend).device;
    options_.expected_samples = std::min(samples_.num_samples(), options_.batch.value_or(SIZE_MAX));
    Stopwatch const time;
    auto const& plan = inference().plan();
    prepare_seconds_ = time.seconds();
    std::size_t const device_bytes = plan.weight_bytes + plan.panel_bytes + plan.sample_bytes;
    stays_ = device_bytes <= memory_left;
    if (!stays_) inference_.reset();
    memory_left -= std::min(memory_left, device_bytes);
  }

  /// Runs all samples and keeps the times. Throws ResourceError if the answer differs from that of an earlier run.
  void run() {
    auto& engine = inference();
    Stopwatch const time;
    auto const result = results_of(engine, samples_, samples_.num_samples());
    call_seconds_.push_back(time.seconds());
    loop_seconds_.push_back(std::accumulate(result.loop_seconds.begin(), result.loop_seconds.end(), 0.0));
    if (activation_hash_.value_or(result.activation_hash) != result.activation_hash) {
      fail<ResourceError>("{} gave activations {:016x} and now {:016x} for the same samples", to_string(backend()),
                          *activation_hash_, result.activation_hash);
    }
    activation_hash_ = result.activation_hash;
    num_live_ = result.live_samples.size();
    live_edges_ = result.live_edges;
    if (!stays_) inference_.reset();
  }

  /// Compares the answer with that of plain loops, and warms up. `most`: samples to compare at most; 0: as many as
  /// plain loops compute in a few seconds. False if the answer is wrong.
  bool check(std::size_t most) {
    bool const is_right = judge(most);
    for (int warm_up = 0; is_right && warm_up < 2; ++warm_up) run();
    return is_right;
  }

  /// A sentence: what the answer was compared with, and what was equal or not.
  std::string const& way() const { return way_; }

  /// Forgets the times so far.
  void begin_timing() {
    loop_seconds_.clear();
    call_seconds_.clear();
  }

  Backend backend() const { return options_.backend; }
  std::string const& reductions() const { return reductions_; } ///< as --reductions took them

  /// True if both compute the same, but for orders of sums, and have other bits.
  bool contradicts(NetworkRun const& other) const {
    auto const& mine = options_.reductions; // merged neurons and folded constants are added in advance
    auto const& theirs = other.options_.reductions;
    return mine.merge_neurons == theirs.merge_neurons && mine.fold_constants == theirs.fold_constants &&
           activation_hash_ != other.activation_hash_;
  }

  /// Of all runs since begin_timing(): seconds in the layer loop, from fence to fence, and from handing over the
  /// samples until the results were on the host.
  std::vector<double> const& loop_seconds() const { return loop_seconds_; }
  std::vector<double> const& call_seconds() const { return call_seconds_; }

  /// Adds what was run and checked to a record, with the steps of the plan in one more run, in which each launch is
  /// traced.
  void describe(Json& record) {
    auto& engine = inference();
    auto formats = Json::array();
    for (auto const format : options_.formats) formats.push_back(to_string(format));
    bool const in_double = options_.precision == Precision::double_precision;
    Json network = {{"name", network_.name()}};
    network.update(shape_facts(engine));
    record.update({{"setup",
                    {{"backend", to_string(backend())},
                     {"device", device_name(backend())},
                     {"reductions", reductions_},
                     {"engine", to_string(options_.engine)},
                     {"precision", in_double ? "double" : "float"},
                     {"formats", formats},
                     {"kernel", options_.kernel ? Json(to_string(*options_.kernel)) : Json("auto")},
                     {"asked_batch", options_.batch ? Json(*options_.batch) : Json()},
                     {"device_memory_limit", *options_.device_memory_limit}}},
                   {"check", {{"right", true}, {"way", way_}, {"samples", num_checked_}}},
                   {"network", network},
                   {"samples", samples_.num_samples()},
                   {"entries", samples_.num_entries()},
                   {"activation_hash", fmt::format("{:016x}", *activation_hash_)},
                   {"survivors", num_live_},
                   {"prepare_seconds", prepare_seconds_},
                   {"prepared_each_time", !stays_},
                   {"plan", to_json(engine.plan())},
                   {"fma", live_edges_},
                   {"steps", steps()}});
    if (!stays_) inference_.reset();
  }

private:
  Inference& inference() {
    if (inference_) return *inference_;
    auto const most = std::min<std::size_t>(samples_.num_samples(), max_samples_at_a_time(options_.backend));
    inference_ = prepare(network_, options_);
    inference_->plan(shape_of(samples_.part(0, most)));
    return *inference_;
  }

  /// Compares the answer over the first samples with that of the reference's plain loops, bit for bit. Where reductions
  /// merge neurons, which may change last bits, an answer of other bits must have the bits of another format and kernel
  /// on the Serial backend with the same reductions, and the reference's live samples.
  bool judge(std::size_t most) {
    constexpr EdgeOffset max_fma = 1'000'000'000; // that the reference computes in a few seconds
    if (most == 0) most = std::max<EdgeOffset>(1, max_fma / std::max<EdgeOffset>(1, inference().num_edges()));
    num_checked_ = std::min(samples_.num_samples(), most);
    auto const checked = samples_.part(0, num_checked_);
    auto const conclude = [this](bool is_right, char const* way) {
      way_ = way;
      return is_right;
    };
    auto options = options_;
    options.engine = Engine::reference;
    options.backend = Backend::serial;
    options.formats.clear();
    options.kernel.reset();
    auto const reference = results_by(options, network_, checked);
    auto const mine = results_of(inference(), samples_, num_checked_);
    if (mine.activation_hash == reference.activation_hash)
      return conclude(true, "all last activations have the bits of the reference's plain loops");
    if (!options_.reductions.merge_neurons && !options_.reductions.fold_constants)
      return conclude(false, "the last activations have other bits than the reference's plain loops");
    options.engine = Engine::varve;
    options.formats = {FormatName::csr};
    options.kernel = KernelName::direct;
    if (mine.activation_hash != results_by(options, network_, checked).activation_hash)
      return conclude(false,
                      "the last activations have other bits than those of rows (CSR) by the direct kernel on serial");
    if (mine.live_samples != reference.live_samples)
      return conclude(false, "other samples are live than by the reference's plain loops");
    return conclude(
        true, "all last activations have the bits of rows (CSR) by the direct kernel on serial, with the same neurons "
              "merged; the live samples are those of the reference's plain loops, which merge none");
  }

  /// The steps of one more run of the first batch, in which Kokkos fences around each launch. Throws ResourceError if
  /// the launches are not those of the plan.
  Json steps() {
    auto& engine = inference();
    auto const& plan = engine.plan();
    std::vector<TracedSpan> spans;
    {
      LaunchTrace const trace;
      engine.infer(samples_.part(0, std::min(plan.batch, samples_.num_samples())), WantedOutputs{});
      spans = trace.spans();
    }
    auto const num_samples = engine.step_samples();
    auto const widths = widths_of(network_, options_.reductions);
    auto const loop = std::ranges::find_if(
        spans, [](TracedSpan const& span) { return span.is_region && span.name == "varve::layer_loop"; });
    auto all = Json::array();
    Json before = {{"launches", std::size_t{0}},
                   {"other_seconds", 0.0}}; // the first step: live samples listed and moved
    for (auto const& launch : spans) {
      if (loop == spans.end() || launch.is_region || launch.begin < loop->begin || launch.end > loop->end) continue;
      bool const is_forward = launch.name.find("_forward") != std::string::npos;
      if (is_forward) {
        auto const number = all.size();
        if (number >= std::min(plan.steps.size(), num_samples.size()) ||
            !launch.name.starts_with(entry_of(plan.steps[number].kernel).label))
          fail<ResourceError>("launch {} of the trace is {}, which is not the plan's step", number, launch.name);
        all.push_back(describe_step(plan.steps[number], num_samples[number], widths,
                                    options_.precision == Precision::double_precision ? 8.0 : 4.0));
        if (number == 0) all.back().update(before);
      }
      auto& step = all.empty() ? before : all.back();
      auto& seconds = step[is_forward ? "seconds" : "other_seconds"];
      seconds = seconds.get<double>() + launch.end - launch.begin;
      step["launches"] = step["launches"].get<std::size_t>() + 1;
    }
    return all;
  }

  NetworkSource const& network_;
  SampleBatch const& samples_;
  InferenceOptions options_;
  std::string reductions_;
  std::unique_ptr<Inference> inference_;
  double prepare_seconds_ = 0.0;
  bool stays_ = true;
  std::string way_;
  std::size_t num_checked_ = 0; ///< samples that were compared
  std::optional<std::uint64_t> activation_hash_;
  std::size_t num_live_ = 0;
  double live_edges_ = 0.0; ///< fma of a run: edges after reductions times samples
  std::vector<double> loop_seconds_, call_seconds_;
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
        fail<UsageError>("{} has {} samples, {} were asked for", one.name, all.num_samples(), count);
      measure(one, *network, all.part(0, count));
    }
  }

  /// False if some answer was wrong.
  bool is_all_right() const { return is_all_right_; }
  std::vector<std::string> const& lines() const { return lines_; }

private:
  void measure(BenchmarkCase const& one, NetworkSource const& network, SampleBatch const& samples) {
    if (!lines_.empty()) { // the machine may have been busy before: the best counts
      for (auto& [backend, best] : ceilings_) best = best_of(best, measure_ceilings(backend, precision_, 1));
    }
    auto prepared = prepare_all(one, network, samples);
    std::vector<std::unique_ptr<NetworkRun>> right;
    for (auto& run : prepared)
      if (is_right(one.name, *run, right)) right.push_back(std::move(run));
    measure_in_turn(right);
    for (auto const& run : right) {
      auto const record = record_of(one, *run, samples);
      print(record);
      lines_.push_back(json_text(record));
    }
  }

  std::vector<std::unique_ptr<NetworkRun>> prepare_all(BenchmarkCase const& one, NetworkSource const& network,
                                                       SampleBatch const& samples) const {
    std::vector<std::unique_ptr<NetworkRun>> all;
    for (auto const& backend : options_.backends) {
      std::size_t memory_left = available_memory(parse_backend(backend)) / 3;
      for (auto const& reductions : options_.reductions.empty() ? one.reductions : options_.reductions) {
        auto computing = options_.computing;
        computing.backend = backend;
        computing.named.reductions = reductions;
        auto engine = engine_options(computing);
        engine.input_name = options_.input.empty() ? options_.suite : options_.input;
        all.push_back(std::make_unique<NetworkRun>(network, samples, engine, reductions, memory_left));
      }
    }
    return all;
  }

  /// Times all in rounds, one run of each: as many rounds as are asked for at least, and until as many seconds have
  /// passed for each, up to 1000 rounds. So other load on the machine slows all of them alike.
  void measure_in_turn(std::vector<std::unique_ptr<NetworkRun>> const& all) const {
    constexpr std::size_t max_rounds = 1000;
    double const enough = options_.seconds * static_cast<double>(all.size());
    for (auto const& one : all) one->begin_timing();
    Stopwatch const time;
    for (std::size_t round = 0;
         round < options_.repeats || (round < max_rounds && !all.empty() && time.seconds() < enough); ++round)
      for (auto const& one : all) one->run();
  }

  /// Judges an answer, also beside those of the runs before that compute the same. A wrong one is named.
  bool is_right(std::string const& name, NetworkRun& run, std::vector<std::unique_ptr<NetworkRun>> const& before) {
    auto way = run.check(options_.check.value_or(0)) ? std::string() : run.way();
    if (way.empty() && std::ranges::any_of(before, [&](auto const& other) { return other->contradicts(run); }))
      way = "the answer has other bits than those of the backends before";
    if (way.empty()) return true;
    is_all_right_ = false;
    say(fmt::format("varve: {}, {}, {}: {}; its times do not count", name, to_string(run.backend()), run.reductions(),
                    way));
    return false;
  }

  Json record_of(BenchmarkCase const& one, NetworkRun& run, SampleBatch const& samples) const {
    Json record = report_head("varve benchmark");
    record.update({{"record", "inference"},
                   {"record_version", 1},
                   {"suite", options_.suite},
                   {"case", one.name},
                   {"about", one.about},
                   {"machine", machine_},
                   {"options", as_json(options_)}});
    run.describe(record);
    record["call_seconds"] = statistics_of(run.call_seconds());
    record["loop_seconds"] = statistics_of(run.loop_seconds());
    auto const num_samples = static_cast<double>(samples.num_samples());
    auto const num_edges = record["network"]["edges"].get<double>() * num_samples;
    record.update({{"throughput",
                    {{"loop_samples_per_second", rates_of(num_samples, record["loop_seconds"])},
                     {"samples_per_second", rates_of(num_samples, record["call_seconds"])},
                     {"loop_edges_per_second", rates_of(num_edges, record["loop_seconds"])},
                     {"loop_fma_per_second", rates_of(record["fma"].get<double>(), record["loop_seconds"])}}},
                   {"call_seconds_all", run.call_seconds()},
                   {"loop_seconds_all", run.loop_seconds()},
                   {"ceilings", as_json(ceilings_.at(run.backend()))}});
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
