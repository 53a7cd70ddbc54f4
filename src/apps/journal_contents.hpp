#pragma once

#include "distribute/finished_batch.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace varve {

/// What a journal says of its network: layers, inputs, outputs and edges. Throws InputError, naming the journal, if one
/// of these numbers is missing.
void require_facts(nlohmann::ordered_json const& facts, std::string const& journal);

/// A batch of a journal goes into the outputs of this run, whose first sample and number of outputs are given. Throws
/// InputError, naming the journal, if it lacks what is wanted or has it of other samples or outputs.
void require_fit(FinishedBatch const& batch, WantedOutputs wanted, SampleIndex first_sample, std::size_t num_outputs,
                 std::string const& journal);

} // namespace varve
