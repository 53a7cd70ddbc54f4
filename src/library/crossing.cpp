#include "library/crossing.hpp"

#include "core/error.hpp"
#include "core/version.hpp"
#include "network/sparse_matrix.hpp"

#include <varve/version.hpp>

#include <limits>

namespace varve::v0_3 {

varve::Activation to_private(Activation const& activation) {
  auto const kind = static_cast<std::size_t>(activation.kind);
  if (kind < varve::all_activations.size())
    return varve::make_activation(varve::all_activations[kind], activation.parameter);
  fail<UsageError>("there is no activation number {}", static_cast<int>(activation.kind));
}

Activation to_public(varve::Activation const& activation) { return {activation.kind, varve::parameter_of(activation)}; }

varve::SparseMatrix to_private(CsrView const& matrix, std::string const& place) {
  constexpr std::size_t max_columns = std::numeric_limits<NeuronIndex>::max();
  if (matrix.num_columns > max_columns)
    fail<InputError>("{} has {} columns, expected at most {}", place, matrix.num_columns, max_columns);
  varve::SparseMatrix copy;
  copy.num_rows = matrix.num_rows;
  copy.num_columns = matrix.num_columns;
  copy.row_pointers.assign(matrix.row_pointers.begin(), matrix.row_pointers.end());
  copy.column_indices.assign(matrix.column_indices.begin(), matrix.column_indices.end());
  copy.values.assign(matrix.values.begin(), matrix.values.end());
  varve::require_valid(copy, place.c_str());
  return copy;
}

varve::Answers to_private(Answers const& answers, std::string const& place) {
  return {answers.labels, to_private(answers.targets, place), answers.weights};
}

BuildDescription build_description() {
  auto const& from = varve::provenance;
  return {std::string(from.version),    std::string(from.git_commit),     std::string(from.compiler),
          std::string(from.build_type), std::string(from.kokkos_version), std::string(from.kokkos_backends)};
}

} // namespace varve::v0_3
