#include "apps/train_report.hpp"

#include "apps/command.hpp"
#include "core/version.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {
namespace {

Json as_json(EpochResult const& epoch, TrainSummary const& summary) {
  Json entry = {
      {"epoch", epoch.epoch}, {"steps", epoch.num_steps}, {"rate", epoch.rate}, {"loss", epoch.training.mean()}};
  if (summary.has_labels()) entry["accuracy"] = epoch.training.accuracy();
  if (!epoch.validation) return entry;
  entry["validation_loss"] = epoch.validation->mean();
  if (summary.has_validation_labels()) entry["validation_accuracy"] = epoch.validation->accuracy();
  return entry;
}

/// The files of samples and answers.
Json files_of(TrainSummary const& summary) {
  Json json = {{"input", summary.files.samples}};
  auto const add = [&](char const* key, std::string const& file) {
    if (!file.empty()) json[key] = file;
  };
  add("labels", summary.files.labels);
  add("targets", summary.files.targets);
  add("validation", summary.validation_files.samples);
  add("validation_labels", summary.validation_files.labels);
  add("validation_targets", summary.validation_files.targets);
  return json;
}

/// The part of the report that says where what was trained.
Json report_begin(TrainOptions const& options, TrainSummary const& summary) {
  Json json = {{"command", "train"},
               {"version", provenance.version},
               {"numerics", kNumerics},
               {"commit", provenance.git_commit},
               {"network", options.network}};
  json.update(files_of(summary));
  json.update({{"backend", options.backend}, {"device", summary.devices.front().device}});
  add_devices(json, summary.devices);
  json["recipe"] = parse_json(summary.recipe, "recipe");
  return json;
}

Json as_json(TrainingPlan const& plan) {
  return {{"leaf", plan.leaf},
          {"micro_batch", plan.micro_batch},
          {"keep_every", plan.keep_every},
          {"streams_weights", plan.streams_weights},
          {"cut_layers", plan.num_cut_layers},
          {"strip_size", plan.num_cut_layers == 0 ? 0 : plan.strip_size},
          {"weight_bytes", plan.weight_bytes},
          {"group_bytes", plan.group_bytes},
          {"host_bytes", plan.host_bytes},
          {"dense_forward", plan.num_dense_forward},
          {"dense_backward", plan.num_dense_backward},
          {"series_layers", plan.num_series_layers},
          {"activation_bytes", plan.activation_bytes}};
}

/// The part of the time without a free processor from which on it is said.
constexpr double busy_part = 0.1;

Json as_json(TrainingTimes const& times) {
  return {{"steps", times.num_steps},
          {"leaves", times.num_leaves},
          {"compute_seconds", times.compute_seconds},
          {"exchange_seconds", times.exchange_seconds},
          {"wait_seconds", times.wait_seconds},
          {"exchange_bytes", times.exchange_bytes}};
}

Json as_json(PatternRecord const& change) {
  return {{"step", change.step},
          {"fraction", change.fraction},
          {"dropped", change.count.dropped},
          {"grown", change.count.dropped},
          {"returned", change.count.returned}};
}

} // namespace

void print_head(TrainOptions const& options, Recipe const& recipe, TrainSummary const& summary, Network const& network,
                std::size_t num_samples) {
  auto const& plan = summary.plan;
  auto shown = report_begin(options, summary);
  shown.update({{"layers", network.num_layers()},
                {"inputs", network.num_inputs()},
                {"outputs", network.num_outputs()},
                {"edges", network.num_edges()},
                {"samples", num_samples},
                {"step", std::min(recipe.batch, num_samples)},
                {"plan", as_json(plan)},
                {"unit", recipe.pattern.until > 1.0 ? "steps" : "of all steps"},
                {"cut", plan.num_cut_layers == 1 ? "1 layer" : fmt::format("{} layers", plan.num_cut_layers)}});
  if (summary.devices.size() > 1) shown["several"] = summary.devices.size();
  if (plan.keep_every != 1) shown["kept"] = plan.keep_every;
  if (plan.streams_weights)
    shown["host"] = line_of(" of the device and {plan/host_bytes:B} of the host, which streams them", shown);
  if (plan.streams_weights && plan.num_cut_layers > 0)
    shown["strips"] = line_of("{cut} in strips of at most {plan/strip_size} weights", shown);
  print_lines({"network   {network}: {layers} layers, {inputs} inputs, {outputs} outputs, {edges:edges}",
               "input     {input}: {samples} samples"},
              shown);
  print_devices(shown);
  print_lines(
      {"engine    varve on {backend}: {device}, {recipe/precision}[; {several} ranks]",
       "recipe    {recipe/loss}, {recipe/optimizer}, rate {recipe/rate} ({recipe/rate schedule}), {step} "
       "samples a step, {recipe/epochs} epochs, seed {recipe/seed}",
       "pattern   {recipe/pattern}: moves {recipe/pattern fraction} of the edges ({recipe/pattern schedule}) "
       "every {recipe/pattern every} steps, until {recipe/pattern until} {unit}",
       plan.num_dense_forward + plan.num_dense_backward > 0
           ? "formats   dense in {plan/dense_forward} layers forward and {plan/dense_backward} backward, else csr"
           : "",
       plan.num_series_layers > 0 ? "launches  {plan/series_layers} layers in series, several in a launch" : "",
       "memory    weights {plan/weight_bytes:B}[{host}][ ({strips})][, sums of several layers "
       "{plan/group_bytes:B}], activations {plan/activation_bytes:B} of {plan/micro_batch} samples at a time[, "
       "kept of every {kept} layers]"},
      shown);
}

