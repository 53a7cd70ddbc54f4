#include "apps/journal_contents.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

namespace varve {

void require_facts(nlohmann::ordered_json const& facts, std::string const& journal) {
  for (char const* const name : {"layers", "inputs", "outputs", "edges"}) {
    if (facts.is_object() && facts.contains(name) && facts[name].is_number_unsigned()) continue;
    throw InputError(fmt::format("{} does not say how many {} its network has, expected a number", journal, name));
  }
}

void require_fit(FinishedBatch const& batch, WantedOfBatch wanted, SampleIndex first_sample, std::size_t num_outputs,
                 std::string const& journal) {
  auto const num_samples = batch.samples.second - batch.samples.first;
  auto const& activations = batch.activations;
  bool const has_predictions = !wanted.predictions || batch.predictions.size() == num_samples;
  bool const has_activations =
      !wanted.activations || (activations.num_samples() == num_samples && activations.num_neurons() == num_outputs &&
                              activations.first_sample == first_sample + batch.samples.first);
  bool const has_leaves = !wanted.leaves || batch.leaves.size() == num_samples;
  if (has_predictions && has_activations && has_leaves) return;
  throw InputError(fmt::format("{}: the batch of the samples {} to {} has other {} than this run wants", journal,
                               batch.samples.first + 1, batch.samples.second,
                               !has_predictions   ? "predictions"
                               : !has_activations ? "activations"
                                                  : "digests"));
}

} // namespace varve
