#include <varve/samples.hpp>

#include "core/error.hpp"
#include "library/crossing.hpp"

#include <limits>

namespace varve::v0_3 {
namespace {

/// Throws InputError unless there are rows * columns values.
void require_size(std::size_t num_values, std::size_t rows, std::size_t columns) {
  constexpr std::size_t max_columns = std::numeric_limits<NeuronIndex>::max();
  bool const fits = columns == 0 ? num_values == 0 : num_values / columns == rows && num_values % columns == 0;
  if (!fits || columns > max_columns)
    fail<InputError>("samples: found {} values, expected {} samples of {} neurons each (at most {})", num_values, rows,
                     columns, max_columns);
}

template <class Scalar>
varve::SampleSet from_values(std::span<Scalar const> values, std::size_t num_samples, std::size_t num_neurons) {
  require_size(values.size(), num_samples, num_neurons);
  auto const fail = [&](std::size_t row, std::size_t column) {
    varve::fail<varve::InputError>(
        "samples: sample {} has the value {} at neuron {} (counted from 0), expected a finite number", row,
        values[row * num_neurons + column], column);
  };
  return {varve::compressed(values, num_samples, num_neurons, varve::Precision::double_precision, fail)};
}

} // namespace

Samples hold(varve::SampleSet set) {
  return Samples::Contents::wrapped(
      std::make_shared<Samples::Contents const>(Samples::Contents{varve::SampleBatch(std::move(set))}));
}

Samples::Samples(CsrView const& rows, SampleIndex first_sample)
    : Samples(hold([&] {
        varve::SampleSet samples{to_private(rows, "samples"), first_sample};
        varve::drop_zeros(samples.matrix);
        return samples;
      }())) {}

Samples Samples::from_dense(std::span<float const> values, std::size_t num_samples, std::size_t num_neurons) {
  return hold(from_values(values, num_samples, num_neurons));
}

Samples Samples::from_dense(std::span<double const> values, std::size_t num_samples, std::size_t num_neurons) {
  return hold(from_values(values, num_samples, num_neurons));
}

std::size_t Samples::num_samples() const { return contents_->batch.num_samples(); }
std::size_t Samples::num_neurons() const { return contents_->batch.num_neurons(); }
EdgeOffset Samples::num_entries() const { return contents_->set().matrix.num_entries(); }
SampleIndex Samples::first_sample() const { return contents_->batch.first_sample(); }
CsrMatrix Samples::rows() const { return contents_->set().matrix; }

} // namespace varve::v0_3