void print_ranks(TrainSummary const& summary) {
  if (summary.times.size() < 2) return;
  std::vector<std::string> leaves;
  TrainingTimes all;
  for (auto const& rank : summary.times) {
    leaves.push_back(std::to_string(rank.num_leaves));
    all.compute_seconds += rank.compute_seconds;
    all.exchange_seconds += rank.exchange_seconds;
    all.wait_seconds += rank.wait_seconds;
    all.exchange_bytes += rank.exchange_bytes;
  }
  auto const num_ranks = static_cast<double>(summary.times.size());
  Json shown = {{"leaves", list_of(leaves)},
                {"compute", all.compute_seconds / num_ranks},
                {"exchange", all.exchange_seconds / num_ranks},
                {"wait", all.wait_seconds / num_ranks},
                {"bytes", all.exchange_bytes},
                {"way", summary.exchange_way}};
  double const busy = std::ranges::max(summary.processor_waits);
  if (busy > busy_part * summary.seconds) shown["busy"] = busy;
  print_lines({"ranks     leaves {leaves}; on average computing {compute:s}, exchange {exchange:s}, waiting {wait:s}; "
               "{bytes:B} through {way}[; up to {busy:s} without a free processor: other work, or too many threads]"},
              shown);
}

Json train_report(TrainOptions const& options, TrainSummary const& summary) {
  Json epochs = Json::array();
  for (auto const& epoch : summary.epochs) epochs.push_back(as_json(epoch, summary));
  Json changes = Json::array();
  for (auto const& change : summary.changes) changes.push_back(as_json(change));
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < summary.times.size(); ++rank) {
    ranks.push_back(as_json(summary.times[rank]));
    ranks.back()["processor_wait_seconds"] = summary.processor_waits[rank];
  }
  auto json = report_begin(options, summary);
  json.update({{"plan", as_json(summary.plan)},
               {"steps", summary.num_steps},
               {"epochs", epochs},
               {"stopped_by", summary.stopped_by},
               {"best_epoch", nullptr},
               {"pattern_changes", changes},
               {"samples", summary.num_samples},
               {"seconds", summary.seconds},
               {"run", {{"ranks", ranks}, {"exchange", summary.exchange_way}}},
               {"weights_hash", fmt::format("{:016x}", summary.weights_hash)}});
  if (summary.best_epoch > 0) json["best_epoch"] = summary.best_epoch;
  return json;
}

TrainProgress::TrainProgress(std::size_t samples_per_epoch, std::uint64_t num_epochs, double num_taken)
    : samples_per_epoch_(samples_per_epoch),
      num_samples_(static_cast<double>(samples_per_epoch) * static_cast<double>(num_epochs)),
      num_before_(num_taken),
      is_terminal_(static_cast<bool>(terminal_progress(""))) {}

void TrainProgress::show(std::uint64_t epoch, std::size_t num_taken) {
  constexpr double interval = 0.2;
  if (!is_terminal_ || num_taken >= samples_per_epoch_) return;
  double const seconds = time_.seconds();
  if (seconds - last_seconds_ < interval) return;
  last_seconds_ = seconds;
  double const all_taken =
      static_cast<double>(epoch) * static_cast<double>(samples_per_epoch_) + static_cast<double>(num_taken);
  double const rate = (all_taken - num_before_) / seconds;
  // of one width, so that no character of the line before stays
  auto const what = fmt::format("epoch {:<4}{:>9.0f} samples/s, {:>9} left", epoch + 1, rate,
                                readable_seconds((num_samples_ - all_taken) / rate));
  terminal_progress(what)(num_taken, samples_per_epoch_);
  is_shown_ = true;
}

void TrainProgress::clear() {
  if (is_shown_) terminal_progress("")(1, 1); // a line that is complete removes itself
  is_shown_ = false;
}

} // namespace varve
