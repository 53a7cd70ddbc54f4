#include "engine/dense_samples.hpp"

#include "core/error.hpp"

namespace varve {

SamplesOnDevice DenseSamples::read(Lane const& lane, DeviceInput const& rows, SampleIndex first_sample) {
  auto const make_room = [&](DeviceBytes& array, std::size_t count, std::size_t number_bytes) {
    kernels_.memory().make_room(lane, array, count, number_bytes, "varve::staged_samples");
  };
  make_room(arrays_.row_pointers, rows.num_rows + 1, sizeof(EdgeOffset));
  auto* const row_ends = arrays_.row_pointers.as<EdgeOffset>();
  auto const found = kernels_.count_entries(lane, rows, row_ends);
  if (found.first_bad < rows.num_rows * rows.num_columns) {
    throw InputError(input_name_ + ": sample " + std::to_string(first_sample + found.first_bad / rows.num_columns) +
                     " has a value that is not finite at neuron " + std::to_string(found.first_bad % rows.num_columns) +
                     " (counted from 0), expected finite numbers");
  }
  make_room(arrays_.columns, found.num_entries, sizeof(NeuronIndex));
  make_room(arrays_.values, found.num_entries, kernels_.scalar_bytes());
  auto* const columns = arrays_.columns.as<NeuronIndex>();
  kernels_.fill_entries(lane, rows, row_ends, found.num_entries, columns, arrays_.values.data());
  return {static_cast<int>(rows.num_rows),
          static_cast<int>(rows.num_columns),
          row_ends,
          columns,
          arrays_.values.data(),
          1,
          found.num_entries};
}

} // namespace varve
