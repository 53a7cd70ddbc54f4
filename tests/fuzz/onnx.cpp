#include "fuzz/target.hpp"

#include "io/onnx.hpp"

namespace varve::fuzz {

/// An ONNX model.
VARVE_FUZZ_TARGET(onnx) {
  auto const path = file_of(bytes, "model.onnx");
  auto const network = read_onnx(path);
  for (std::size_t number = 0; number < network.num_layers(); ++number) require_valid(network.layers()[number], number);
}

} // namespace varve::fuzz
