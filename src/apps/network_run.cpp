#include "apps/network_run.hpp"

#include "apps/infer_options.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/inference.hpp"
#include "engine/launch_times.hpp"
#include "passes/reduced_network.hpp"
#include "plan/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace varve {
namespace {

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

/// Samples that the reference computes in a few seconds.
std::size_t samples_to_check(EdgeOffset num_edges) {
  constexpr EdgeOffset max_fma = 1'000'000'000;
  return std::max<std::size_t>(1, max_fma / std::max<EdgeOffset>(1, num_edges));
}

/// Inputs of the network, then outputs of each layer, after the reductions that rewrite it.
std::vector<std::size_t> widths_of(NetworkSource const& network, Reductions const& reductions) {
  constexpr std::size_t kept_bytes = std::size_t{1} << 28U; // memory for rewritten layers while widths are read
  if (reductions.rewrites_network())
    return widths_of(ReducedNetwork(network,
                                    {reductions.merge_neurons, reductions.fold_constants, reductions.drop_unread},
                                    kept_bytes),
                     {false, false, false, false, false});
  std::vector<std::size_t> widths = {network.layer(0).num_inputs()};
  for (std::size_t number = 0; number < network.num_layers(); ++number)
    widths.push_back(network.layer(number).num_outputs());
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
          {"launches", 0},
          {"seconds", 0.0},
          {"other_seconds", 0.0},
          {"samples", num_samples},
          {"edges", step.choice.num_edges},
          {"stored_weights", step.choice.num_stored},
          {"fma", fma},
          {"least_bytes", (static_cast<double>(step.choice.num_stored) + activations * samples) * scalar_bytes},
          {"gathered_bytes", fma * scalar_bytes}};
}

Json describe_setup(InferenceOptions const& options) {
  auto formats = Json::array();
  for (auto const format : options.formats) formats.push_back(to_string(format));
  return {{"engine", to_string(options.engine)},
          {"precision", options.precision == Precision::double_precision ? "double" : "float"},
          {"formats", formats},
          {"kernel", options.kernel ? Json(to_string(*options.kernel)) : Json("auto")},
          {"asked_batch", options.batch ? Json(*options.batch) : Json()},
          {"device_memory_limit", options.device_memory_limit ? Json(*options.device_memory_limit) : Json()}};
}

} // namespace

