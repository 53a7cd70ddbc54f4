// Runs a network of one layer through the installed library: neuron 0 averages both inputs, neuron 1 stays below its
// bias.
#include <core/runtime.hpp>
#include <core/version.hpp>
#include <engine/inference.hpp>
#include <network/network.hpp>
#include <network/sample_set.hpp>

#include <iostream>

int main(int num_arguments, char** arguments) {
  varve::Runtime const runtime(num_arguments, arguments);

  varve::SparseMatrix const weights{2, 2, {0, 2, 3}, {0, 1, 1}, {0.5, 0.5, 0.25}};
  varve::Network const network({varve::Layer{weights, {0.0, -1.0}, varve::Activation::relu()}});
  varve::SampleSet const samples{varve::SparseMatrix{2, 2, {0, 2, 2}, {0, 1}, {1.0, 2.0}}, 0};

  bool right = true;
  for (varve::Backend const backend : varve::compiled_backends()) {
    varve::InferenceOptions options;
    options.backend = backend;
    auto const inference = varve::prepare(network, options);
    inference->plan(shape_of(samples));
    auto const result = inference->infer(samples, {.activations = true});
    auto const& last = result.activations.matrix;
    right = right && result.live_samples == std::vector<varve::SampleIndex>{0} && last.num_entries() == 1 &&
            last.column_indices[0] == 0 && last.value(0) == 1.5;
    std::cout << varve::to_string(backend) << ": " << (right ? "right" : "wrong") << '\n';
  }
  std::cout << "varve " << varve::provenance.version << '\n';
  return right ? 0 : 1;
}
