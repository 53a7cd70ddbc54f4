#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "engine/backends.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "reference/infer.hpp"

#include <algorithm>

namespace varve {
namespace {

/// The plain loops of reference/ as an engine: slow and correct.
class ReferenceEngine final : public Inference {
public:
  ReferenceEngine(NetworkToRun const& network, InferenceOptions const& options) : network_(network), options_(options) {
    for (std::size_t number = 0; number < num_layers(); ++number) {
      Layer const layer = layers().layer(number);
      if (number == 0) num_inputs_ = layer.num_inputs();
      num_outputs_ = layer.num_outputs();
      num_edges_ += layer.num_edges();
    }
  }

  std::size_t num_inputs() const override { return num_inputs_; }
  std::size_t num_outputs() const override { return num_outputs_; }
  std::size_t num_layers() const override { return layers().num_layers(); }
  EdgeOffset num_edges() const override { return num_edges_; }

  Plan const& plan(InputShape const& input) override {
    plan_ = {};
    plan_.engine = to_string(Engine::reference);
    plan_.device = "host threads";
    plan_.method = "plain loops, layers read when they are needed";
    if (network_.ordered) plan_.edge_order = network_.ordered->report();
    plan_.batch = std::max<std::size_t>(1, std::min(input.num_samples, options_.batch.value_or(input.num_samples)));
    return plan_;
  }

  Plan const& plan() const override { return plan_; }

  BatchResult infer(SampleBatch const& batch, WantedOutputs wanted) override {
    require_representable(batch, options_.precision, options_.input_name);
    auto const samples = to_set(batch);
    BatchResult result;
    for (std::size_t repetition = 0; repetition < options_.repeat; ++repetition) {
      Stopwatch const loop_time;
      result.activations = options_.precision == Precision::double_precision ? varve::infer<double>(layers(), samples)
                                                                             : varve::infer<float>(layers(), samples);
      result.loop_seconds.push_back(loop_time.seconds());
    }
    result.live_samples = categories(result.activations);
    result.activation_hash = hash(result.activations, options_.precision);
    result.live_edges = static_cast<double>(num_edges_) * static_cast<double>(samples.num_samples());
    if (wanted.predictions) result.predictions = largest(result.activations.matrix);
    if (wanted.digests) result.digests = output_digests(result.activations);
    if (!wanted.activations) result.activations = SampleSet();
    return result;
  }

private:
  NetworkSource const& layers() const { return *network_.layers; }

  NetworkToRun network_;
  InferenceOptions options_;
  Plan plan_;
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  EdgeOffset num_edges_ = 0;
};

} // namespace

std::unique_ptr<Inference> prepare_reference(NetworkToRun const& network, InferenceOptions const& options) {
  return std::make_unique<ReferenceEngine>(network, options);
}

} // namespace varve
