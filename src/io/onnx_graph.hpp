#pragma once

#include "io/element_type.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The parts of an ONNX model that Varve reads (onnx.proto of github.com/onnx/onnx). Texts and numbers are views into
/// the bytes of the model, which must outlive them.
namespace varve::onnx {

/// A constant.
struct Tensor {
  std::string_view name;
  std::vector<std::uint64_t> shape;
  ElementType type;
  std::string_view bytes;                      ///< the elements, lowest byte first, the last index fastest
  std::shared_ptr<std::string const> unpacked; ///< holds `bytes` if the model has them in another form

  std::uint64_t num_elements() const { return bytes.size() / type.size; }
};

/// The types of attributes that Varve reads, by their numbers in AttributeProto.AttributeType.
enum class AttributeType : std::uint64_t { real = 1, integer = 2, tensor = 4 };

/// A number or a constant that belongs to a node. Writers may leave out the field of a number that is 0.
struct Attribute {
  std::uint64_t type = 0; ///< one of AttributeType, or another number
  double real = 0.0;
  std::int64_t integer = 0;
  std::string_view tensor; ///< a message of the kind Tensor
};

/// One operation.
struct Node {
  std::string_view name;
  std::string_view domain;
  std::string_view operation;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::map<std::string_view, Attribute> attributes;

  std::string shown() const; ///< name and operation, quoted for messages
};

/// The graph of a model.
struct Graph {
  std::vector<std::string_view> nodes;                       ///< messages of the kind Node, in the order of computation
  std::map<std::string_view, std::string_view> initializers; ///< messages of the kind Tensor, by name
  std::vector<std::string_view> inputs, outputs;             ///< names; inputs without those that are initializers
  std::optional<std::uint64_t> version;                      ///< of ONNX's own operations (opset_import)
};

/// Reads a model without its nodes and constants. Throws InputError "PLACE: ..." if it is broken or has no graph.
Graph read_graph(std::string_view model, std::string const& place);

/// Throws InputError "PLACE: ..." if the node is broken or has too many inputs, outputs or attributes.
Node read_node(std::string_view message, std::string const& place);

/// Throws InputError "PLACE: ..." if the constant is broken, lies in another file, holds no floating point, or has
/// another length than its shape says.
Tensor read_tensor(std::string_view message, std::string const& place);

} // namespace varve::onnx
