#pragma once

#include "core/types.hpp"
#include "network/sample_set.hpp"

#include <cstdint>
#include <vector>

namespace varve {

/// Fingerprint of one activation, computed from the indices of its sample and neuron and the bits of its value. hash()
/// adds the fingerprints of all nonzero activations modulo 2^64, so the sum does not depend on order, batches or ranks.
/// Mixing function: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
VARVE_HOST_DEVICE inline std::uint64_t activation_fingerprint(std::uint64_t sample, std::uint64_t neuron,
                                                              std::uint64_t bits) {
  std::uint64_t word = sample + 0x9e3779b97f4a7c15U;
  std::uint64_t const terms[] = {neuron, bits, 0};
  for (std::uint64_t const next : terms) {
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    word = (word ^ (word >> 31U)) + next;
  }
  return word;
}

/// The sum of the fingerprints of all nonzero activations. Values are hashed as float or double, whichever precision
/// computed them.
std::uint64_t hash(SparseMatrix const& activations, SampleIndex first_sample, Precision precision);
inline std::uint64_t hash(SampleSet const& activations, Precision precision) {
  return hash(activations.matrix, activations.first_sample, precision);
}

/// For each row the column of the largest value. Absent entries count as 0; the lowest column wins a tie.
std::vector<NeuronIndex> largest(SparseMatrix const& activations);

} // namespace varve
