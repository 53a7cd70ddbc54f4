#pragma once

#include "engine/inference.hpp"
#include "io/sample_range.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace varve {

/// What `varve infer` says: a few lines for people, and the same with full provenance as JSON.
class InferReport {
public:
  InferReport();

  void phase(std::string const& name, double seconds);
  void network(NetworkSource const& source, Inference const& inference);
  void samples(std::string const& input, SampleRange range, int num_ranks);
  void plan(PlanSummary const& plan, std::string const& backend, std::string const& precision,
            std::vector<std::string> const& devices);
  void result(std::vector<double> loop_seconds, std::vector<SampleIndex> const& live_samples,
              std::uint64_t activation_hash, double live_edges);

  /// Both ascending. True if equal; else remembers the first differences.
  bool compare(std::vector<SampleIndex> const& truth, std::vector<SampleIndex> const& live_samples);

  void print_plan() const;
  void print_result() const;
  void write(std::string const& path) const;

private:
  nlohmann::ordered_json json_;
};

} // namespace varve
