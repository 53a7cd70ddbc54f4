#pragma once

#include "distribute/run_batches.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace varve {

/// Checks a journal's description of its network. Throws InputError, naming the journal, unless it has the numbers of
/// layers, inputs, outputs and edges.
void require_facts(nlohmann::ordered_json const& facts, std::string const& journal);

/// Checks that a batch of a journal can go into the outputs of this run, which has this first sample and number of
/// outputs. Throws InputError, naming the journal, if wanted predictions, activations or digests are missing or belong
/// to other samples or outputs.
void require_fit(FinishedBatch const& batch, WantedOfBatch wanted, SampleIndex first_sample, std::size_t num_outputs,
                 std::string const& journal);

} // namespace varve
