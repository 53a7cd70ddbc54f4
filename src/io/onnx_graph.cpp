#include "io/onnx_graph.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/line_error.hpp"
#include "io/protobuf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace varve::onnx {
namespace {

using Kind = ProtoField::Kind;

constexpr std::size_t most_parts = 64;      // of a node: inputs, outputs, attributes; of a shape: dimensions
constexpr std::size_t most_nodes = 1 << 17; // and constants

template <class List>
void require_few(List const& list, std::size_t most, char const* what, std::string const& place) {
  if (list.size() > most) fail_at(place, fmt::format("more than {} {}", most, what), "no more");
}

/// The name of a value (ValueInfoProto).
std::string_view name_in(std::string_view message, std::uint32_t id, std::string const& place) {
  std::string_view name;
  ProtoReader reader(message, place);
  for (ProtoField field; reader.next(field);) {
    if (field.id == id && field.kind == Kind::bytes) name = field.bytes;
  }
  return name;
}

Graph graph_of(std::string_view message, std::string const& place) {
  Graph graph;
  ProtoReader reader(message, place);
  for (ProtoField field; reader.next(field);) {
    if (field.kind != Kind::bytes) continue;
    if (field.id == 1) graph.nodes.push_back(field.bytes);
    if (field.id == 5) {
      auto const name = name_in(field.bytes, 8, place);
      if (!graph.initializers.emplace(name, field.bytes).second)
        fail_at(place, fmt::format("two constants of the name {}", quote(name)), "one");
    }
    if (field.id == 11) graph.inputs.push_back(name_in(field.bytes, 1, place));
    if (field.id == 12) graph.outputs.push_back(name_in(field.bytes, 1, place));
    if (field.id == 15) fail_at(place, "a sparse constant (sparse_initializer)", "dense ones");
    require_few(graph.nodes, most_nodes, "nodes", place);
    require_few(graph.initializers, most_nodes, "constants", place);
    require_few(graph.inputs, 2 * most_nodes, "inputs", place);
    require_few(graph.outputs, most_parts, "outputs", place);
  }
  std::erase_if(graph.inputs, [&](std::string_view name) { return graph.initializers.contains(name); });
  return graph;
}

/// Takes the version of a set of operations (OperatorSetIdProto) if it is ONNX's own set.
void take_version(std::string_view message, std::optional<std::uint64_t>& version, std::string const& place) {
  std::uint64_t found = 0;
  ProtoReader reader(message, place);
  for (ProtoField field; reader.next(field);)
    if (field.id == 2 && field.kind == Kind::number) found = field.number;
  if (auto const domain = name_in(message, 1, place); !domain.empty() && domain != "ai.onnx") return;
  if (version) fail_at(place, "two versions of ONNX's operations (opset_import)", "one");
  version = found;
}

Attribute read_attribute(std::string_view message, std::string_view& name, std::string const& place) {
  Attribute attribute;
  ProtoReader reader(message, place);
  for (ProtoField field; reader.next(field);) {
    if (field.id == 1 && field.kind == Kind::bytes) name = field.bytes;
    if (field.id == 20 && field.kind == Kind::number) attribute.type = field.number;
    if (field.id == 2 && field.kind == Kind::fixed32)
      attribute.real = double(std::bit_cast<float>(static_cast<std::uint32_t>(field.number)));
    if (field.id == 3 && field.kind == Kind::number) attribute.integer = static_cast<std::int64_t>(field.number);
    if (field.id == 5 && field.kind == Kind::bytes) attribute.tensor = field.bytes;
  }
  return attribute;
}

/// Calls take(number) for the number of a field, or for each of a packed list of numbers.
template <class Take>
void for_each_packed(ProtoField const& field, std::string const& place, Take const& take) {
  if (field.kind == Kind::number) take(field.number);
  if (field.kind != Kind::bytes) return;
  auto rest = field.bytes;
  while (!rest.empty()) {
    std::uint64_t number = 0;
    unsigned shift = 0;
    bool continues = true;
    while (continues && !rest.empty() && shift < 64) {
      auto const byte = static_cast<unsigned char>(rest.front());
      rest.remove_prefix(1);
      number |= std::uint64_t{byte & 0x7fU} << shift;
      shift += 7;
      continues = (byte & 0x80U) != 0;
    }
    if (continues) fail_at(place, "a number without end in a list of a constant", "a number");
    take(number);
  }
}

/// Appends a dimension, or a packed list of them.
void take_dimensions(ProtoField const& field, std::vector<std::uint64_t>& shape, std::string const& place) {
  for_each_packed(field, place, [&](std::uint64_t length) {
    if (shape.size() <= most_parts) shape.push_back(length);
  });
}

/// Appends the two bytes of each number of int32_data, in which float16 and bfloat16 stand as the bits of an integer.
void take_halves(ProtoField const& field, std::string& bytes, std::string const& place) {
  for_each_packed(field, place, [&](std::uint64_t bits) {
    if (bits > 0xffffU) fail_at(place, fmt::format("the number {} in the int32_data of a constant", bits), "16 bits");
    bytes += static_cast<char>(bits & 0xffU);
    bytes += static_cast<char>(bits >> 8U);
  });
}

/// The type of elements that a constant may have, by its number in TensorProto.DataType.
std::optional<ElementType> type_of(std::uint64_t number) {
  switch (number) {
  case 1:
    return ElementType{ElementType::Kind::floating, 4};
  case 10:
    return ElementType{ElementType::Kind::floating, 2};
  case 11:
    return ElementType{ElementType::Kind::floating, 8};
  case 16:
    return ElementType{ElementType::Kind::brain_floating, 2};
  default:
    return std::nullopt;
  }
}

} // namespace

