#include "apps/tuner.hpp"

#include "apps/infer_options.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "distribute/batch_queue.hpp"
#include "distribute/communicator.hpp"
#include "distribute/run_batches.hpp"
#include "io/json_text.hpp"
#include "io/sample_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace varve {
namespace {

/// The engine's options for this alternative.
InferenceOptions options_with(TuningInput const& input, Alternative const& alternative) {
  InferenceOptions options = input.options;
  options.expected_samples = std::min(input.samples.num_samples(), alternative.batch.value_or(SIZE_MAX));
  options.formats = parse_formats(alternative.formats.value_or("auto"));
  if (alternative.kernel) options.kernel = parse_kernel(*alternative.kernel);
  options.batch = alternative.batch;
  return options;
}

/// The plan for as many samples at a time as `varve infer` would take.
Plan plan_for(Inference& inference, TuningInput const& input) {
  auto const whole = shape_of(input.samples);
  auto const most = std::min<std::size_t>(whole.num_samples, most_samples_at_a_time(input.options.backend));
  auto const part = static_cast<double>(most) / static_cast<double>(whole.num_samples);
  auto const entries = static_cast<EdgeOffset>(part * static_cast<double>(whole.num_entries));
  return inference.plan({most, entries, whole.has_one_value});
}

/// Runs all samples as `varve infer` does on one rank; returns the seconds in the layer loop and in total.
std::pair<double, double> run_as_infer(Inference& inference, TuningInput const& input, Alternative const& alternative) {
  Communicator const communicator;
  SamplesInMemory samples(input.samples);
  auto const num_samples = samples.num_samples();
  auto const batch = plan_for(inference, input).batch;
  BatchRules rules;
  rules.schedule = Schedule::fixed;
  rules.grain = alternative.batch.value_or(grain_of(num_samples));
  rules.one_grain = alternative.batch.has_value();
  rules.most = batch;
  BatchQueue queue(communicator, {{0, num_samples}}, rules);
  Stopwatch const time;
  auto const times = run_batches(
      inference, samples, queue, [](FinishedBatch const&) {}, batch, {}, [] { return true; });
  double const seconds = time.seconds();
  return {std::accumulate(times.loop_seconds.begin(), times.loop_seconds.end(), 0.0), seconds};
}

} // namespace

nlohmann::ordered_json as_json(Alternative const& alternative) {
  auto options = nlohmann::ordered_json::object();
  if (alternative.formats) options["formats"] = *alternative.formats;
  if (alternative.kernel) options["kernel"] = *alternative.kernel;
  if (alternative.batch) options["batch"] = *alternative.batch;
  return options;
}

std::string as_text(Alternative const& alternative) {
  std::string text;
  auto const options = as_json(alternative); // must outlive the loop
  for (auto const& [name, value] : options.items()) {
    text += (text.empty() ? "--" : " --") + name;
    if (!value.is_boolean()) text += " " + (value.is_string() ? value.get<std::string>() : json_text(value));
  }
  return text.empty() ? "all left to the plan" : text;
}

/// A prepared alternative that is measured alternately with others.
class Tuner::Contender {
public:
  Contender(TuningInput const& input, Alternative const& alternative) : input_(input) {
    trial_.alternative = alternative;
    prepare_it();
  }

  /// Device memory of the prepared alternative, in bytes.
  std::size_t bytes() const { return plan_.weight_bytes + plan_.panel_bytes + plan_.sample_bytes; }
  /// Frees the memory. If memory is too small for all contenders, each is prepared again for each of its runs.
  void leave_memory() { inference_.reset(); }
  void prepare_each_time() {
    stays_ = false;
    leave_memory();
  }

  /// Runs all samples; returns the seconds in the layer loop.
  double run() {
    if (!inference_) prepare_it();
    double seconds = 0.0;
    std::uint64_t hash = 0;
    for (std::size_t first = 0; first < input_.samples.num_samples(); first += plan_.batch) {
      std::size_t const last = std::min(first + plan_.batch, input_.samples.num_samples());
      auto const result = inference_->infer(input_.samples.part(first, last), {});
      seconds += result.loop_seconds.front();
      hash += result.activation_hash;
    }
    trial_.activation_hash = hash;
    if (!stays_) leave_memory();
    return seconds;
  }
  void measure() { seconds_.push_back(run()); }

  /// Measures a whole run, as `varve infer` makes it.
  void measure_whole() {
    if (!inference_) prepare_it();
    auto const [loop, all] = run_as_infer(*inference_, input_, trial_.alternative);
    seconds_.push_back(loop);
    all_seconds_.push_back(all);
    if (!stays_) leave_memory();
  }

  Trial result() const {
    Trial trial = trial_;
    trial.loop = summarize(seconds_);
    return trial;
  }
  WholeRun whole() const { return {summarize(seconds_), summarize(all_seconds_)}; }

private:
  void prepare_it() {
    inference_ = prepare(input_.network, options_with(input_, trial_.alternative));
    plan_ = plan_for(*inference_, input_);
  }

  TuningInput const& input_;
  Trial trial_;
  std::unique_ptr<Inference> inference_;
  Plan plan_;
  bool stays_ = true;
  std::vector<double> seconds_, all_seconds_;
};

