// A network of one layer, built in memory: output 0 averages both inputs, output 1 stays below its bias.
#include <varve/varve.hpp>

#include <iostream>

int main() {
  varve::Runtime const runtime;
  varve::CsrMatrix const weights{2, 2, {0, 2, 3}, {0, 1, 1}, {0.5, 0.5, 0.25}};
  varve::PreparedNetwork network(varve::Network({{weights, {0.0, -1.0}, varve::Activation::relu()}}));
  auto const result = network.infer(varve::Samples(varve::CsrMatrix{2, 2, {0, 2, 2}, {0, 1}, {1.0, 2.0}}));
  std::cout << "varve " << varve::build_description().version << " on " << varve::to_string(network.backend()) << ": "
            << result.live_samples.size() << " live sample, output 0 is " << result.activations.value(0) << '\n';
}
