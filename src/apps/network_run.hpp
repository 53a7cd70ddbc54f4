#pragma once

#include "apps/benchmark_run.hpp"
#include "engine/inference.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace varve {

/// Runs of all samples through a network that is prepared in one way. Their times: "loop_seconds" in the layer loop,
/// from fence to fence, and "call_seconds" from handing over the samples until the results were on the host.
class NetworkRun final : public Contender {
public:
  /// Prepares the network. `options`: all that is computed with, with memory limits. `most_checked`: samples that
  /// check() compares at most; 0: as many as plain loops compute in a few seconds. Both references must outlive the
  /// object. Throws what prepare() and plan() throw.
  NetworkRun(NetworkSource const& network, SampleBatch const& samples, InferenceOptions options,
             std::string name_of_work, std::size_t most_checked = 0);

  /// Takes the device memory of what is prepared from `memory_left`, in bytes. If that is too little, the network is
  /// prepared anew for each run from now on.
  void stay_within(std::size_t& memory_left);

  /// Runs all samples and returns the seconds in the layer loop and of the whole call. Throws ResourceError if the
  /// answer differs from that of an earlier run.
  std::pair<double, double> run();
  std::uint64_t activation_hash() const { return *activation_hash_; } ///< after run() only

  AnswerCheck check() override;
  void measure() override;
  std::optional<std::pair<std::string, std::uint64_t>> answer() const override;
  void describe(nlohmann::ordered_json& record) override;

private:
  void prepare_it();
  Inference& inference();
  AnswerCheck judge();
  nlohmann::ordered_json steps();

  NetworkSource const& network_;
  SampleBatch const& samples_;
  InferenceOptions options_;
  std::size_t most_checked_;
  std::unique_ptr<Inference> inference_;
  std::size_t device_bytes_ = 0;
  double prepare_seconds_ = 0.0;
  bool stays_ = true;
  std::optional<std::uint64_t> activation_hash_;
  std::size_t num_live_ = 0;
  double live_edges_ = 0.0; ///< fma of a run: edges after reductions times samples
};

} // namespace varve
