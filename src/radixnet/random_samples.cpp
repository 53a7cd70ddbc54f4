#include "radixnet/random_samples.hpp"

#include "core/error.hpp"
#include "radixnet/random.hpp"

#include <fmt/format.h>

#include <cmath>

namespace varve {

SampleSet random_samples(std::size_t neurons, SampleIndex first, SampleIndex last, double density, std::uint64_t seed) {
  constexpr std::size_t most = std::size_t{1} << 31U;
  if (neurons < 1 || neurons > most)
    throw UsageError(fmt::format("samples cannot have {} neurons (expected 1 to {})", neurons, most));
  if (!(density > 0.0 && density <= 1.0))
    throw UsageError(fmt::format("the density is {}, expected more than 0 and at most 1", density));

  constexpr std::uint64_t steps = std::uint64_t{1} << 24U; // multiples of 2^-24 up to 1 are exact in float
  auto const bound = static_cast<std::uint64_t>(std::ldexp(density, 53));
  SampleSet set;
  set.first_sample = first;
  SparseMatrix& matrix = set.matrix;
  matrix.num_rows = last - first;
  matrix.num_columns = neurons;
  for (SampleIndex sample = first; sample < last; ++sample) {
    RandomStream random(seed, ~sample); // streams count down from 2^64 - 1, as for images
    for (std::size_t neuron = 0; neuron < neurons; ++neuron) {
      if ((random.bits() >> 11U) >= bound) continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
      matrix.values.push_back(std::ldexp(static_cast<double>(1 + random.below(steps)), -24));
    }
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return set;
}

SampleSet random_samples(std::size_t neurons, std::size_t samples, double density, std::uint64_t seed) {
  return random_samples(neurons, 0, samples, density, seed);
}

} // namespace varve
