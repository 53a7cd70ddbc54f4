#include "apps/infer_job.hpp"
#include "core/error.hpp"
#include "distribute/rank_exchange.hpp"

#include <algorithm>
#include <cstdint>

namespace varve {
namespace {

BatchRules batch_rules(InferJob const& job) {
  constexpr double most_seconds = 10.0; // longest batch with a journal: the work that a killed run loses
  bool const has_journal = !job.options.journal.empty();
  BatchRules rules;
  auto usual = job.communicator.size() > 1 || has_journal ? Schedule::dynamic : Schedule::fixed;
  if (job.splits_neurons()) usual = Schedule::together;
  rules.schedule = job.options.schedule ? parse_schedule(*job.options.schedule) : usual;
  rules.grain = job.engine.batch.value_or(grain_of(job.num_samples()));
  rules.one_grain = job.options.batch.has_value();
  if (has_journal || rules.schedule == Schedule::dynamic) rules.most_seconds = most_seconds;
  rules.are_alike = job.are_ranks_alike && has_own_memory(job.engine.backend) && !has_journal;
  if (rules.are_alike) rules.least = least_samples_at_a_time(job.engine.backend); // unlike ranks need small batches
  return rules;
}

/// Plans for the largest batch that this rank can get: an equal share of the samples (all samples if ranks split
/// neurons), or as many as fit.
Plan plan_batches(Inference& inference, InferJob const& job, BatchRules& rules) {
  auto const num_samples = job.num_samples();
  auto const num_shares = rules.schedule == Schedule::together ? 1 : static_cast<SampleIndex>(job.communicator.size());
  auto const share = capped_multiply(num_samples / num_shares / rules.grain + 1, rules.grain);
  auto const fit = samples_that_fit(*job.samples, input_bytes(job.options, job.ranks_on_host));
  auto const enough = most_samples_at_a_time(job.engine.backend);
  auto const most = rules.one_grain ? num_samples : std::min({num_samples, share, fit, enough});
  auto const entries = static_cast<double>(job.samples->num_entries()) * static_cast<double>(most) /
                       static_cast<double>(std::max<SampleIndex>(num_samples, 1));
  auto const plan = inference.plan({most, static_cast<EdgeOffset>(entries), job.samples->has_one_value()});
  rules.most = plan.batch;
  return plan;
}

void prepare_for(InferJob const& job, Prepared& prepared) {
  prepared.rules = batch_rules(job);
  prepared.inference = prepare(*job.network, job.engine);
  prepared.plan = plan_batches(*prepared.inference, job, prepared.rules);
}

/// True if neurons may be split where whole layers do not fit the memory of a rank.
bool may_split(InferJob const& job) {
  bool const is_alone = job.communicator.size() == 1 || job.engine.engine != Engine::varve;
  return job.options.split == "auto" && !job.options.schedule && !is_alone;
}

/// True if this error is a reason to split neurons: memory is too small, and a smaller batch does not help.
bool is_reason_to_split(InferJob const& job, Prepared const& prepared, Error const& error) {
  if (!may_split(job)) return false;
  return error.kind() == ErrorKind::resource && !(prepared.inference && job.options.batch);
}

/// Prepares whole layers on each rank. False if the memory of some rank is too small and neurons shall be split
/// instead.
bool prepare_to_share_samples(InferJob& job, Prepared& prepared) {
  std::uint64_t lacks_memory = 0;
  job.engine.cuts_layers = !may_split(job); // strips are read for every batch; parts of all layers stay on the ranks
  job.communicator.together([&] {
    try {
      prepare_for(job, prepared);
    } catch (Error const& error) {
      if (!is_reason_to_split(job, prepared, error)) throw;
      lacks_memory = 1;
    }
  });
  return job.communicator.sum(lacks_memory) == 0;
}

/// Prepares a part of each layer on each rank. All ranks take the smallest of the batches that fit the ranks.
void prepare_to_split_neurons(InferJob& job, Prepared& prepared) {
  prepared.inference.reset(); // frees the memory of the first attempt
  job.engine.exchange = exchange_between_ranks(job.options.exchange == "host");
  job.engine.cuts_layers = true;
  job.communicator.together([&] { prepare_for(job, prepared); });
  prepared.plan.batch = std::ranges::min(job.communicator.gather_everywhere({prepared.plan.batch}));
  prepared.rules.most = prepared.plan.batch;
}

} // namespace

Prepared prepare_job(InferJob& job) {
  auto const num_ranks = static_cast<SampleIndex>(job.communicator.size());
  job.engine.expected_samples = std::min<std::size_t>((job.num_samples() + num_ranks - 1) / num_ranks,
                                                      job.engine.batch.value_or(job.num_samples()));
  Prepared prepared;
  bool const shares_samples = job.options.split != "neurons" && prepare_to_share_samples(job, prepared);
  if (!shares_samples) prepare_to_split_neurons(job, prepared);
  return prepared;
}

} // namespace varve
