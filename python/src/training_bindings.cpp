#include "arrays.hpp"
#include "bindings.hpp"
#include "held_network.hpp"
#include "process.hpp"

#include "core/error.hpp"
#include "engine/training.hpp"
#include "training/trainer.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <utility>

namespace nb = nanobind;

namespace varve::python {
namespace {

/// A network in training.
class TrainingRun final : public HoldsViews {
public:
  TrainingRun(HeldNetwork const& network, Recipe const& recipe, TrainingOptions const& options) : recipe_(recipe) {
    require_valid(recipe_);
    Turn const turn;
    InterruptibleNetwork const source(network.shared());
    engine_ = prepare_training(load(source), options);
    num_outputs_ = network.num_outputs();
  }
  ~TrainingRun() override { close_in_turn(); }

  std::size_t add_samples(CompressedRows const& rows, std::optional<Vector<std::int64_t>> const& labels,
                          std::optional<CompressedRows> const& targets, std::string const& place) {
    auto const samples = to_samples(rows, place, recipe_.precision);
    Answers answers;
    if (labels) answers.labels = to_classes(*labels, num_outputs_, place);
    if (targets) answers.values = to_sparse_matrix(*targets, place);
    Turn const turn;
    return open().add_samples(samples, answers, place);
  }

  void begin(std::size_t set, std::size_t num_samples, std::optional<std::size_t> validation) {
    Turn const turn;
    trainer_.emplace(open(), recipe_, set, num_samples, validation);
  }

  bool is_finished() const { return trainer_->is_finished(); }
  std::uint64_t best_epoch() const { return trainer_->progress().best_epoch; }

  EpochResult advance() {
    Turn const turn;
    static_cast<void>(open());
    for (;;) {
      if (auto const epoch = trainer_->advance()) return *epoch;
      run_signal_handlers();
    }
  }

  std::unique_ptr<HeldNetwork> network() {
    Turn const turn;
    return std::make_unique<HeldNetwork>(std::make_shared<Network const>(open().network()));
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

  Recipe recipe_;
  std::size_t num_outputs_ = 0;
  std::unique_ptr<Training> engine_;
  std::optional<Trainer> trainer_;
};

/// The recipe and the options of a training with the names that Python gives them.
std::unique_ptr<TrainingRun> make_run(HeldNetwork const& network, std::string const& backend,
                                      std::string const& precision, std::string const& loss,
                                      std::string const& optimizer, double rate, std::string const& schedule,
                                      std::size_t rate_every, double rate_factor, std::size_t warm_up, double momentum,
                                      double beta1, double beta2, double epsilon, double l2, std::size_t batch,
                                      std::size_t epochs, std::uint64_t seed, std::optional<std::size_t> memory_limit) {
  Recipe recipe;
  recipe.precision = precision == "float64" ? Precision::double_precision : Precision::single_precision;
  recipe.loss = parse_loss(loss);
  recipe.optimizer = {parse_optimizer(optimizer), momentum, beta1, beta2, epsilon, l2};
  recipe.rate = {parse_rate_schedule(schedule), rate, rate_factor, rate_every, warm_up};
  recipe.batch = batch;
  recipe.epochs = epochs;
  recipe.seed = seed;
  TrainingOptions options;
  options.backend = backend.empty() ? compiled_backends().front() : parse_backend(backend);
  options.precision = recipe.precision;
  options.loss = recipe.loss;
  options.optimizer = recipe.optimizer;
  options.batch = batch;
  (has_own_memory(options.backend) ? options.device_memory_limit : options.memory_limit) = memory_limit;
  return std::make_unique<TrainingRun>(network, recipe, options);
}

void add_epoch(nb::module_& module) {
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
      .def_prop_ro("validation_accuracy", [](EpochResult const& self) {
        return self.validation ? std::optional(self.validation->accuracy()) : std::nullopt;
      });
}

} // namespace

void add_training(nb::module_& module) {
  using NoGil = nb::call_guard<nb::gil_scoped_release>;
  add_epoch(module);
  nb::class_<TrainingRun>(module, "TrainingRun", "A network in training.")
      .def(nb::new_(&make_run), nb::arg("network"), nb::arg("backend"), nb::arg("precision"), nb::arg("loss"),
           nb::arg("optimizer"), nb::arg("rate"), nb::arg("schedule"), nb::arg("rate_every"), nb::arg("rate_factor"),
           nb::arg("warm_up"), nb::arg("momentum"), nb::arg("beta1"), nb::arg("beta2"), nb::arg("epsilon"),
           nb::arg("l2"), nb::arg("batch"), nb::arg("epochs"), nb::arg("seed"), nb::arg("memory_limit").none(), NoGil())
      .def("add_samples", &TrainingRun::add_samples, nb::arg("rows"), nb::arg("labels").none(),
           nb::arg("targets").none(), nb::arg("place"), NoGil())
      .def("begin", &TrainingRun::begin, nb::arg("set"), nb::arg("num_samples"), nb::arg("validation").none(), NoGil())
      .def_prop_ro("is_finished", &TrainingRun::is_finished)
      .def_prop_ro("best_epoch", &TrainingRun::best_epoch)
      .def("advance", &TrainingRun::advance, NoGil())
      .def("network", &TrainingRun::network, NoGil());
}

} // namespace varve::python
