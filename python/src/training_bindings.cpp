#include "arrays.hpp"
#include "bindings.hpp"
#include "gil.hpp"
#include "interruptible.hpp"

#include "core/error.hpp"
#include "core/version.hpp"
#include "engine/training.hpp"
#include "library/engine_options.hpp"
#include "training/checkpoint.hpp"
#include "training/trainer.hpp"
#include "training/training_receipt.hpp"

#include <varve/train.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace varve::python {
namespace {

/// What a training is asked for.
struct TrainingSettings : v0_3::Recipe {
  std::string backend;
  std::optional<std::size_t> micro_batch, keep_every, memory_limit, device_memory_limit;
  std::string checkpoint; ///< the file that holds the state; empty: none
  std::optional<std::uint64_t> checkpoint_every, receipt_every;
};

TrainingOptions options_of(TrainingSettings const& settings, Recipe const& recipe) {
  auto options = training_options(recipe);
  options.backend = settings.backend.empty() ? compiled_backends().front() : parse_backend(settings.backend);
  options.micro_batch = settings.micro_batch;
  options.keep_every = settings.keep_every;
  options.memory_limit = settings.memory_limit;
  options.device_memory_limit = settings.device_memory_limit;
  return options;
}

/// A network in training.
class TrainingRun final : public HoldsViews {
public:
  /// num_samples: of the set to train with. Continues from the checkpoint of the settings if that exists.
  TrainingRun(v0_3::Network const& network, TrainingSettings const& settings, std::size_t num_samples)
      : settings_(settings), recipe_(to_private(settings)), recipe_json_(to_json(recipe_, num_samples)) {
    Turn const turn;
    auto start = load(InterruptibleNetwork(network));
    if (settings_.receipt_every) start_ = network_digest(start);
    if (!settings_.checkpoint.empty()) {
      if (auto found = find_checkpoint(start)) {
        start = found->network;
        checkpoint_ = std::move(found);
      }
    }
    auto options = options_of(settings_, recipe_);
    options.batch = std::min(options.batch, std::max<std::size_t>(num_samples, 1)); // as the trainer takes it
    engine_ = prepare_training(start, options);
    num_outputs_ = network.num_outputs();
  }
  ~TrainingRun() override { close_in_turn(); }

  std::size_t add_samples(CompressedRows const& rows, std::optional<Vector<std::int64_t>> const& labels,
                          std::optional<CompressedRows> const& targets, std::optional<Vector<double>> const& weights,
                          std::string const& place) {
    auto const samples = to_samples(rows, place, recipe_.precision);
    auto const answers = to_answers(labels, targets, weights, place);
    Turn const turn;
    if (settings_.receipt_every && !receipt_)
      receipt_ = begin_receipt(start_, samples, answers, recipe_json_, *settings_.receipt_every);
    return open().add_samples(samples, answers, place);
  }

  /// One step with samples that are not kept, at most as many as the recipe's batch, after a change of the pattern if
  /// it is time for one.
  LossSum step(CompressedRows const& rows, std::optional<Vector<std::int64_t>> const& labels,
               std::optional<CompressedRows> const& targets, std::optional<Vector<double>> const& weights,
               double rate) {
    auto const samples = to_samples(rows, "X", recipe_.precision);
    auto const answers = to_answers(labels, targets, weights, "X");
    std::vector<std::uint64_t> order(samples.num_samples());
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    Turn const turn;
    auto& engine = open();
    auto const set = engine.add_samples(samples, answers, "X");
    auto const all_steps = std::numeric_limits<std::uint64_t>::max();
    if (auto const event = event_before(recipe_.pattern, num_single_steps_, all_steps, recipe_.seed))
      engine.evolve(set, order, *event);
    auto const sum = engine.step(set, order, rate);
    engine.remove_last_samples();
    ++num_single_steps_;
    return sum;
  }

  void begin(std::size_t set, std::size_t num_samples, std::optional<std::size_t> validation) {
    Turn const turn;
    trainer_.emplace(open(), recipe_, set, num_samples, validation);
    if (validation) trainer_->keep_best();
    if (!checkpoint_) return;
    if (receipt_) varve::resume(*receipt_, checkpoint_->record.receipt, settings_.checkpoint);
    resume(*trainer_, open(), *std::exchange(checkpoint_, std::nullopt), settings_.checkpoint);
  }

  bool is_finished() const { return trainer_->is_finished(); }
  std::uint64_t num_steps() const { return trainer_ ? trainer_->progress().num_steps : num_single_steps_; }
  std::uint64_t num_epochs() const { return num_steps() / trainer_->steps_per_epoch(); }
  std::uint64_t best_epoch() const { return trainer_->progress().best_epoch; }
  std::string const& note() const { return note_; }

