#include "apps/train_report.hpp"

#include "apps/command.hpp"
#include "core/printable.hpp"
#include "core/version.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {
namespace {

nlohmann::ordered_json as_json(EpochResult const& epoch, TrainSummary const& summary) {
  nlohmann::ordered_json entry = {
      {"epoch", epoch.epoch}, {"steps", epoch.num_steps}, {"rate", epoch.rate}, {"loss", epoch.training.mean()}};
  if (summary.has_labels()) entry["accuracy"] = epoch.training.accuracy();
  if (!epoch.validation) return entry;
  entry["validation_loss"] = epoch.validation->mean();
  if (summary.has_validation_labels()) entry["validation_accuracy"] = epoch.validation->accuracy();
  return entry;
}

/// The files of samples and answers.
nlohmann::ordered_json files_of(TrainSummary const& summary) {
  nlohmann::ordered_json json = {{"input", summary.files.samples}};
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
nlohmann::ordered_json report_begin(TrainOptions const& options, TrainSummary const& summary) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  nlohmann::ordered_json hosts = nlohmann::ordered_json::array();
  for (auto const& rank : summary.devices) {
    devices.push_back(rank.device);
    hosts.push_back(rank.host);
  }
  nlohmann::ordered_json json = {{"command", "train"},
                                 {"version", provenance.version},
                                 {"numerics", kNumerics},
                                 {"commit", provenance.git_commit},
                                 {"network", options.network}};
  json.update(files_of(summary));
  json.update({{"backend", options.backend},
               {"device", summary.devices.front().device},
               {"ranks", summary.devices.size()},
               {"devices", devices},
               {"hosts", hosts},
               {"recipe", parse_json(summary.recipe, "recipe")}});
  return json;
}

nlohmann::ordered_json as_json(TrainingPlan const& plan) {
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

nlohmann::ordered_json as_json(TrainingTimes const& times) {
  return {{"steps", times.num_steps},
          {"leaves", times.num_leaves},
          {"compute_seconds", times.compute_seconds},
          {"exchange_seconds", times.exchange_seconds},
          {"wait_seconds", times.wait_seconds},
          {"exchange_bytes", times.exchange_bytes}};
}

nlohmann::ordered_json as_json(PatternRecord const& change) {
  return {{"step", change.step},
          {"fraction", change.fraction},
          {"dropped", change.count.dropped},
          {"grown", change.count.dropped},
          {"returned", change.count.returned}};
}

void print_devices(std::vector<RankDevice> const& devices) {
  constexpr std::size_t most = 16; // lines on the terminal; the JSON report has all ranks
  for (std::size_t rank = 0; devices.size() > 1 && rank < std::min(devices.size(), most); ++rank) {
    fmt::print("rank      {} on {}: {}{}\n", rank, devices[rank].host, devices[rank].device,
               rank + 1 == most && devices.size() > most ? ", ..." : "");
  }
}

/// Says which layers are cut, if any.
std::string strips_of(TrainingPlan const& plan) {
  if (plan.num_cut_layers == 0) return "";
  return fmt::format(" ({} in strips of at most {} weights)",
                     plan.num_cut_layers == 1 ? "1 layer" : fmt::format("{} layers", plan.num_cut_layers),
                     plan.strip_size);
}

} // namespace

void print_head(TrainOptions const& options, Recipe const& recipe, TrainSummary const& summary, Network const& network,
                std::size_t num_samples) {
  auto const& plan = summary.plan;
  fmt::print("network   {}: {} layers, {} inputs, {} outputs, {}\n", printable(options.network), network.num_layers(),
             network.num_inputs(), network.num_outputs(),
             with_prefix(static_cast<double>(network.num_edges()), "edges"));
  fmt::print("input     {}: {} samples\n", printable(options.input), num_samples);
  print_devices(summary.devices);
  auto const num_ranks = summary.devices.size();
  fmt::print("engine    varve on {}: {}, {}{}\n", options.backend, summary.devices.front().device, options.precision,
             num_ranks == 1 ? "" : fmt::format("; {} ranks", num_ranks));
  fmt::print("recipe    {}, {}, rate {} ({}), {} samples a step, {} epochs, seed {}\n", options.loss, options.optimizer,
             recipe.rate.rate, options.rate_schedule, std::min(recipe.batch, num_samples), recipe.epochs, recipe.seed);
  if (recipe.pattern.kind != PatternKind::keep) {
    auto const& pattern = recipe.pattern;
    fmt::print("pattern   {}: moves {} of the edges ({}) every {} steps, until {} {}\n", options.pattern,
               pattern.fraction, options.pattern_schedule, pattern.every, pattern.until,
               pattern.until > 1.0 ? "steps" : "of all steps");
  }
  if (plan.num_dense_forward + plan.num_dense_backward > 0)
    fmt::print("formats   dense in {} layers forward and {} backward, else csr\n", plan.num_dense_forward,
               plan.num_dense_backward);
  if (plan.num_series_layers > 0)
    fmt::print("launches  {} layers in series, several in a launch\n", plan.num_series_layers);
  auto const host = fmt::format(" of the device and {} of the host, which streams them{}",
                                with_prefix(static_cast<double>(plan.host_bytes), "B"), strips_of(plan));
  auto const groups =
      fmt::format(", sums of several layers {}", with_prefix(static_cast<double>(plan.group_bytes), "B"));
  fmt::print("memory    weights {}{}{}, activations {} of {} samples at a time{}\n",
             with_prefix(static_cast<double>(plan.weight_bytes), "B"), plan.streams_weights ? host : std::string(),
             plan.group_bytes > 0 ? groups : std::string(),
             with_prefix(static_cast<double>(plan.activation_bytes), "B"), plan.micro_batch,
             plan.keep_every == 1 ? std::string() : fmt::format(", kept of every {} layers", plan.keep_every));
}

void print_ranks(TrainSummary const& summary) {
  if (summary.times.size() < 2) return;
  std::string leaves;
  TrainingTimes all;
  for (auto const& rank : summary.times) {
    leaves += fmt::format("{}{}", leaves.empty() ? "" : ", ", rank.num_leaves);
    all.compute_seconds += rank.compute_seconds;
    all.exchange_seconds += rank.exchange_seconds;
    all.wait_seconds += rank.wait_seconds;
    all.exchange_bytes += rank.exchange_bytes;
  }
  auto const num_ranks = static_cast<double>(summary.times.size());
  fmt::print("ranks     leaves {}; on average computing {}, exchange {}, waiting {}; {} through {}\n", leaves,
             readable_seconds(all.compute_seconds / num_ranks), readable_seconds(all.exchange_seconds / num_ranks),
             readable_seconds(all.wait_seconds / num_ranks), with_prefix(all.exchange_bytes, "B"),
             summary.exchange_way);
}

nlohmann::ordered_json train_report(TrainOptions const& options, TrainSummary const& summary) {
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (auto const& epoch : summary.epochs) epochs.push_back(as_json(epoch, summary));
  nlohmann::ordered_json changes = nlohmann::ordered_json::array();
  for (auto const& change : summary.changes) changes.push_back(as_json(change));
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (auto const& times : summary.times) ranks.push_back(as_json(times));
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

} // namespace varve
