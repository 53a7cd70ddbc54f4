#include "fuzz/target.hpp"

#include "io/onnx.hpp"

/// An ONNX model.
void varve::fuzz::read_input(std::string_view bytes) {
  auto const path = file_of(bytes, "model.onnx");
  auto const network = read_onnx(path);
  for (std::size_t number = 0; number < network.num_layers(); ++number) require_valid(network.layers()[number], number);
}
