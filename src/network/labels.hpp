#pragma once

#include "core/types.hpp"

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace varve {

/// The class of each sample. Classes count from 0; class c belongs to output c of a network, whose activation should be
/// the largest for the samples of this class.
struct Labels {
  std::vector<NeuronIndex> classes; ///< one per sample
  SampleIndex first_sample = 0;     ///< number of the sample that classes[0] belongs to, within the whole input, from 0

  std::size_t num_samples() const { return classes.size(); }

  bool operator==(Labels const&) const = default;
};

/// No class: networks have fewer outputs. Larger numbers in files become this one.
constexpr NeuronIndex no_class = std::numeric_limits<NeuronIndex>::max();

/// The labels [first, last), counted from the first one.
Labels labels_of(Labels const& labels, std::size_t first, std::size_t last);

/// Throws InputError, naming `place` and the sample, unless every class is below `num_classes`.
void require_classes(Labels const& labels, std::size_t num_classes, std::string const& place);

} // namespace varve
