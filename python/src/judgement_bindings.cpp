#include "arrays.hpp"
#include "bindings.hpp"
#include "gil.hpp"
#include "held_network.hpp"

#include "core/error.hpp"
#include "network/loss.hpp"
#include "reference/verdict.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>

namespace nb = nanobind;

namespace varve::python {
namespace {

std::vector<bool> flags_of(Verdicts const& verdicts, bool Verdict::*flag) {
  std::vector<bool> flags;
  for (auto const& verdict : verdicts.of_samples) flags.push_back(verdict.*flag);
  return flags;
}

Numpy<std::uint8_t> to_numpy_flags(std::vector<bool> const& flags) {
  std::vector<std::uint8_t> bytes(flags.begin(), flags.end());
  return to_numpy(std::move(bytes));
}

/// Judges samples: arrays of bytes (alive, certain in float, certain in double), margins, and the activations.
nb::tuple judge_samples(HeldNetwork const& network, CompressedRows const& rows, bool exact, bool wants_activations) {
  Verdicts verdicts;
  std::vector<double> margins;
  {
    WithoutGil const no_gil;
    auto const samples = to_samples(rows, "X", Precision::double_precision);
    InterruptibleNetwork const source(network.shared());
    verdicts = judge(source, samples, exact ? Arithmetic::exact : Arithmetic::double_precision, wants_activations);
    for (auto const& verdict : verdicts.of_samples) margins.push_back(verdict.margin);
  }
  return nb::make_tuple(to_numpy_flags(flags_of(verdicts, &Verdict::is_alive)),
                        to_numpy_flags(flags_of(verdicts, &Verdict::is_certain_in_float)),
                        to_numpy_flags(flags_of(verdicts, &Verdict::is_certain_in_double)),
                        to_numpy(std::move(margins)), to_tuple(verdicts.activations.matrix));
}

/// The sums of an evaluation: samples, loss, right answers, answers in the top.
nb::tuple evaluate(CompressedRows const& activations, std::optional<Vector<std::int64_t>> const& labels,
                   std::optional<CompressedRows> const& targets, std::string const& name, double delta,
                   std::size_t top) {
  WithoutGil const no_gil;
  auto const matrix = activations.matrix("activations");
  auto const loss = parse_loss(name, delta);
  Evaluation evaluation(matrix.num_columns, loss, top);
  std::vector<NeuronIndex> classes;
  if (labels) classes = to_classes(*labels, loss.num_classes(matrix.num_columns), "labels");
  SparseMatrix values;
  if (targets) {
    values = targets->matrix("targets");
    auto const& takes_them = entry_of(loss).takes_targets ? loss : Loss(Loss::mean_square); // else they are not read
    require_fit(Answers{{}, values}, matrix.num_rows, matrix.num_columns, takes_them, "targets");
  }
  evaluation.add(matrix, {classes, targets ? &values : nullptr});
  auto const& sum = evaluation.sum();
  WithGil const gil;
  return nb::make_tuple(sum.num_samples, sum.loss, sum.num_right, evaluation.num_in_top());
}

} // namespace

void add_judgement(nb::module_& module) {
  module.def("judge", &judge_samples, nb::arg("network"), nb::arg("rows"), nb::arg("exact"),
             nb::arg("wants_activations"));
  module.def("evaluate", &evaluate, nb::arg("activations"), nb::arg("labels").none(), nb::arg("targets").none(),
             nb::arg("loss"), nb::arg("delta"), nb::arg("top"));
}

} // namespace varve::python
