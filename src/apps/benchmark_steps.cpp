#include "apps/benchmark_steps.hpp"

#include "apps/command.hpp"
#include "core/error.hpp"
#include "passes/reduced_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace varve {
namespace {

constexpr std::size_t kept_bytes = std::size_t{1} << 28U; ///< memory for rewritten layers while widths are read

/// The launches of the layer loop, without those before and after it.
std::vector<TracedSpan> launches_of_loop(std::vector<TracedSpan> const& spans) {
  auto const loop = std::ranges::find_if(
      spans, [](TracedSpan const& span) { return span.is_region && span.name == "varve::layer_loop"; });
  std::vector<TracedSpan> launches;
  if (loop == spans.end()) return launches;
  std::ranges::copy_if(spans, std::back_inserter(launches), [&](TracedSpan const& span) {
    return !span.is_region && span.begin >= loop->begin && span.end <= loop->end;
  });
  return launches;
}

/// True if the launch takes samples through layers, rather than listing or moving them.
bool is_forward(TracedSpan const& launch) { return launch.name.find("_forward") != std::string::npos; }

double share(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

void judge_by(Ceilings const& ceilings, StepMeasurement& measured) {
  measured.fma_share = share(share(measured.fma, measured.seconds), ceilings.fma_per_second);
  measured.copy_share = share(share(measured.least_bytes, measured.seconds), ceilings.copy_bytes_per_second);
  measured.gather_share = share(share(measured.gathered_bytes, measured.seconds), ceilings.gather_bytes_per_second);
  measured.launch_share = share(static_cast<double>(measured.num_launches) * ceilings.launch_seconds,
                                measured.seconds + measured.other_seconds);
}

void count_work(std::vector<std::size_t> const& widths, double scalar_bytes, StepMeasurement& measured) {
  auto const& step = measured.step;
  auto const samples = static_cast<double>(measured.num_samples);
  auto const activations = static_cast<double>(widths.at(step.first_layer) + widths.at(step.last_layer + 1));
  measured.fma = static_cast<double>(step.choice.num_edges) * samples;
  measured.gathered_bytes = measured.fma * scalar_bytes;
  measured.least_bytes = (static_cast<double>(step.choice.num_stored) + activations * samples) * scalar_bytes;
}

std::string layers_of(Step const& step) {
  return step.num_layers() == 1 ? std::to_string(step.first_layer)
                                : fmt::format("{}-{}", step.first_layer, step.last_layer);
}

/// The format as the plan's text names it: the first layer may be read from a second copy in another one.
std::string format_of(Step const& step) { return to_json(StepRun{1, step})["format"]; }

std::string percent(double part) { return fmt::format("{:.3g} %", 100.0 * part); }

} // namespace

std::vector<std::size_t> widths_of(NetworkSource const& network, Reductions const& reductions) {
  auto const read = [](NetworkSource const& source) {
    std::vector<std::size_t> widths;
    for (std::size_t number = 0; number < source.num_layers(); ++number) {
      auto const layer = source.layer(number);
      if (number == 0) widths.push_back(layer.num_inputs());
      widths.push_back(layer.num_outputs());
    }
    return widths;
  };
  if (!reductions.rewrites_network()) return read(network);
  return read(ReducedNetwork(network, {reductions.merge_neurons, reductions.fold_constants, reductions.drop_unread},
                             kept_bytes));
}

std::vector<StepMeasurement> measure_steps(TracedRun const& traced, std::vector<std::size_t> const& widths,
                                           Precision precision, Ceilings const& ceilings) {
  std::vector<StepMeasurement> steps;
  StepMeasurement before_first;
  for (auto const& launch : launches_of_loop(traced.spans)) {
    if (is_forward(launch)) {
      auto const number = steps.size();
      bool const is_planned = number < traced.plan.steps.size() && number < traced.step_samples.size() &&
                              launch.name.starts_with(entry_of(traced.plan.steps[number].kernel).label);
      if (!is_planned)
        throw ResourceError(
            fmt::format("launch {} of the trace is {}, which is not the plan's step", number, launch.name));
      steps.push_back(number == 0 ? std::exchange(before_first, {}) : StepMeasurement());
      steps.back().step = traced.plan.steps[number];
      steps.back().num_samples = traced.step_samples[number];
    }
    auto& measured = steps.empty() ? before_first : steps.back();
    (is_forward(launch) ? measured.seconds : measured.other_seconds) += launch.end - launch.begin;
    ++measured.num_launches;
  }
  for (auto& measured : steps) {
    count_work(widths, precision == Precision::double_precision ? 8.0 : 4.0, measured);
    judge_by(ceilings, measured);
  }
  return steps;
}

nlohmann::ordered_json as_json(StepMeasurement const& measured) {
  auto const& step = measured.step;
  return {{"first_layer", step.first_layer},
          {"last_layer", step.last_layer},
          {"kernel", to_string(step.kernel)},
          {"format", format_of(step)},
          {"launches", measured.num_launches},
          {"seconds", measured.seconds},
          {"other_seconds", measured.other_seconds},
          {"samples", measured.num_samples},
          {"edges", step.choice.num_edges},
          {"stored_weights", step.choice.num_stored},
          {"fma", measured.fma},
          {"least_bytes", measured.least_bytes},
          {"gathered_bytes", measured.gathered_bytes},
          {"fma_share", measured.fma_share},
          {"copy_share", measured.copy_share},
          {"gather_share", measured.gather_share},
          {"launch_share", measured.launch_share}};
}

nlohmann::ordered_json as_json(Ceilings const& ceilings) {
  return {{"copy_bytes", ceilings.copy_bytes},
          {"copy_bytes_per_second", ceilings.copy_bytes_per_second},
          {"gather_bytes_per_second", ceilings.gather_bytes_per_second},
          {"far_gather_bytes_per_second", ceilings.far_gather_bytes_per_second},
          {"fma_per_second", ceilings.fma_per_second},
          {"launch_seconds", ceilings.launch_seconds}};
}

void print_steps(std::vector<StepMeasurement> const& steps, std::size_t most) {
  if (steps.empty() || most == 0) return;
  auto longest = steps;
  std::ranges::sort(longest, [](StepMeasurement const& one, StepMeasurement const& other) {
    if (one.seconds != other.seconds) return one.seconds > other.seconds;
    return one.step.first_layer < other.step.first_layer;
  });
  longest.resize(std::min(longest.size(), most));
  std::ranges::sort(longest, {}, [](StepMeasurement const& one) { return one.step.first_layer; });
  double kernels = 0.0;
  double others = 0.0;
  for (auto const& measured : steps) {
    kernels += measured.seconds;
    others += measured.other_seconds;
  }
  fmt::print("  traced: {} steps, kernels {}, other launches {}; the longest:\n", steps.size(),
             readable_seconds(kernels), readable_seconds(others));
  fmt::print("  {:>9} {:10} {:28} {:>9} {:>9} {:>8} {:>9} {:>9}  {:>8} {:>8} {:>8} {:>8}\n", "layers", "kernel",
             "format", "time", "others", "samples", "bytes", "fma", "of fma", "of copy", "gather", "launch");
  for (auto const& measured : longest) {
    fmt::print("  {:>9} {:10} {:28} {:>9} {:>9} {:>8} {:>9} {:>9}  {:>8} {:>8} {:>8} {:>8}\n", layers_of(measured.step),
               to_string(measured.step.kernel), format_of(measured.step), readable_seconds(measured.seconds),
               readable_seconds(measured.other_seconds), measured.num_samples, with_prefix(measured.least_bytes, "B"),
               with_prefix(measured.fma, ""), percent(measured.fma_share), percent(measured.copy_share),
               percent(measured.gather_share), percent(measured.launch_share));
  }
}

} // namespace varve