Tuner::Tuner(TuningInput const& input, Report report) : input_(input), report_(std::move(report)) {
  Contender alone(input_, {});
  alone.run(); // warm-up
  for (std::size_t i = 0; i < input_.repeat; ++i) alone.measure();
  trials_.push_back(alone.result());
  report_(trials_.back());
}

void Tuner::search() {
  auto const from_kept = [this](auto const& change) {
    Alternative alternative = kept_.empty() ? Alternative{} : kept_.back();
    change(alternative);
    return alternative;
  };
  std::vector<Alternative> changed;
  for (auto const& entry : all_formats())
    changed.push_back(from_kept([&](Alternative& alternative) { alternative.formats = entry.option; }));
  compare(std::exchange(changed, {}));
  for (auto const& entry : all_kernels()) {
    if (entry.can_be_asked_for && entry.kernel != KernelName::cones) // cones are also a format, which is tried above
      changed.push_back(from_kept([&](Alternative& alternative) { alternative.kernel = entry.option; }));
  }
  compare(std::exchange(changed, {}));
  constexpr std::size_t smallest = 1024;
  for (std::size_t batch = input_.samples.num_samples() / 2; batch >= smallest; batch /= 2)
    changed.push_back(from_kept([&](Alternative& alternative) { alternative.batch = batch; }));
  compare(changed);
  confirm();
}

/// Prepares an alternative and runs it once as warm-up. Returns null, with the reason in the trial, if it cannot run or
/// takes far longer than the fastest median so far.
std::unique_ptr<Tuner::Contender> Tuner::enter(Alternative const& alternative, double fastest,
                                               std::size_t& memory_left) {
  constexpr double hopeless = 3.0;
  Trial trial;
  trial.alternative = alternative;
  try {
    auto contender = std::make_unique<Contender>(input_, alternative);
    double const seconds = contender->run();
    if (seconds <= hopeless * fastest) {
      if (contender->bytes() > memory_left) contender->prepare_each_time();
      memory_left -= std::min(memory_left, contender->bytes());
      return contender;
    }
    contender->measure();
    trial = contender->result();
    if (trial.loop.median <= hopeless * fastest) return contender; // other load had slowed the first run down
    trial.refusal = fmt::format("{:.1f} times as slow as the fastest", trial.loop.median / fastest);
  } catch (Error const& error) {
    trial.refusal = error.what();
  }
  report_(trials_.emplace_back(trial));
  return nullptr;
}

/// Measures each contender once, `repeat` times over, so that other load on the machine slows all of them alike.
void Tuner::measure_in_turn(Field& field) const {
  for (std::size_t round = 0; round < input_.repeat; ++round)
    for (auto& contender : field) contender->measure();
}

/// Measures the alternative kept last and each change of it, and keeps the fastest change if it is clearly faster.
void Tuner::compare(std::vector<Alternative> const& changed) {
  if (changed.empty()) return;
  auto const incumbent = kept_.empty() ? Alternative{} : kept_.back();
  std::size_t memory_left = available_memory(input_.options.backend) / 3;
  Field field;
  field.push_back(enter(incumbent, std::numeric_limits<double>::infinity(), memory_left));
  VARVE_REQUIRE(field.front() != nullptr, "what ran before runs no more");
  double const fastest = defaults().loop.median;
  for (auto const& alternative : changed)
    if (auto contender = enter(alternative, fastest, memory_left)) field.push_back(std::move(contender));
  measure_in_turn(field);
  auto const before = field.front()->result().loop;
  std::optional<Trial> winner;
  for (std::size_t number = 1; number < field.size(); ++number) {
    auto const trial = field[number]->result();
    report_(trials_.emplace_back(trial));
    bool const is_fastest = !winner || trial.loop.median < winner->loop.median;
    if (is_fastest && is_clearly_faster(trial.loop, before)) winner = trial;
  }
  if (winner && input_.repeat >= least_repeats) kept_.push_back(winner->alternative);
}

/// Recommends the last kept alternative that also wins in whole runs.
void Tuner::confirm() {
  for (auto alternative = kept_.rbegin(); alternative != kept_.rend(); ++alternative) {
    auto const runs = run_whole(*alternative);
    bool const costs_elsewhere = is_clearly_faster(runs.defaults.all, runs.best.all);
    if (costs_elsewhere || !is_clearly_faster(runs.best.loop, runs.defaults.loop)) continue;
    best_ = *alternative;
    confirmation_ = runs;
    return;
  }
}

/// Prepares the defaults and an alternative and measures whole runs of both alternately.
Confirmation Tuner::run_whole(Alternative const& alternative) const {
  Contender defaults(input_, {});
  Contender best(input_, alternative);
  if (defaults.bytes() + best.bytes() > available_memory(input_.options.backend) / 3) {
    defaults.prepare_each_time();
    best.prepare_each_time();
  }
  for (Contender* const contender : {&defaults, &best}) contender->run(); // warm-up
  for (std::size_t round = 0; round < input_.repeat; ++round)
    for (Contender* const contender : {&defaults, &best}) contender->measure_whole();
  return {defaults.whole(), best.whole()};
}

Trial const* Tuner::contradiction() const {
  auto const found = std::ranges::find_if(trials_, [&](Trial const& trial) {
    return trial.refusal.empty() && trial.activation_hash != defaults().activation_hash;
  });
  return found == trials_.end() ? nullptr : &*found;
}

} // namespace varve
