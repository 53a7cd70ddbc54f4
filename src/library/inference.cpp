#include <varve/inference.hpp>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "engine/inference.hpp"
#include "library/crossing.hpp"
#include "library/engine_options.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace varve::v0_3 {
namespace {

/// The number of samples of the next batch: twice as many as before while batches are short, half as many if one took
/// more than a second.
std::size_t next_size(std::size_t size, double seconds) {
  constexpr double short_batch = 0.3;
  constexpr double long_batch = 1.0;
  if (seconds < short_batch) return 2 * size;
  return seconds > long_batch ? std::max<std::size_t>(1, size / 2) : size;
}

void append(InferenceResult& result, varve::BatchResult const& batch) {
  result.live_samples.insert(result.live_samples.end(), batch.live_samples.begin(), batch.live_samples.end());
  result.activation_hash += batch.activation_hash;
  result.predictions.insert(result.predictions.end(), batch.predictions.begin(), batch.predictions.end());
  for (double const seconds : batch.loop_seconds) result.loop_seconds += seconds;
}

/// The rows [first, last) of a matrix on a device.
template <class Address>
DeviceMatrix<Address> rows_of(DeviceMatrix<Address> const& matrix, std::size_t first, std::size_t last,
                              std::size_t bytes_per_value) {
  using Byte = std::conditional_t<std::is_same_v<Address, void*>, char, char const>;
  return {static_cast<Byte*>(matrix.data) + first * matrix.row_stride * bytes_per_value, last - first,
          matrix.num_columns, matrix.row_stride, matrix.column_stride};
}

} // namespace

struct PreparedNetwork::Contents {
  Contents(Network const& layers, InferenceOptions const& wanted) : network(layers), options(to_private(wanted)) {
    require_kokkos();
    Turn const turn;
    inference.reset(varve::prepare(*network.contents().source, options).release());
  }

  /// Plans for an input unless the present plan is for one at least as large and of the same kind. Returns the number
  /// of samples of the next batch.
  std::size_t plan_for(varve::InputShape const& input) {
    if (!planned || planned->num_samples < input.num_samples || planned->has_one_value != input.has_one_value) {
      planned.reset();
      inference->plan(input);
      planned = input;
    }
    return std::min(input.num_samples, inference->plan().batch);
  }

  /// The lines of the plan for an input.
  std::vector<std::string> lines_for(varve::InputShape const& input) {
    Turn const turn;
    plan_for(input);
    return varve::to_text(inference->plan());
  }

  /// Throws InputError unless samples of this width fit the network.
  void require_width(std::size_t width) const {
    if (width != network.num_inputs())
      fail<InputError>("the samples have {} values each, expected {}, the inputs of the network", width,
                       network.num_inputs());
  }

  /// Runs samples in batches, each in a turn of its own and of about a second at most, or, if `is_whole`, as large as
  /// memory allows. plan(first, last) says how many of these samples the batch takes, and run(first, last) runs them.
  template <class Plan, class Run>
  void in_batches(std::size_t num_samples, bool is_whole, Progress const& progress, Plan const& plan, Run const& run) {
    bool const has_memory = varve::has_own_memory(options.backend);
    std::size_t const most = is_whole ? num_samples : std::size_t{1} << (has_memory ? 18U : 16U); // more is not faster
    std::size_t size = is_whole ? num_samples : std::size_t{1} << (has_memory ? 16U : 13U);
    for (std::size_t first = 0; first < num_samples;) {
      {
        Turn const turn;
        std::size_t const last = first + plan(first, first + std::min({size, most, num_samples - first}));
        varve::Stopwatch const time;
        run(first, last);
        size = std::min(most, next_size(size, time.seconds()));
        first = last;
      }
      if (progress) progress(first, num_samples);
    }
  }

  Network network; ///< which `inference` reads again if memory is short
  varve::InferenceOptions options;
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
Backend PreparedNetwork::backend() const { return contents_->options.backend; }
Precision PreparedNetwork::precision() const { return contents_->options.precision; }

InferenceResult PreparedNetwork::infer(Samples const& samples, Wanted const& wanted, Progress const& progress) {
  auto& own = *contents_;
  own.require_width(samples.num_neurons());
  auto const& batch = samples.contents().batch;
  bool const wants_activations = wanted.activations || wanted.take_activations;
  InferenceResult result;
  varve::SampleSet activations;
  activations.matrix.num_columns = num_outputs();
  auto const plan = [&](std::size_t first, std::size_t last) {
    return own.plan_for(varve::shape_of(batch.part(first, last)));
  };
  own.in_batches(batch.num_samples(), false, progress, plan, [&](std::size_t first, std::size_t last) {
    auto found = own.inference->infer(batch.part(first, last), {wants_activations, wanted.predictions});
    append(result, found);
    if (wanted.take_activations) {
      wanted.take_activations(first, found.activations.matrix);
    } else if (found.activations.num_samples() > 0) {
      varve::append_rows(activations, found.activations);
    }
  });
  if (wanted.activations) result.activations = std::move(activations.matrix);
  return result;
}

InferenceResult PreparedNetwork::infer_on_device(Backend backend, Precision precision, void const* space,
                                                 DeviceInput const& samples, DeviceOutput const& activations,
                                                 Progress const& progress) {
  auto& own = *contents_;
  if (backend != this->backend())
    fail<UsageError>("the execution space is of the backend {}, but the network was prepared for {}",
                     v0_3::to_string(backend), v0_3::to_string(this->backend()));
  if (precision != own.options.precision)
    throw UsageError(own.options.precision == Precision::double_precision
                         ? "the Views hold float, but the network was prepared for double"
                         : "the Views hold double, but the network was prepared for float");
  auto* const engine = dynamic_cast<varve::InferenceOnDevice*>(own.inference.get());
  if (engine == nullptr)
    fail<UsageError>("the engine {} takes no Views; take varve", varve::to_string(own.options.engine));
  own.require_width(samples.num_columns);
  if (activations.num_rows != samples.num_rows || activations.num_columns != num_outputs())
    fail<InputError>("the View of activations has shape {} x {}, expected {} samples x {} outputs",
                     activations.num_rows, activations.num_columns, samples.num_rows, num_outputs());
  InferenceResult result;
  auto const bytes_per_value = precision == Precision::double_precision ? sizeof(double) : sizeof(float);
  auto const plan = [&](std::size_t first, std::size_t last) {
    return own.plan_for({last - first, (last - first) * samples.num_columns, false});
  };
  own.in_batches(samples.num_rows, !progress, progress, plan, [&](std::size_t first, std::size_t last) {
    append(result, engine->infer_on_device(space, rows_of(samples, first, last, bytes_per_value),
                                           rows_of(activations, first, last, bytes_per_value), first));
  });
  return result;
}

std::vector<std::string> PreparedNetwork::plan_lines(std::size_t num_samples) {
  auto const neurons = num_inputs();
  if (num_samples > std::numeric_limits<EdgeOffset>::max() / std::max<std::size_t>(1, neurons))
    fail<UsageError>("{} samples of {} neurons cannot be counted", num_samples, neurons);
  return contents_->lines_for({num_samples, num_samples * neurons, false});
}

std::vector<std::string> PreparedNetwork::plan_lines(Samples const& samples) {
  contents_->require_width(samples.num_neurons());
  return contents_->lines_for(varve::shape_of(samples.contents().batch));
}

} // namespace varve::v0_3
