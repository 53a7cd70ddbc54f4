#include "library/crossing.hpp"

#include "core/version.hpp"
#include "network/sparse_matrix.hpp"

#include <varve/version.hpp>

#include <fmt/format.h>

#include <limits>

namespace varve::v0_3 {
namespace {

template <class Enumeration>
constexpr bool same(Enumeration one, int other) {
  return static_cast<int>(one) == other;
}
static_assert(same(Backend::serial, static_cast<int>(varve::Backend::serial)) &&
              same(Backend::openmp, static_cast<int>(varve::Backend::openmp)) &&
              same(Backend::cuda, static_cast<int>(varve::Backend::cuda)) &&
              same(Backend::hip, static_cast<int>(varve::Backend::hip)));
static_assert(same(ActivationKind::identity, static_cast<int>(varve::ActivationKind::identity)) &&
              same(ActivationKind::relu, static_cast<int>(varve::ActivationKind::relu)) &&
              same(ActivationKind::clipped_relu, static_cast<int>(varve::ActivationKind::clipped_relu)) &&
              same(ActivationKind::leaky_relu, static_cast<int>(varve::ActivationKind::leaky_relu)) &&
              same(ActivationKind::sigmoid, static_cast<int>(varve::ActivationKind::sigmoid)) &&
              same(ActivationKind::tanh, static_cast<int>(varve::ActivationKind::tanh)) &&
              same(ActivationKind::softplus, static_cast<int>(varve::ActivationKind::softplus)));

} // namespace

varve::Backend to_private(Backend backend) { return static_cast<varve::Backend>(backend); }
Backend to_public(varve::Backend backend) { return static_cast<Backend>(backend); }

varve::Backend chosen(std::optional<Backend> const& backend) {
  return backend ? to_private(*backend) : varve::compiled_backends().front();
}

varve::Precision to_private(Precision precision) {
  return precision == Precision::double_precision ? varve::Precision::double_precision
                                                  : varve::Precision::single_precision;
}

varve::Activation to_private(Activation const& activation) {
  auto const kind = static_cast<std::size_t>(activation.kind);
  if (kind < varve::all_activations.size())
    return varve::make_activation(varve::all_activations[kind], activation.parameter);
  throw UsageError(fmt::format("there is no activation number {}", static_cast<int>(activation.kind)));
}

Activation to_public(varve::Activation const& activation) {
  return {static_cast<ActivationKind>(activation.kind), varve::parameter_of(activation)};
}

varve::SparseMatrix to_private(CsrView const& matrix, std::string const& place) {
  constexpr std::size_t max_columns = std::numeric_limits<NeuronIndex>::max();
  if (matrix.num_columns > max_columns)
    throw InputError(fmt::format("{} has {} columns, expected at most {}", place, matrix.num_columns, max_columns));
  varve::SparseMatrix copy;
  copy.num_rows = matrix.num_rows;
  copy.num_columns = matrix.num_columns;
  copy.row_pointers.assign(matrix.row_pointers.begin(), matrix.row_pointers.end());
  copy.column_indices.assign(matrix.column_indices.begin(), matrix.column_indices.end());
  copy.values.assign(matrix.values.begin(), matrix.values.end());
  varve::require_valid(copy, place.c_str());
  return copy;
}

CsrMatrix to_public(varve::SparseMatrix matrix) {
  return {matrix.num_rows, matrix.num_columns, std::move(matrix.row_pointers), std::move(matrix.column_indices),
          std::move(matrix.values)};
}

varve::Answers to_private(Answers const& answers, std::string const& place) {
  return {answers.labels, to_private(answers.targets, place), answers.weights};
}

std::string to_string(Backend backend) { return varve::to_string(to_private(backend)); }

Backend parse_backend(std::string const& name) { return to_public(varve::parse_backend(name)); }

std::vector<Backend> compiled_backends() {
  std::vector<Backend> backends;
  for (auto const backend : varve::compiled_backends()) backends.push_back(to_public(backend));
  return backends;
}

BuildDescription build_description() {
  auto const& from = varve::provenance;
  return {std::string(from.version),    std::string(from.git_commit),     std::string(from.compiler),
          std::string(from.build_type), std::string(from.kokkos_version), std::string(from.kokkos_backends)};
}

} // namespace varve::v0_3