double quantile(std::vector<double> const& sorted, double part) {
  VARVE_REQUIRE(!sorted.empty(), "nothing was measured");
  double const place = part * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(place);
  auto const above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

Timings summarize(std::vector<double> seconds) {
  VARVE_REQUIRE(!seconds.empty(), "nothing was measured");
  std::ranges::sort(seconds);
  double const median = quantile(seconds, 0.5);
  return {median, median > 0.0 ? (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / median : 0.0};
}

NetworkRun::NetworkRun(NetworkSource const& network, SampleBatch const& samples, InferenceOptions options)
    : network_(network), samples_(samples), options_(std::move(options)) {
  Stopwatch const time;
  prepare_it();
  prepare_seconds_ = time.seconds();
  auto const& plan = inference_->plan();
  device_bytes_ = plan.weight_bytes + plan.panel_bytes + plan.sample_bytes;
}

void NetworkRun::prepare_it() {
  auto const most = std::min<std::size_t>(samples_.num_samples(), max_samples_at_a_time(options_.backend));
  options_.expected_samples = std::min(samples_.num_samples(), options_.batch.value_or(SIZE_MAX));
  inference_ = prepare(network_, options_);
  inference_->plan(shape_of(samples_.part(0, most)));
}

Inference& NetworkRun::inference() {
  if (!inference_) prepare_it();
  return *inference_;
}

void NetworkRun::stay_within(std::size_t& memory_left) {
  stays_ = device_bytes_ <= memory_left;
  if (!stays_) inference_.reset();
  memory_left -= std::min(memory_left, device_bytes_);
}

double NetworkRun::run() {
  auto& engine = inference();
  Stopwatch const time;
  auto const result = results_of(engine, samples_, samples_.num_samples());
  call_seconds_.push_back(time.seconds());
  loop_seconds_.push_back(std::accumulate(result.loop_seconds.begin(), result.loop_seconds.end(), 0.0));
  if (activation_hash_.value_or(result.activation_hash) != result.activation_hash) {
    throw ResourceError(fmt::format("{} gave activations {:016x} and now {:016x} for the same samples",
                                    to_string(backend()), *activation_hash_, result.activation_hash));
  }
  activation_hash_ = result.activation_hash;
  num_live_ = result.live_samples.size();
  live_edges_ = result.live_edges;
  if (!stays_) inference_.reset();
  return loop_seconds_.back();
}

/// Compares the answer over the first samples with that of the reference's plain loops, bit for bit. Where reductions
/// merge neurons, which may change last bits, an answer of other bits must have the bits of another format and kernel
/// on the Serial backend with the same reductions, and the reference's live samples.
AnswerCheck NetworkRun::judge(std::size_t most) {
  if (most == 0) most = samples_to_check(inference().num_edges());
  std::size_t const count = std::min(samples_.num_samples(), most);
  auto const checked = samples_.part(0, count);
  auto options = options_;
  options.engine = Engine::reference;
  options.backend = Backend::serial;
  options.formats.clear();
  options.kernel.reset();
  auto const reference = results_by(options, network_, checked);
  auto const mine = results_of(inference(), samples_, count);
  if (mine.activation_hash == reference.activation_hash)
    return {true, "all last activations have the bits of the reference's plain loops", count};
  if (!options_.reductions.merge_neurons && !options_.reductions.fold_constants)
    return {false, "the last activations have other bits than the reference's plain loops", count};
  options.engine = Engine::varve;
  options.formats = {FormatName::csr};
  options.kernel = KernelName::direct;
  if (mine.activation_hash != results_by(options, network_, checked).activation_hash)
    return {false, "the last activations have other bits than those of rows (CSR) by the direct kernel on serial",
            count};
  if (mine.live_samples != reference.live_samples)
    return {false, "other samples are live than by the reference's plain loops", count};
  return {true,
          "all last activations have the bits of rows (CSR) by the direct kernel on serial, with the same neurons "
          "merged; the live samples are those of the reference's plain loops, which merge none",
          count};
}

AnswerCheck NetworkRun::check(std::size_t most) {
  auto verdict = judge(most);
  for (int warm_up = 0; verdict.is_right && warm_up < 2; ++warm_up) run();
  begin_timing();
  return verdict;
}

void NetworkRun::begin_timing() {
  loop_seconds_.clear();
  call_seconds_.clear();
}

bool NetworkRun::has_terms_of(NetworkRun const& other) const {
  auto const& mine = options_.reductions; // merged neurons and folded constants are added in advance
  auto const& theirs = other.options_.reductions;
  return mine.merge_neurons == theirs.merge_neurons && mine.fold_constants == theirs.fold_constants;
}

/// The steps of one more run of the first batch, in which Kokkos fences around each launch. Throws ResourceError if the
/// launches are not those of the plan.
Json NetworkRun::steps() {
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
  double other_seconds = 0.0; // of launches before the first step: live samples listed and moved
  std::size_t num_others = 0;
  for (auto const& launch : spans) {
    if (loop == spans.end() || launch.is_region || launch.begin < loop->begin || launch.end > loop->end) continue;
    bool const is_forward = launch.name.find("_forward") != std::string::npos;
    if (is_forward) {
      auto const number = all.size();
      if (number >= std::min(plan.steps.size(), num_samples.size()) ||
          !launch.name.starts_with(entry_of(plan.steps[number].kernel).label))
        throw ResourceError(
            fmt::format("launch {} of the trace is {}, which is not the plan's step", number, launch.name));
      all.push_back(describe_step(plan.steps[number], num_samples[number], widths,
                                  options_.precision == Precision::double_precision ? 8.0 : 4.0));
      all.back()["other_seconds"] = std::exchange(other_seconds, 0.0);
      all.back()["launches"] = std::exchange(num_others, 0);
    }
    auto const add = [&](char const* name, auto amount) {
      all.back()[name] = all.back()[name].template get<decltype(amount)>() + amount;
    };
    if (all.empty()) {
      other_seconds += launch.end - launch.begin;
      ++num_others;
    } else {
      add(is_forward ? "seconds" : "other_seconds", launch.end - launch.begin);
      add("launches", std::size_t{1});
    }
  }
  return all;
}

void NetworkRun::describe(Json& record) {
  auto& engine = inference();
  record["setup"].update(describe_setup(options_));
  record.update({{"network",
                  {{"name", network_.name()},
                   {"layers", engine.num_layers()},
                   {"inputs", engine.num_inputs()},
                   {"outputs", engine.num_outputs()},
                   {"edges", engine.num_edges()}}},
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

InferenceOptions with_memory_limits(InferenceOptions engine) {
  limit_memory(engine, 1);
  engine.device_memory_limit = memory_limits(engine, engine.backend).device;
  return engine;
}

std::size_t memory_of_field(Backend backend) { return available_memory(backend) / 3; }

void measure_in_turn(std::vector<NetworkRun*> const& field, std::size_t repeats, double seconds) {
  constexpr std::size_t max_rounds = 1000;
  double const enough = seconds * static_cast<double>(field.size());
  for (auto* const one : field) one->begin_timing();
  Stopwatch const time;
  for (std::size_t round = 0; round < repeats || (round < max_rounds && !field.empty() && time.seconds() < enough);
       ++round)
    for (auto* const one : field) one->run();
}

} // namespace varve
