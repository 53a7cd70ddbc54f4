#pragma once

#include "distribute/batch_queue.hpp"
#include "distribute/ranks.hpp"
#include "distribute/run_batches.hpp"
#include "engine/inference.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace varve {

/// The report of `varve infer`: a few lines for the terminal, and a JSON file with full provenance.
class InferReport {
public:
  InferReport();

  void phase(std::string const& name, double seconds);
  void samples(std::string const& input, SampleIndex first_sample, SampleIndex num_samples, std::size_t repetitions);
  void devices(std::string const& backend, std::string const& precision, std::vector<RankDevice> const& ranks);
  /// `facts` is an object with the numbers of layers, inputs, outputs and edges.
  void network(std::string const& name, nlohmann::ordered_json const& facts);
  /// Records a remark for the user and prints it on standard error.
  void remark(std::string const& sentence);
  void plan(Plan const& plan);
  /// Records the plan of later batches, if it differs from the first one.
  void later_plan(Plan const& plan);
  void journal(std::string const& path, SampleIndex num_found, std::uint64_t num_discarded_bytes);
  /// Records what the ranks did within `seconds`; does nothing if the list is empty, as on all ranks but the first.
  void run(Schedule schedule, double seconds, std::vector<RankTimes> const& ranks);
  void result(std::size_t num_live_samples, std::uint64_t activation_hash, double live_edges);

  /// Compares two ascending lists of sample numbers. Returns true if they are equal; otherwise records the first
  /// differences.
  bool compare(std::vector<SampleIndex> const& truth, std::vector<SampleIndex> const& live_samples);

  void print_start() const;
  void print_result() const;
  void write(std::string const& path) const;

private:
  void rates(Schedule schedule, std::vector<RankTimes> const& ranks);
  void streamed_samples(std::vector<RankTimes> const& ranks);
  void streamed_weights(std::vector<RankTimes> const& ranks);
  void print_journal() const;
  void print_plan() const;
  void print_devices() const;
  void print_ranks() const;
  void print_streamed_samples() const;
  void print_streamed_weights() const;
  void print_exchange() const;

  nlohmann::ordered_json json_;
};

} // namespace varve