std::string Node::shown() const {
  auto const what = quote(domain.empty() ? operation : fmt::format("{}.{}", domain, operation));
  return name.empty() ? what : fmt::format("{} (node {})", what, quote(name));
}

Graph read_graph(std::string_view model, std::string const& place) {
  std::optional<std::string_view> message;
  std::optional<std::uint64_t> version;
  ProtoReader reader(model, place);
  for (ProtoField field; reader.next(field);) {
    if (field.id == 7 && field.kind == Kind::bytes) message = field.bytes;
    if (field.id == 8 && field.kind == Kind::bytes) take_version(field.bytes, version, place);
  }
  if (!message) fail_at(place, "an ONNX model without a graph", "one");
  auto graph = graph_of(*message, place);
  graph.version = version;
  return graph;
}

Node read_node(std::string_view message, std::string const& place) {
  Node node;
  ProtoReader reader(message, place);
  for (ProtoField field; reader.next(field);) {
    if (field.kind != Kind::bytes) continue;
    if (field.id == 1) node.inputs.push_back(field.bytes);
    if (field.id == 2) node.outputs.push_back(field.bytes);
    if (field.id == 3) node.name = field.bytes;
    if (field.id == 4) node.operation = field.bytes;
    if (field.id == 7) node.domain = field.bytes;
    if (field.id == 5) {
      std::string_view name;
      auto const attribute = read_attribute(field.bytes, name, place);
      if (!node.attributes.emplace(name, attribute).second)
        fail_at(place, fmt::format("two attributes {} of a node", quote(name)), "one");
    }
    require_few(node.inputs, most_parts, "inputs of a node", place);
    require_few(node.outputs, most_parts, "outputs of a node", place);
    require_few(node.attributes, most_parts, "attributes of a node", place);
  }
  return node;
}

Tensor read_tensor(std::string_view message, std::string const& place) {
  Tensor tensor;
  std::uint64_t type = 0;
  std::map<std::uint32_t, std::string_view> data; // by field: 4 float_data, 9 raw_data, 10 double_data
  std::vector<ProtoField> halves;                 // int32_data
  ProtoReader reader(message, place);
  for (ProtoField field; reader.next(field);) {
    if (field.id == 1) take_dimensions(field, tensor.shape, place);
    if (field.id == 2 && field.kind == Kind::number) type = field.number;
    if (field.id == 8 && field.kind == Kind::bytes) tensor.name = field.bytes;
    if ((field.id == 4 || field.id == 9 || field.id == 10) && field.kind == Kind::bytes) data[field.id] = field.bytes;
    if (field.id == 5) halves.push_back(field);
    if (field.id == 14 && field.number == 1)
      fail_at(place, "a constant that lies in another file",
              "all in this file (torch.onnx.export: external_data=False)");
    require_few(tensor.shape, most_parts, "dimensions", place);
  }
  auto const what = fmt::format("the constant {}", quote(tensor.name));
  auto const found = type_of(type);
  if (!found) fail_at(place, fmt::format("{} of the data type {}", what, type), "float, double, float16 or bfloat16");
  tensor.type = *found;
  auto const list = data.contains(9) ? 9U : type == 1 ? 4U : type == 11 ? 10U : 0U;
  tensor.bytes = data.contains(list) ? data[list] : std::string_view();
  if (list == 0 && tensor.type.size == 2) {
    std::string bytes;
    for (auto const& field : halves) take_halves(field, bytes, place);
    tensor.unpacked = std::make_shared<std::string const>(std::move(bytes));
    tensor.bytes = *tensor.unpacked;
  }
  std::uint64_t bytes = tensor.type.size;
  for (auto const length : tensor.shape) bytes = capped_multiply(bytes, length);
  if (std::ranges::find(tensor.shape, 0U) != tensor.shape.end()) bytes = 0;
  if (bytes != tensor.bytes.size())
    fail_at(place, fmt::format("{} with {} bytes", what, tensor.bytes.size()),
            fmt::format("{} for its shape ({})", bytes, fmt::join(tensor.shape, ", ")));
  return tensor;
}

} // namespace varve::onnx
