#include "training/trainer.hpp"

#include "core/error.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/output_file.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <tuple>
#include <type_traits>
#include <utility>

namespace varve {

namespace {

/// Calls visit(key, number) for each number of a progress but the last, which is there after a best epoch only.
template <class Progress, class Visit>
void for_each_number(Progress& progress, Visit const& visit) {
  visit("steps", progress.num_steps);
  visit("epoch_loss", progress.epoch.loss);
  visit("epoch_samples", progress.epoch.num_samples);
  visit("epoch_right", progress.epoch.num_right);
  visit("epoch_dropped", progress.pattern.dropped);
  visit("epoch_returned", progress.pattern.returned);
  visit("best_epoch", progress.best_epoch);
}

/// The numbers of an epoch in the order in which checkpoints hold them.
std::array<double, 11> numbers_of(EpochResult const& result) {
  auto const validation = result.validation.value_or(LossSum{});
  auto const count = [](auto number) { return static_cast<double>(number); };
  return {count(result.epoch),
          count(result.num_steps),
          result.rate,
          result.training.loss,
          count(result.training.num_samples),
          count(result.training.num_right),
          validation.loss,
          result.validation ? count(validation.num_samples) : -1.0,
          count(validation.num_right),
          count(result.pattern.dropped),
          count(result.pattern.returned)};
}

constexpr std::size_t numbers_per_epoch = std::tuple_size_v<decltype(numbers_of({}))>;

} // namespace

std::string to_json(TrainingProgress const& progress) {
  nlohmann::ordered_json json;
  for_each_number(progress, [&](char const* key, auto number) { json[key] = number; });
  if (progress.best_epoch > 0) json["best_validation_loss"] = progress.best_validation_loss;
  return json_text(json);
}

TrainingProgress progress_from(std::string const& json, std::string const& place) {
  auto const parsed = parse_json(json, place);
  try {
    TrainingProgress progress;
    for_each_number(progress, [&]<class Number>(char const* key, Number& number) {
      if constexpr (std::is_same_v<Number, double>) {
        number = real_of(parsed.at(key));
      } else {
        number = parsed.at(key).get<Number>();
      }
    });
    if (progress.best_epoch > 0) progress.best_validation_loss = real_of(parsed.at("best_validation_loss"));
    return progress;
  } catch (nlohmann::json::exception const&) {
    throw InputError(place + ": found no progress of a training, expected its steps, sums and best epoch");
  }
}

std::vector<double> to_numbers(std::vector<EpochResult> const& epochs) {
  std::vector<double> numbers;
  for (auto const& epoch : epochs) std::ranges::copy(numbers_of(epoch), std::back_inserter(numbers));
  return numbers;
}

std::vector<EpochResult> epochs_from(std::vector<double> const& numbers, std::string const& place) {
  auto const fail = [&] { throw InputError(place + ": found no epochs of a training, expected their steps and sums"); };
  auto const count = [&](double number) {
    if (!(number >= 0.0 && number <= 0x1p53)) fail();
    return static_cast<std::uint64_t>(number);
  };
  if (numbers.size() % numbers_per_epoch != 0) fail();
  std::vector<EpochResult> epochs;
  for (auto const* number = numbers.data(); epochs.size() < numbers.size() / numbers_per_epoch;
       number += numbers_per_epoch) {
    EpochResult result{
        count(number[0]), count(number[1]), number[2], {number[3], count(number[4]), count(number[5])}, {}, {}};
    if (number[7] != -1.0) result.validation = LossSum{number[6], count(number[7]), count(number[8])};
    result.pattern = {count(number[9]), count(number[10])};
    epochs.push_back(result);
  }
  return epochs;
}

Trainer::Trainer(Training& engine, Recipe const& recipe, std::size_t set, std::size_t num_samples,
                 std::optional<std::size_t> validation)
    : engine_(&engine), recipe_(recipe), set_(set), num_samples_(num_samples), validation_(validation) {
  require_valid(recipe);
  if (num_samples == 0) throw InputError("there are no samples to train with");
  recipe_.batch = std::min(recipe.batch, num_samples);
  steps_per_epoch_ = num_steps_of(recipe, num_samples) / recipe.epochs;
}

void Trainer::resume(TrainingProgress const& progress, std::vector<EpochResult> epochs,
                     std::shared_ptr<Network const> best) {
  if (progress.num_steps > num_steps()) {
    fail<InputError>("the checkpoint is of step {}, but the training has {}", progress.num_steps, num_steps());
  }
  progress_ = progress;
  epochs_ = std::move(epochs);
  best_ = std::move(best);
  if (!keeps_best_) best_.reset();
  if (keeps_best_ && is_best()) best_ = std::make_shared<Network const>(engine_->network());
}

std::optional<EpochResult> Trainer::advance() {
  VARVE_REQUIRE(!is_finished(), "training goes on after its end");
  std::uint64_t const epoch = progress_.num_steps / steps_per_epoch_;
  if (ordered_epoch_ != epoch) {
    order_ = sample_order(recipe_.seed, epoch, num_samples_);
    ordered_epoch_ = epoch;
  }
  std::size_t const first = progress_.num_steps % steps_per_epoch_ * recipe_.batch;
  std::size_t const count = std::min(recipe_.batch, num_samples_ - first);
  double const rate = rate_at(recipe_.rate, progress_.num_steps, steps_per_epoch_, recipe_.epochs);
  auto const rows = std::span<std::uint64_t const>(order_).subspan(first, count);
  last_rows_ = rows;
  evolve(rows);
  auto const sum = engine_->step(set_, rows, rate);
  ++progress_.num_steps;
  progress_.epoch.loss += sum.loss;
  progress_.epoch.num_samples += sum.num_samples;
  progress_.epoch.num_right += sum.num_right;
  if (progress_.num_steps % steps_per_epoch_ != 0) return std::nullopt;
  return end_epoch(rate);
}

/// Changes the pattern before the step with these rows if it is time for it.
void Trainer::evolve(std::span<std::uint64_t const> rows) {
  auto const event = event_before(recipe_.pattern, progress_.num_steps, num_steps(), recipe_.seed);
  if (!event) return;
  auto const count = engine_->evolve(set_, rows, *event);
  progress_.pattern += count;
  changes_.push_back({progress_.num_steps, event->fraction, count});
}

EpochResult Trainer::end_epoch(double rate) {
  engine_->require_finite_moments();
  EpochResult result;
  result.num_steps = progress_.num_steps;
  result.epoch = progress_.num_steps / steps_per_epoch_;
  result.rate = rate;
  result.training = std::exchange(progress_.epoch, LossSum{});
  result.pattern = std::exchange(progress_.pattern, PatternCount{});
  if (validation_) {
    result.validation = engine_->evaluate(*validation_);
    if (progress_.best_epoch == 0 || result.validation->mean() < progress_.best_validation_loss) {
      progress_.best_validation_loss = result.validation->mean();
      progress_.best_epoch = result.epoch;
      if (keeps_best_) best_ = std::make_shared<Network const>(engine_->network());
    }
  }
  epochs_.push_back(result);
  return result;
}

std::string History::head() const {
  std::string const columns = "epoch\tsteps\trate\tloss\taccuracy\tvalidation_loss\tvalidation_accuracy";
  return has_changes_ ? columns + "\tdropped_edges\treturned_edges" : columns;
}

std::string History::line_of(EpochResult const& result) const {
  auto line = fmt::format("{}\t{}\t{}\t{}\t{}\t", result.epoch, result.num_steps, result.rate, result.training.mean(),
                          result.training.accuracy());
  line += result.validation ? fmt::format("{}\t{}", result.validation->mean(), result.validation->accuracy()) : "\t";
  if (has_changes_) line += fmt::format("\t{}\t{}", result.pattern.dropped, result.pattern.returned);
  return line;
}

History::History(std::filesystem::path path, std::vector<EpochResult> const& epochs, std::uint64_t num_epochs,
                 bool has_changes)
    : path_(std::move(path)), has_changes_(has_changes) {
  if (epochs.size() < num_epochs) {
    read(num_epochs);
    return;
  }
  for (auto const& epoch : epochs) lines_.push_back(line_of(epoch));
  if (!lines_.empty()) write();
}

void History::read(std::uint64_t num_epochs) {
  num_missing_ = num_epochs;
  if (!std::filesystem::exists(path_)) return;
  std::istringstream file(read_text(path_));
  release_input(path_); // it is replaced after each epoch
  std::string line;
  if (!std::getline(file, line) || line != head()) {
    fail<InputError>(
        "{}: line 1 is not the head of a history of varve train, to which the checkpoint's epochs could be added",
        path_.string());
  }
  while (lines_.size() < num_epochs && std::getline(file, line)) lines_.push_back(line);
  num_missing_ = num_epochs - lines_.size();
}

void History::add(EpochResult const& result) {
  lines_.push_back(line_of(result));
  write();
}

void History::write() const {
  OutputFile file(path_);
  file.write(head() + "\n");
  for (auto const& line : lines_) file.write(line + "\n");
  file.commit();
}

} // namespace varve
