#pragma once

/// \file
/// Samples and the answers to them.

#include <varve/matrix.hpp>
#include <varve/types.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace varve::v0_3 {

/// Samples that are never changed: a sparse matrix [samples, neurons], numbered from first_sample() on. Copies share
/// it.
class Samples {
public:
  /// Samples with the nonzero values of a matrix, whose arrays are copied. Throws InputError if it is malformed.
  explicit Samples(CsrView const& rows, SampleIndex first_sample = 0);

  /// Samples with the nonzero values of a dense matrix [num_samples, num_neurons], row by row. Throws InputError unless
  /// there are num_samples * num_neurons finite values.
  static Samples from_dense(std::span<float const> values, std::size_t num_samples, std::size_t num_neurons);
  /// The same for double.
  static Samples from_dense(std::span<double const> values, std::size_t num_samples, std::size_t num_neurons);

  /// Samples, which are rows.
  std::size_t num_samples() const;
  /// Values of a sample.
  std::size_t num_neurons() const;
  /// Values that are not 0.
  EdgeOffset num_entries() const;
  /// The number of row 0.
  SampleIndex first_sample() const;

  /// A copy of the samples as a matrix.
  CsrMatrix rows() const;

  /// The private part of samples.
  struct Contents;
  /// For the library itself.
  Contents const& contents() const { return *contents_; }

private:
  Samples(std::shared_ptr<Contents const> contents, std::nullptr_t /*private*/) : contents_(std::move(contents)) {}

  std::shared_ptr<Contents const> contents_;
};

/// The class of each sample, or the outputs wanted of it, and the weight of each sample in training.
struct Answers {
  std::vector<NeuronIndex> labels; ///< one per sample, from 0; empty if there are targets
  CsrMatrix targets = {};          ///< shape [samples, outputs]; without rows if there are labels
  /// One per sample, finite and not negative; empty: 1. train() multiplies the loss and the errors of a sample by its
  /// weight; means still divide by the number of samples. evaluate() takes none.
  std::vector<double> weights = {};
};

} // namespace varve::v0_3
