#include "arrays.hpp"
#include "bindings.hpp"
#include "gil.hpp"
#include "interruptible.hpp"

#include "core/error.hpp"
#include "network/loss.hpp"

#include <varve/verify.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace varve::python {
namespace {

Numpy<std::uint8_t> flags_of(v0_3::Verdicts const& verdicts, bool v0_3::Verdict::*flag) {
  std::vector<std::uint8_t> flags;
  for (auto const& verdict : verdicts.of_samples) flags.push_back(verdict.*flag ? 1 : 0);
  return to_numpy(std::move(flags));
}

/// Judges samples: arrays of bytes (alive, certain in float, certain in double), margins, and the activations.
nb::tuple judge_samples(v0_3::Network const& network, CompressedRows const& rows, bool exact, bool wants_activations) {
  using v0_3::Verdict;
  v0_3::Verdicts verdicts;
  {
    WithoutGil const no_gil;
    auto const samples = v0_3::hold(to_samples(rows, "X", Precision::double_precision));
    auto const arithmetic = exact ? v0_3::Arithmetic::exact : v0_3::Arithmetic::double_precision;
    verdicts = judge(interruptible(network), samples, arithmetic, wants_activations);
  }
  std::vector<double> margins;
  for (auto const& verdict : verdicts.of_samples) margins.push_back(verdict.margin);
  return nb::make_tuple(flags_of(verdicts, &Verdict::is_alive), flags_of(verdicts, &Verdict::is_certain_in_float),
                        flags_of(verdicts, &Verdict::is_certain_in_double), to_numpy(std::move(margins)),
                        to_tuple(verdicts.activations));
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
