#include "engine.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace varve::python {
namespace {

/// The number of samples of the next batch: twice as many as before while batches are short, half as many if one took
/// more than a second.
std::size_t next_size(std::size_t size, double seconds) {
  constexpr double short_batch = 0.3;
  constexpr double long_batch = 1.0;
  if (seconds < short_batch) return 2 * size;
  return seconds > long_batch ? std::max<std::size_t>(1, size / 2) : size;
}

void append(Outcome& outcome, std::size_t first, BatchResult const& batch, ActivationSink const& sink) {
  outcome.live_samples.insert(outcome.live_samples.end(), batch.live_samples.begin(), batch.live_samples.end());
  outcome.activation_hash += batch.activation_hash;
  if (sink) {
    sink(first, batch.activations);
  } else if (batch.activations.num_samples() > 0) {
    append_rows(outcome.activations, batch.activations);
  }
  outcome.predictions.insert(outcome.predictions.end(), batch.predictions.begin(), batch.predictions.end());
  for (double const seconds : batch.loop_seconds) outcome.loop_seconds += seconds;
}

} // namespace

Engine::Engine(HeldNetwork const& network, InferenceOptions options)
    : network_(std::make_shared<InterruptibleNetwork>(network.shared())),
      num_inputs_(network.num_inputs()),
      num_outputs_(network.num_outputs()),
      options_(std::move(options)) {}

Inference& Engine::prepared() {
  network_->belong_to_this_thread();
  if (!inference_) {
    planned_.reset();
    inference_ = prepare(*network_, options_);
  }
  return *inference_;
}

void Engine::plan_for(InputShape const& input) {
  if (planned_ && planned_->num_samples >= input.num_samples && planned_->has_one_value == input.has_one_value) return;
  planned_.reset();
  inference_->plan(input);
  planned_ = input;
}

Outcome Engine::run(SampleSet samples, Wanted const& wanted, Progress const& progress) {
  if (samples.num_neurons() != num_inputs_) {
    throw InputError(fmt::format("{} has {} values per sample, expected {}, the inputs of the network",
                                 options_.input_name, samples.num_neurons(), num_inputs_));
  }
  Turn const turn;
  auto& inference = prepared();
  bool const has_memory = has_own_memory(options_.backend);
  std::size_t const most = has_memory ? std::size_t{1} << 18U : std::size_t{1} << 16U; // larger batches are not faster
  std::size_t size = has_memory ? std::size_t{1} << 16U : std::size_t{1} << 13U;
  SampleBatch const batch(std::move(samples));
  Outcome outcome;
  outcome.activations.matrix.num_columns = num_outputs_;
  for (std::size_t first = 0; first < batch.num_samples();) {
    auto const part = batch.part(first, first + std::min({size, most, batch.num_samples() - first}));
    plan_for(shape_of(part));
    std::size_t const last = first + std::min(part.num_samples(), inference.plan().batch);
    Stopwatch const time;
    bool const wants_activations = wanted.activations || wanted.sink;
    append(outcome, first, inference.infer(batch.part(first, last), {wants_activations, wanted.predictions}),
           wanted.sink);
    size = next_size(size, time.seconds());
    first = last;
    if (progress) progress(first, batch.num_samples());
    if (first < batch.num_samples()) run_signal_handlers();
  }
  return outcome;
}

std::vector<std::string> Engine::plan_lines(InputShape const& input) {
  Turn const turn;
  auto& inference = prepared();
  plan_for(input);
  return to_text(inference.plan());
}

} // namespace varve::python
