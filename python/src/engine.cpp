#include "engine.hpp"

#include "execution_instance.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace varve::python {
namespace {

/// The number of samples of the next batch: twice as many as before, up to `most`, while batches are short, half as
/// many if one took more than a second.
std::size_t next_size(std::size_t size, std::size_t most, double seconds) {
  constexpr double short_batch = 0.3;
  constexpr double long_batch = 1.0;
  if (seconds < short_batch) return std::min(2 * size, most);
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

DeviceInput rows_of(DeviceInput const& matrix, std::size_t first, std::size_t last, std::size_t bytes_per_value) {
  auto part = matrix;
  part.data = static_cast<char const*>(matrix.data) + first * matrix.row_stride * bytes_per_value;
  part.num_rows = last - first;
  return part;
}

DeviceOutput rows_of(DeviceOutput const& matrix, std::size_t first, std::size_t last, std::size_t bytes_per_value) {
  auto part = matrix;
  part.data = static_cast<char*>(matrix.data) + first * matrix.row_stride * bytes_per_value;
  part.num_rows = last - first;
  return part;
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

template <class Plan, class Run>
void Engine::in_batches(std::size_t num_samples, Progress const& progress, Plan const& plan, Run const& run) {
  bool const has_memory = has_own_memory(options_.backend);
  std::size_t const most = has_memory ? std::size_t{1} << 18U : std::size_t{1} << 16U; // larger batches are not faster
  std::size_t size = has_memory ? std::size_t{1} << 16U : std::size_t{1} << 13U;
  for (std::size_t first = 0; first < num_samples;) {
    std::size_t const last = plan(first, first + std::min(size, num_samples - first));
    Stopwatch const time;
    run(first, last);
    size = next_size(size, most, time.seconds());
    first = last;
    if (progress) progress(first, num_samples);
    if (first < num_samples) run_signal_handlers();
  }
}

Outcome Engine::run(SampleSet samples, Wanted const& wanted, Progress const& progress) {
  require_width(samples.num_neurons());
  Turn const turn;
  auto& inference = prepared();
  SampleBatch const batch(std::move(samples));
  Outcome outcome;
  outcome.activations.matrix.num_columns = num_outputs_;
  auto const plan = [&](std::size_t first, std::size_t end) {
    auto const part = batch.part(first, end);
    plan_for(shape_of(part));
    return first + std::min(part.num_samples(), inference.plan().batch);
  };
  in_batches(batch.num_samples(), progress, plan, [&](std::size_t first, std::size_t last) {
    bool const wants_activations = wanted.activations || wanted.sink;
    append(outcome, first, inference.infer(batch.part(first, last), {wants_activations, wanted.predictions}),
           wanted.sink);
  });
  return outcome;
}

Outcome Engine::run_in_place(DeviceInput const& samples, DeviceOutput const& activations, Progress const& progress) {
  require_width(samples.num_columns);
  if (activations.num_rows != samples.num_rows || activations.num_columns != num_outputs_)
    throw InputError(fmt::format("out has the shape ({}, {}), expected ({}, {})", activations.num_rows,
                                 activations.num_columns, samples.num_rows, num_outputs_));
  Turn const turn;
  auto& inference = prepared();
  auto* const in_place = dynamic_cast<InferenceOnDevice*>(&inference);
  if (in_place == nullptr)
    throw UsageError("this engine reads and writes no arrays of the device; take engine='varve'");
  auto const space = default_instance(options_.backend);
  Outcome outcome;
  auto const plan = [&](std::size_t first, std::size_t end) {
    plan_for({end - first, (end - first) * num_inputs_, false});
    return first + std::min(end - first, inference.plan().batch);
  };
  auto const bytes = options_.precision == Precision::double_precision ? sizeof(double) : sizeof(float);
  in_batches(samples.num_rows, progress, plan, [&](std::size_t first, std::size_t last) {
    append(outcome, first,
           in_place->infer_on_device(space.get(), rows_of(samples, first, last, bytes),
                                     rows_of(activations, first, last, bytes), first),
           {});
  });
  return outcome;
}

void Engine::require_width(std::size_t num_neurons) const {
  if (num_neurons == num_inputs_) return;
  throw InputError(fmt::format("{} has {} values per sample, expected {}, the inputs of the network",
                               options_.input_name, num_neurons, num_inputs_));
}

std::vector<std::string> Engine::plan_lines(InputShape const& input) {
  Turn const turn;
  auto& inference = prepared();
  plan_for(input);
  return to_text(inference.plan());
}

} // namespace varve::python