  EpochResult advance() {
    Turn const turn;
    static_cast<void>(open());
    for (;;) {
      auto const epoch = trainer_->advance();
      if (receipt_) receipt_->add_step(trainer_->last_rows());
      if (receipt_ && num_steps() % receipt_->every == 0)
        receipt_->add_state(num_steps(), engine_->network(), engine_->state());
      if (epoch || (settings_.checkpoint_every && num_steps() % *settings_.checkpoint_every == 0)) save_checkpoint();
      if (epoch) return *epoch;
      run_signal_handlers();
    }
  }

  /// The JSON of the receipt of the steps so far; empty without one.
  std::string receipt() const {
    Turn const turn;
    if (!receipt_) return {};
    auto receipt = *receipt_;
    receipt.add_state(num_steps(), open().network(), open().state());
    receipt.made_by = {{"program", "varve for Python"}, {"version", provenance.version}};
    return to_json(std::move(receipt));
  }

  v0_3::Network network() {
    Turn const turn;
    if (num_single_steps_ > 0) open().require_finite_moments(); // which epochs do at their end
    return v0_3::hold(std::make_shared<Network const>(open().network()));
  }

  /// The network of the best epoch; nullopt if there is none, or a checkpoint of Varve 0.2 lacks it.
  std::optional<v0_3::Network> best() const {
    return trainer_->best() ? std::optional(v0_3::hold(trainer_->best())) : std::nullopt;
  }

  std::vector<EpochResult> const& epochs() const { return trainer_->epochs(); }

  nb::tuple memory() const {
    auto const& plan = open().plan();
    return nb::make_tuple(plan.micro_batch, plan.keep_every, plan.weight_bytes, plan.activation_bytes);
  }

  void close() override {
    trainer_.reset();
    engine_.reset();
  }

private:
  void lose() override { static_cast<void>(engine_.release()); }

  Training& open() const {
    if (!engine_) throw ResourceError("this training cannot go on: the process is ending");
    return *engine_;
  }

  Answers to_answers(std::optional<Vector<std::int64_t>> const& labels, std::optional<CompressedRows> const& targets,
                     std::optional<Vector<double>> const& weights, std::string const& place) const {
    Answers answers;
    if (labels) answers.labels = to_classes(*labels, recipe_.loss.num_classes(num_outputs_), place);
    if (targets) answers.values = to_samples(*targets, place + ": targets", recipe_.precision).matrix;
    if (weights) answers.weights.assign(weights->data(), weights->data() + weights->size());
    return answers;
  }

  std::optional<Checkpoint> find_checkpoint(Network const& network) {
    auto const& path = settings_.checkpoint;
    auto found = read_checkpoint(path, [this](std::string const& why) { note_ = why; });
    if (!found) return std::nullopt;
    require_same(found->record.recipe, recipe_json_, path);
    require_same_shape(*found, network, path, recipe_.pattern.kind != PatternKind::keep);
    return found;
  }

  void save_checkpoint() const {
    if (settings_.checkpoint.empty()) return;
    auto checkpoint = checkpoint_of(*trainer_, recipe_json_, engine_->network(), engine_->state());
    if (receipt_) checkpoint.record.receipt = to_json(*receipt_);
    write_checkpoint(settings_.checkpoint, checkpoint);
  }

