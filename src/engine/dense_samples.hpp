#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "engine/sample_copy.hpp"
#include "kernels/dense_rows.hpp"
#include "kernels/samples.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace varve {

/// Turns dense samples that lie on the device into the sparse samples that kernels read, there. Its arrays grow when a
/// batch has more samples or nonzero values.
template <class ExecutionSpace, class Scalar>
class DenseSamples {
public:
  /// `input_name`: the name of the samples in messages.
  explicit DenseSamples(std::string input_name) : input_name_(std::move(input_name)) {}

  /// The samples [samples, neurons] of the rows, which are valid until the next call. Throws InputError, naming the
  /// sample, if a value is not finite. first_sample: the number of the first one.
  DeviceSamples<ExecutionSpace, Scalar> read(ExecutionSpace const& space, DenseRows<Scalar const> const& rows,
                                             SampleIndex first_sample) {
    make_room(space, arrays_.row_pointers, rows.num_rows + 1);
    ArrayView<EdgeOffset> const row_ends(arrays_.row_pointers.data(), rows.num_rows + 1);
    if (rows.num_rows == 0) Kokkos::deep_copy(space, arrays_.row_pointers, 0);
    auto const found = count_entries(space, rows, row_ends);
    if (found.first_bad < rows.num_rows * rows.num_columns)
      fail(first_sample + found.first_bad / rows.num_columns, found.first_bad % rows.num_columns);
    make_room(space, arrays_.columns, found.num_entries);
    make_room(space, arrays_.values, found.num_entries);
    fill_entries(space, FillEntries<ExecutionSpace, Scalar>{rows, row_ends, arrays_.columns, arrays_.values});
    DeviceSamples<ExecutionSpace, Scalar> samples;
    samples.num_samples = static_cast<int>(rows.num_rows);
    samples.num_neurons = static_cast<int>(rows.num_columns);
    samples.row_pointers = Const<EdgeOffset>(arrays_.row_pointers.data(), rows.num_rows + 1);
    samples.columns = Const<NeuronIndex>(arrays_.columns.data(), found.num_entries);
    samples.values = Const<Scalar>(arrays_.values.data(), found.num_entries);
    samples.value_stride = 1;
    return samples;
  }

private:
  template <class T>
  using Const = ConstDeviceArray<ExecutionSpace, T>;

  [[noreturn]] void fail(SampleIndex sample, std::size_t neuron) const {
    throw InputError(input_name_ + ": sample " + std::to_string(sample) + " has a value that is not finite at neuron " +
                     std::to_string(neuron) + " (counted from 0), expected finite numbers");
  }

  std::string input_name_;
  SampleArrays<ExecutionSpace, Scalar> arrays_;
};

} // namespace varve
