#pragma once

#include "network/network.hpp"
#include "passes/neuron_hash.hpp"
#include "passes/renamed_rows.hpp"

#include <vector>

namespace varve {

/// For each row the first row that equals it. Candidates are found by hash and compared in full.
std::vector<NeuronIndex> firsts_of_equals(RenamedRows const& rows, NeuronHash hash);

/// For each output of a layer the first output that equals it, without renaming inputs.
std::vector<NeuronIndex> firsts_of_equals(Layer const& layer, NeuronHash hash);

} // namespace varve
