#pragma once

#include "network/network.hpp"

#include <filesystem>

namespace varve {

/// True if a file begins like an ONNX model. (Protocol Buffers have no signature: the first field must be a plausible
/// version of ONNX, the second another field of a model.) Throws InputError, naming the file, if it cannot be read.
bool is_onnx(std::filesystem::path const& path);

/// Reads an ONNX model that is a chain of fully connected layers: Gemm, or MatMul and Add, each followed by at most one
/// of Relu, Clip from 0, LeakyRelu, Sigmoid and Tanh. A Softmax at the end is left out, because it changes neither the
/// order of the outputs nor the cross-entropy that Varve computes. Zero weights are not stored. Throws InputError,
/// naming the file, if it is broken, or naming the node, if it is any other operation.
Network read_onnx(std::filesystem::path const& path);

} // namespace varve
