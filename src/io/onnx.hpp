#pragma once

#include "network/network.hpp"

#include <filesystem>

namespace varve {

/// True if a file begins like an ONNX model. (Protocol Buffers have no signature: the first field must be a plausible
/// version of ONNX, the second another field of a model; or the file must consist of fields of a model, in any order.)
/// Throws InputError, naming the file, if it cannot be read.
bool is_onnx(std::filesystem::path const& path);

/// Reads an ONNX model that is a chain of fully connected layers: Gemm or MatMul, with or without Add, each followed by
/// at most one of Relu, Clip from 0, LeakyRelu, Sigmoid and Tanh. A Softmax over the outputs at the end is left out,
/// because it changes neither the order of the outputs nor the cross-entropy that Varve computes. Zero weights are not
/// stored. Throws InputError, naming the file, if it is broken, or naming the node, if it is any other operation.
///
/// The messages are read by ProtoReader, not by Google's library of Protocol Buffers with classes made from onnx.proto:
/// its 130 lines take no copy of a model and bound the memory by the size of the file, and the build needs neither that
/// library nor its compiler.
Network read_onnx(std::filesystem::path const& path);

} // namespace varve