  TrainingSettings settings_;
  Recipe recipe_;
  std::string recipe_json_;
  std::string note_;                     ///< why a checkpoint was not read, but the one before it
  std::optional<Checkpoint> checkpoint_; ///< the state to continue from, until begin()
  Digest start_{};                       ///< of the network to begin with, for the receipt
  std::optional<TrainingReceipt> receipt_;
  std::size_t num_outputs_ = 0;
  std::uint64_t num_single_steps_ = 0; ///< those of step()
  std::unique_ptr<Training> engine_;
  std::optional<Trainer> trainer_;
};

using NoGil = nb::call_guard<WithoutGil>;

void add_settings(nb::module_& module) {
  nb::class_<TrainingSettings>(module, "TrainingSettings", "What a training is asked for.")
      .def(nb::init<>())
      .def(
          "require_valid", [](TrainingSettings const& self) { options_of(self, to_private(self)); }, NoGil())
      .def_rw("backend", &TrainingSettings::backend)
      .def_prop_rw(
          "precision", [](TrainingSettings const& self) { return name_of(self.precision); },
          [](TrainingSettings& self, std::string const& name) { self.precision = to_precision(name); })
      .def_rw("loss", &TrainingSettings::loss)
      .def_rw("delta", &TrainingSettings::delta)
      .def_rw("optimizer", &TrainingSettings::optimizer)
      .def_rw("momentum", &TrainingSettings::momentum)
      .def_rw("beta1", &TrainingSettings::beta1)
      .def_rw("beta2", &TrainingSettings::beta2)
      .def_rw("epsilon", &TrainingSettings::epsilon)
      .def_rw("l2", &TrainingSettings::l2)
      .def_rw("rate", &TrainingSettings::rate)
      .def_rw("rate_schedule", &TrainingSettings::schedule)
      .def_rw("rate_every", &TrainingSettings::rate_every)
      .def_rw("rate_factor", &TrainingSettings::rate_factor)
      .def_rw("warm_up", &TrainingSettings::warm_up)
      .def_rw("batch", &TrainingSettings::batch)
      .def_rw("epochs", &TrainingSettings::epochs)
      .def_rw("seed", &TrainingSettings::seed)
      .def_rw("pattern", &TrainingSettings::pattern)
      .def_rw("pattern_fraction", &TrainingSettings::pattern_fraction)
      .def_rw("pattern_every", &TrainingSettings::pattern_every)
      .def_rw("pattern_until", &TrainingSettings::pattern_until)
      .def_rw("pattern_schedule", &TrainingSettings::pattern_schedule)
      .def_rw("micro_batch", &TrainingSettings::micro_batch, nb::arg().none())
      .def_rw("keep_every", &TrainingSettings::keep_every, nb::arg().none())
      .def_rw("memory_limit", &TrainingSettings::memory_limit, nb::arg().none())
      .def_rw("device_memory_limit", &TrainingSettings::device_memory_limit, nb::arg().none())
      .def_rw("checkpoint", &TrainingSettings::checkpoint)
      .def_rw("checkpoint_every", &TrainingSettings::checkpoint_every, nb::arg().none())
      .def_rw("receipt_every", &TrainingSettings::receipt_every, nb::arg().none());
}

void add_epoch(nb::module_& module) {
  nb::class_<LossSum>(module, "LossSum", "Losses of samples.")
      .def_prop_ro("mean", &LossSum::mean)
      .def_prop_ro("accuracy", &LossSum::accuracy);
  nb::class_<EpochResult>(module, "EpochResult", "Results of an epoch.")
      .def_ro("epoch", &EpochResult::epoch)
      .def_ro("num_steps", &EpochResult::num_steps)
      .def_ro("rate", &EpochResult::rate)
      .def_prop_ro("loss", [](EpochResult const& self) { return self.training.mean(); })
      .def_prop_ro("accuracy", [](EpochResult const& self) { return self.training.accuracy(); })
      .def_prop_ro("validation_loss",
                   [](EpochResult const& self) {
                     return self.validation ? std::optional(self.validation->mean()) : std::nullopt;
                   })
      .def_prop_ro("validation_accuracy",
                   [](EpochResult const& self) {
                     return self.validation ? std::optional(self.validation->accuracy()) : std::nullopt;
                   })
      .def_prop_ro("dropped_edges", [](EpochResult const& self) { return self.pattern.dropped; })
      .def_prop_ro("returned_edges", [](EpochResult const& self) { return self.pattern.returned; });
}

} // namespace

void add_training(nb::module_& module) {
  add_epoch(module);
  add_settings(module);
  module.def(
      "optimizer_names", [] { return names_of(all_optimizers); }, "The names of all optimizers.");
  module.def(
      "loss_names", [] { return names_of(all_losses); }, "The names of all losses.");
  module.def(
      "usual_rate", [](std::string const& optimizer) { return entry_of(parse_optimizer(optimizer)).rate; },
      nb::arg("optimizer"), "The learning rate where none is given.");
  nb::class_<TrainingRun>(module, "TrainingRun", "A network in training.")
      .def(nb::new_([](v0_3::Network const& network, TrainingSettings const& settings, std::size_t num_samples) {
             return std::make_unique<TrainingRun>(network, settings, num_samples);
           }),
           nb::arg("network"), nb::arg("settings"), nb::arg("num_samples"), NoGil())
      .def("add_samples", &TrainingRun::add_samples, nb::arg("rows"), nb::arg("labels").none(),
           nb::arg("targets").none(), nb::arg("weights").none(), nb::arg("place"), NoGil())
      .def("begin", &TrainingRun::begin, nb::arg("set"), nb::arg("num_samples"), nb::arg("validation").none(), NoGil())
      .def_prop_ro("is_finished", &TrainingRun::is_finished)
      .def_prop_ro("num_steps", &TrainingRun::num_steps)
      .def_prop_ro("num_epochs", &TrainingRun::num_epochs)
      .def_prop_ro("best_epoch", &TrainingRun::best_epoch)
      .def_prop_ro("note", &TrainingRun::note)
      .def_prop_ro("memory", &TrainingRun::memory)
      .def("advance", &TrainingRun::advance, NoGil())
      .def("step", &TrainingRun::step, nb::arg("rows"), nb::arg("labels").none(), nb::arg("targets").none(),
           nb::arg("weights").none(), nb::arg("rate"), NoGil())
      .def("network", &TrainingRun::network, NoGil())
      .def("receipt", &TrainingRun::receipt, NoGil())
      .def("best", &TrainingRun::best)
      .def_prop_ro("epochs", &TrainingRun::epochs);
}

} // namespace varve::python
