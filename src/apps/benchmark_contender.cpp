#include "apps/benchmark_contender.hpp"

#include "apps/infer_options.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "engine/step_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace varve {
namespace {

/// The results of samples by other options than the contender's.
BatchResult results_by(InferenceOptions options, NetworkSource const& network, SampleBatch const& samples) {
  options.batch.reset();
  options.expected_samples = samples.num_samples();
  auto const inference = prepare(network, options);
  BatchResult all;
  std::size_t const batch = inference->plan(shape_of(samples)).batch;
  for (std::size_t first = 0; first < samples.num_samples(); first += batch) {
    auto const part =
        inference->infer(samples.part(first, std::min(first + batch, samples.num_samples())), WantedOutputs{});
    all.activation_hash += part.activation_hash;
    all.live_samples.insert(all.live_samples.end(), part.live_samples.begin(), part.live_samples.end());
  }
  return all;
}

} // namespace

BenchmarkContender::BenchmarkContender(NetworkSource const& network, SampleBatch const& samples, Setup setup)
    : network_(network), samples_(samples), setup_(std::move(setup)) {
  Stopwatch const time;
  prepare_it();
  prepare_seconds_ = time.seconds();
  first_plan_ = inference_->plan();
}

void BenchmarkContender::prepare_it() {
  auto options = setup_.options;
  auto const most = std::min<std::size_t>(samples_.num_samples(), most_samples_at_a_time(setup_.backend));
  options.expected_samples = std::min(samples_.num_samples(), options.batch.value_or(SIZE_MAX));
  inference_ = prepare(network_, options);
  inference_->plan(shape_of(samples_.part(0, most)));
}

Inference& BenchmarkContender::inference() {
  if (!inference_) prepare_it();
  return *inference_;
}

std::size_t BenchmarkContender::device_bytes() const {
  return first_plan_.weight_bytes + first_plan_.panel_bytes + first_plan_.sample_bytes;
}

void BenchmarkContender::prepare_each_time() {
  stays_ = false;
  inference_.reset();
}

BatchResult BenchmarkContender::first_results(std::size_t count) {
  BatchResult all;
  std::size_t const batch = inference().plan().batch;
  for (std::size_t first = 0; first < count; first += batch) {
    auto const part = inference().infer(samples_.part(first, std::min(first + batch, count)), WantedOutputs{});
    all.activation_hash += part.activation_hash;
    all.live_samples.insert(all.live_samples.end(), part.live_samples.begin(), part.live_samples.end());
  }
  return all;
}

RunTimes BenchmarkContender::run() {
  auto& engine = inference();
  std::size_t const batch = engine.plan().batch;
  RunTimes times;
  std::uint64_t hash = 0;
  num_live_ = 0;
  live_edges_ = 0.0;
  Stopwatch const call_time;
  for (std::size_t first = 0; first < samples_.num_samples(); first += batch) {
    auto const result =
        engine.infer(samples_.part(first, std::min(first + batch, samples_.num_samples())), WantedOutputs{});
    times.loop_seconds += result.loop_seconds.front();
    hash += result.activation_hash;
    num_live_ += result.live_samples.size();
    live_edges_ += result.live_edges;
  }
  times.call_seconds = call_time.seconds();
  if (activation_hash_.value_or(hash) != hash) {
    throw ResourceError(fmt::format("{} gave activations {:016x} and now {:016x} for the same samples",
                                    to_string(setup_.backend), *activation_hash_, hash));
  }
  activation_hash_ = hash;
  if (!stays_) inference_.reset();
  return times;
}

void BenchmarkContender::measure() { times_.push_back(run()); }

TracedRun BenchmarkContender::trace() {
  auto& engine = inference();
  auto const first = samples_.part(0, std::min(engine.plan().batch, samples_.num_samples()));
  TracedRun traced;
  traced.plan = engine.plan();
  {
    LaunchTrace const trace;
    engine.infer(first, WantedOutputs{});
    traced.spans = trace.spans();
  }
  if (auto const* const counted = dynamic_cast<StepSamples const*>(&engine))
    traced.step_samples = counted->step_samples();
  if (!stays_) inference_.reset();
  return traced;
}

ContenderVerdict judge(BenchmarkContender& contender, NetworkSource const& network, SampleBatch const& samples,
                       std::size_t most) {
  std::size_t const count = std::min(samples.num_samples(), most);
  auto const checked = samples.part(0, count);
  auto options = contender.setup().options;
  options.engine = Engine::reference;
  options.backend = Backend::serial;
  options.formats.clear();
  options.kernel.reset();
  auto const reference = results_by(options, network, checked);
  auto const mine = contender.first_results(count);
  if (mine.activation_hash == reference.activation_hash)
    return {true, "all last activations have the bits of the reference's plain loops", count};
  auto const& reductions = contender.setup().options.reductions;
  if (!reductions.merge_neurons && !reductions.fold_constants)
    return {false, "the last activations have other bits than the reference's plain loops", count};
  options.engine = Engine::varve;
  options.formats = {FormatName::csr};
  options.kernel = KernelName::direct;
  auto const rows = results_by(options, network, checked);
  if (mine.activation_hash != rows.activation_hash)
    return {false, "the last activations have other bits than those of rows (CSR) by the direct kernel on serial",
            count};
  if (mine.live_samples != reference.live_samples)
    return {false, "other samples are live than by the reference's plain loops", count};
  return {true,
          "all last activations have the bits of rows (CSR) by the direct kernel on serial, with the same neurons "
          "merged; the live samples are those of the reference's plain loops, which merge none",
          count};
}

} // namespace varve
