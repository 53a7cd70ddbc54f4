#include <varve/inference.hpp>

#include "core/stopwatch.hpp"
#include "engine/inference.hpp"
#include "library/crossing.hpp"
#include "library/engine_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace varve::v0_3 {
namespace {

varve::InferenceOptions to_private(InferenceOptions const& options) {
  varve::InferenceOptions own;
  own.backend = chosen(options.backend);
  own.precision = to_private(options.precision);
  varve::set_named(own, {options.engine, options.reductions, options.edge_order, options.formats, options.kernel});
  own.batch = options.batch;
  own.expected_samples = options.expected_samples;
  own.memory_limit = options.memory_limit;
  own.device_memory_limit = options.device_memory_limit;
  return own;
}

/// The number of samples of the next batch: twice as many as before while batches are short, half as many if one took
/// more than a second.
std::size_t next_size(std::size_t size, double seconds) {
  constexpr double short_batch = 0.3;
  constexpr double long_batch = 1.0;
  if (seconds < short_batch) return 2 * size;
  return seconds > long_batch ? std::max<std::size_t>(1, size / 2) : size;
}

void append(InferenceResult& result, varve::SampleSet& activations, varve::BatchResult const& batch) {
  result.live_samples.insert(result.live_samples.end(), batch.live_samples.begin(), batch.live_samples.end());
  result.activation_hash += batch.activation_hash;
  if (batch.activations.num_samples() > 0) varve::append_rows(activations, batch.activations);
  result.predictions.insert(result.predictions.end(), batch.predictions.begin(), batch.predictions.end());
  for (double const seconds : batch.loop_seconds) result.loop_seconds += seconds;
}

} // namespace

struct PreparedNetwork::Contents {
  Contents(Network const& layers, InferenceOptions const& wanted)
      : network(layers), options(to_private(wanted)), precision(wanted.precision) {
    require_kokkos();
    Turn const turn;
    inference.reset(varve::prepare(*network.contents().source, options).release());
  }

  /// Plans for an input unless the present plan is for one at least as large and of the same kind.
  void plan_for(varve::InputShape const& input) {
    if (planned && planned->num_samples >= input.num_samples && planned->has_one_value == input.has_one_value) return;
    planned.reset();
    inference->plan(input);
    planned = input;
  }

  /// Throws InputError unless samples of this width fit the network.
  void require_width(std::size_t width) const {
    if (width != network.num_inputs())
      throw InputError(fmt::format("the samples have {} values each, expected {}, the inputs of the network", width,
                                   network.num_inputs()));
  }

  Network network; ///< which `inference` reads again if memory is short
  varve::InferenceOptions options;
  Precision precision;
  std::unique_ptr<varve::Inference, FreeInTurn> inference;
  std::optional<varve::InputShape> planned;
};

PreparedNetwork::PreparedNetwork(Network const& network, InferenceOptions const& options)
    : contents_(std::make_unique<Contents>(network, options)) {}
PreparedNetwork::~PreparedNetwork() = default;
PreparedNetwork::PreparedNetwork(PreparedNetwork&&) noexcept = default;
PreparedNetwork& PreparedNetwork::operator=(PreparedNetwork&&) noexcept = default;

std::size_t PreparedNetwork::num_inputs() const { return contents_->network.num_inputs(); }
std::size_t PreparedNetwork::num_outputs() const { return contents_->network.num_outputs(); }
Backend PreparedNetwork::backend() const { return to_public(contents_->options.backend); }
Precision PreparedNetwork::precision() const { return contents_->precision; }

InferenceResult PreparedNetwork::infer(Samples const& samples, Wanted wanted, Progress const& progress) {
  auto& own = *contents_;
  own.require_width(samples.num_neurons());
  bool const has_memory = varve::has_own_memory(own.options.backend);
  std::size_t const most = std::size_t{1} << (has_memory ? 18U : 16U); // larger batches are not faster
  std::size_t size = std::size_t{1} << (has_memory ? 16U : 13U);
  auto const& batch = samples.contents().batch;
  InferenceResult result;
  varve::SampleSet activations;
  activations.matrix.num_columns = num_outputs();
  auto const infer_next = [&](std::size_t first) {
    Turn const turn;
    auto const part = batch.part(first, first + std::min({size, most, batch.num_samples() - first}));
    own.plan_for(varve::shape_of(part));
    std::size_t const last = first + std::min(part.num_samples(), own.inference->plan().batch);
    varve::Stopwatch const time;
    append(result, activations,
           own.inference->infer(batch.part(first, last), {wanted.activations, wanted.predictions}));
    size = next_size(size, time.seconds());
    return last;
  };
  for (std::size_t first = 0; first < batch.num_samples();) {
    first = infer_next(first);
    if (progress) progress(first, batch.num_samples());
  }
  if (wanted.activations) result.activations = to_public(std::move(activations.matrix));
  return result;
}

InferenceResult PreparedNetwork::infer_on_device(Backend backend, Precision precision, void const* space,
                                                 DeviceInput const& samples, DeviceOutput const& activations) {
  auto& own = *contents_;
  if (backend != this->backend())
    throw UsageError(fmt::format("the execution space is of the backend {}, but the network was prepared for {}",
                                 v0_3::to_string(backend), v0_3::to_string(this->backend())));
  if (precision != own.precision)
    throw UsageError(own.precision == Precision::double_precision
                         ? "the Views hold float, but the network was prepared for double"
                         : "the Views hold double, but the network was prepared for float");
  auto* const engine = dynamic_cast<varve::InferenceOnDevice*>(own.inference.get());
  if (engine == nullptr)
    throw UsageError(fmt::format("the engine {} takes no Views; take varve", varve::to_string(own.options.engine)));
  own.require_width(samples.num_columns);
  if (activations.num_rows != samples.num_rows || activations.num_columns != num_outputs())
    throw InputError(fmt::format("the View of activations has shape {} x {}, expected {} samples x {} outputs",
                                 activations.num_rows, activations.num_columns, samples.num_rows, num_outputs()));
  InferenceResult result;
  varve::SampleSet none;
  auto const bytes_per_value = precision == Precision::double_precision ? sizeof(double) : sizeof(float);
  for (std::size_t first = 0; first < samples.num_rows;) {
    Turn const turn;
    own.plan_for({samples.num_rows - first, (samples.num_rows - first) * samples.num_columns, false});
    std::size_t const count = std::min(samples.num_rows - first, own.inference->plan().batch);
    auto const* const inputs = static_cast<char const*>(samples.data) + first * samples.row_stride * bytes_per_value;
    auto* const outputs = static_cast<char*>(activations.data) + first * activations.row_stride * bytes_per_value;
    append(result, none,
           engine->infer_on_device(
               space, {inputs, count, samples.num_columns, samples.row_stride, samples.column_stride},
               {outputs, count, activations.num_columns, activations.row_stride, activations.column_stride}, first));
    first += count;
  }
  return result;
}

std::vector<std::string> PreparedNetwork::plan_lines(std::size_t num_samples) {
  auto& own = *contents_;
  auto const neurons = num_inputs();
  if (num_samples > std::numeric_limits<EdgeOffset>::max() / std::max<std::size_t>(1, neurons))
    throw UsageError(fmt::format("{} samples of {} neurons cannot be counted", num_samples, neurons));
  Turn const turn;
  own.plan_for({num_samples, num_samples * neurons, false});
  return varve::to_text(own.inference->plan());
}

} // namespace varve::v0_3
