#include "io/onnx.hpp"

#include "core/error.hpp"
#include "io/byte_stream.hpp"
#include "io/dense_matrix.hpp"
#include "io/line_error.hpp"
#include "io/matrix_parts.hpp"
#include "io/onnx_graph.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// Calls visit(number) for all numbers of a constant.
template <class Visit>
void for_each_number(onnx::Tensor const& tensor, Visit const& visit) {
  constexpr std::size_t block_bytes = std::size_t{1} << 16;
  std::vector<double> numbers;
  for (std::size_t place = 0; place < tensor.bytes.size(); place += block_bytes) {
    numbers.clear();
    append_reals(tensor.type, tensor.bytes.substr(place, block_bytes), numbers);
    for (auto const number : numbers) visit(number);
  }
}

/// An operation that can be read, with the most inputs that it has.
struct Operation {
  std::string_view name;
  std::size_t most_inputs;
};

constexpr std::array<Operation, 10> operations = {{{"Gemm", 3},
                                                   {"MatMul", 2},
                                                   {"Add", 2},
                                                   {"Relu", 1},
                                                   {"Clip", 3},
                                                   {"LeakyRelu", 1},
                                                   {"Sigmoid", 1},
                                                   {"Tanh", 1},
                                                   {"Softmax", 1},
                                                   {"Constant", 0}}};

/// The versions of ONNX's operations in which these are what the tables say.
constexpr std::uint64_t oldest_operations = 7, newest_operations = 28;

/// An attribute of an operation, with the value of one that is absent.
struct Rule {
  std::string_view operation, attribute;
  onnx::AttributeType type;
  double otherwise = 0.0;
  std::uint64_t last_version = newest_operations;
};

constexpr std::array<Rule, 9> rules = {{{"Gemm", "alpha", onnx::AttributeType::real, 1.0},
                                        {"Gemm", "beta", onnx::AttributeType::real, 1.0},
                                        {"Gemm", "transA", onnx::AttributeType::integer},
                                        {"Gemm", "transB", onnx::AttributeType::integer},
                                        {"LeakyRelu", "alpha", onnx::AttributeType::real, 0.01F},
                                        {"Clip", "min", onnx::AttributeType::real, 0.0, 10}, // then inputs
                                        {"Clip", "max", onnx::AttributeType::real, 0.0, 10},
                                        {"Softmax", "axis", onnx::AttributeType::integer, -1.0},
                                        {"Constant", "value", onnx::AttributeType::tensor}}};

/// Follows the chain of operations from the input to the output and makes layers of them.
class Chain {
public:
  /// `most_numbers` limits the weights of all layers, because many layers may name the same constant.
  Chain(onnx::Graph const& graph, std::string place, std::uint64_t most_numbers)
      : graph_(graph), place_(std::move(place)), most_numbers_(most_numbers) {
    if (graph.inputs.size() != 1 || graph.outputs.size() != 1) {
      fail_at(place_, fmt::format("a model of {} inputs and {} outputs", graph.inputs.size(), graph.outputs.size()),
              "one of each");
    }
    if (!graph.version || *graph.version < oldest_operations || *graph.version > newest_operations) {
      fail_at(place_,
              graph.version ? fmt::format("version {} of ONNX's operations", *graph.version)
                            : "no version of ONNX's operations (opset_import)",
              fmt::format("one from {} to {}", oldest_operations, newest_operations));
    }
    value_ = graph.inputs.front();
    names_.insert(value_);
  }

  void take(onnx::Node const& node) {
    node_ = &node;
    auto const& operation = node.operation;
    require_known();
    if (operation == "Constant") return take_constant();
    if (is_finished_) fail_at(place_, fmt::format("the operation {} behind Softmax", node.shown()), "none");
    if (operation == "Gemm") {
      take_gemm();
    } else if (operation == "MatMul") {
      take_matmul();
    } else if (operation == "Add") {
      take_add();
    } else if (operation == "Clip") {
      take_clip();
    } else if (operation == "Softmax") {
      take_softmax();
    } else {
      take_simple_activation();
    }
    value_ = node.outputs.front();
  }

  Network finish(std::string name) {
    if (layers_.empty()) fail_at(place_, "a model without Gemm and MatMul", "at least one");
    if (value_ != graph_.outputs.front()) {
      fail_at(place_, fmt::format("a chain of operations that ends with {}", quote(value_)),
              fmt::format("{}, the output of the model", quote(graph_.outputs.front())));
    }
    try {
      return Network(std::move(layers_), std::move(name));
    } catch (InputError const& failure) {
      throw InputError(fmt::format("{}: {}", place_, failure.what()));
    }
  }

private:
  /// Throws unless the node has nothing but what the tables say, and one output of a new name.
  void require_known() {
    auto const& node = *node_;
    auto const known = std::ranges::find(operations, node.operation, &Operation::name);
    if (known == operations.end() || !(node.domain.empty() || node.domain == "ai.onnx")) {
      fail_at(place_, fmt::format("the operation {}", node.shown()),
              "one of Gemm, MatMul, Add, Relu, Clip, LeakyRelu, Sigmoid, Tanh, Softmax as the last one, and Constant");
    }
    if (node.inputs.size() > known->most_inputs)
      fail_at_node(fmt::format("{} inputs", node.inputs.size()), fmt::format("{} at most", known->most_inputs));
    if (node.outputs.size() != 1) fail_at_node(fmt::format("{} outputs", node.outputs.size()), "one");
    if (graph_.initializers.contains(node.outputs.front()) || !names_.insert(node.outputs.front()).second)
      fail_at_node(fmt::format("the output {}, a name given before", quote(node.outputs.front())), "a new name");
    for (auto const& [name, attribute] : node.attributes) {
      auto const* const rule = rule_of(name);
      if (rule == nullptr || rule->last_version < *graph_.version)
        fail_at_node(fmt::format("the attribute {}", quote(name)), "none of this name");
      if (attribute.type != static_cast<std::uint64_t>(rule->type))
        fail_at_node(fmt::format("the attribute {} of the type {}", quote(name), attribute.type),
                     fmt::format("the type {}", static_cast<std::uint64_t>(rule->type)));
    }
  }

  /// What the table says of an attribute of the present operation; null if it has none of this name.
  Rule const* rule_of(std::string_view name) const {
    auto const rule = std::ranges::find_if(
        rules, [&](Rule const& one) { return one.operation == node_->operation && one.attribute == name; });
    return rule == rules.end() ? nullptr : &*rule;
  }

  [[noreturn]] void fail_at_node(std::string const& what, std::string const& expected) const {
    fail_at(place_, fmt::format("the operation {} with {}", node_->shown(), what), expected);
  }

  std::string_view input(std::size_t number) const {
    return number < node_->inputs.size() ? node_->inputs[number] : std::string_view();
  }

  bool is_constant(std::string_view name) const {
    return graph_.initializers.contains(name) || constants_.contains(name);
  }

  onnx::Tensor constant(std::string_view name) const {
    auto const made = constants_.find(name);
    auto const stored = graph_.initializers.find(name);
    if (made == constants_.end() && stored == graph_.initializers.end())
      fail_at_node(fmt::format("the input {} that is no constant", quote(name)), "a constant");
    return onnx::read_tensor(made != constants_.end() ? made->second : stored->second, place_);
  }

  void require_value_input(std::size_t number) const {
    if (input(number) != value_) {
      fail_at_node(fmt::format("the input {}", quote(input(number))),
                   fmt::format("{}, the output of the operation before (a chain without branches)", quote(value_)));
    }
  }

  /// The number that an attribute is or stands for.
  double number(char const* name) const {
    auto const found = node_->attributes.find(name);
    if (found == node_->attributes.end()) return rule_of(name)->otherwise;
    auto const& attribute = found->second;
    bool const is_real = rule_of(name)->type == onnx::AttributeType::real;
    return is_real ? attribute.real : static_cast<double>(attribute.integer);
  }

  void take_constant() {
    auto const found = node_->attributes.find("value");
    if (found == node_->attributes.end()) fail_at_node("no attribute \"value\"", "a tensor");
    constants_[node_->outputs.front()] = found->second.tensor;
  }

  /// Adds a layer whose weights have the shape [inputs, outputs], or [outputs, inputs] if `has_output_rows`.
  void add_layer(std::string_view name, bool has_output_rows) {
    auto const tensor = constant(name);
    if (tensor.shape.size() != 2)
      fail_at_node(fmt::format("weights of {} dimensions", tensor.shape.size()), "2 dimensions");
    DenseShape shape{tensor.shape[0], tensor.shape[1]};
    if (!has_output_rows) shape = {tensor.shape[1], tensor.shape[0], DenseOrder::by_columns};
    auto const place = fmt::format("{}: {}", place_, quote(name));
    require_countable(shape.num_rows, shape.num_columns, tensor.num_elements(), place);
    num_numbers_ += tensor.num_elements() + shape.num_rows;
    if (num_numbers_ > most_numbers_)
      fail_at(place, "layers that share constants", "as many numbers as the file holds");
    Layer layer;
    layer.weights = matrix_of_dense(shape, place, [&](auto const& visit) { for_each_number(tensor, visit); });
    layer.activation = Activation::identity();
    layers_.push_back(std::move(layer));
    may_get_bias_ = may_get_activation_ = true;
  }

  void set_bias(std::string_view name) {
    auto const tensor = constant(name);
    auto const num_outputs = layers_.back().num_outputs();
    bool const is_list = std::ranges::count_if(tensor.shape, [](auto length) { return length != 1; }) <= 1;
    if (!is_list || (tensor.num_elements() != 1 && tensor.num_elements() != num_outputs) || tensor.shape.size() > 2 ||
        (tensor.shape.size() == 2 && tensor.shape[0] != 1)) {
      fail_at_node(fmt::format("a bias of the shape ({})", fmt::join(tensor.shape, ", ")),
                   fmt::format("1 or {} numbers", num_outputs));
    }
    layers_.back().bias.clear();
    for_each_number(tensor, [&](double number) { layers_.back().bias.push_back(number); });
    may_get_bias_ = false;
  }

  void take_gemm() {
    require_value_input(0);
    if (number("alpha") != 1.0 || number("beta") != 1.0) fail_at_node("alpha or beta", "1 for both");
    if (number("transA") != 0.0) fail_at_node("transA", "0");
    add_layer(input(1), number("transB") != 0.0);
    if (!input(2).empty()) set_bias(input(2));
  }

  void take_matmul() {
    require_value_input(0);
    add_layer(input(1), false);
  }

  void take_add() {
    bool const is_first = input(0) == value_;
    if (!is_first) require_value_input(1);
    if (!may_get_bias_)
      fail_at_node("no MatMul or Gemm without a bias before it", "one directly before it, whose bias it adds");
    set_bias(input(is_first ? 1 : 0));
  }

  void set_activation(Activation const& activation) {
    require_value_input(0);
    if (!may_get_activation_)
      fail_at_node("no Gemm, MatMul or Add before it", "one of them directly before it: one activation per layer");
    require_valid(activation, fmt::format("{}: {}", place_, node_->shown()));
    layers_.back().activation = activation;
    may_get_bias_ = may_get_activation_ = false;
  }

  void take_simple_activation() {
    auto const& operation = node_->operation;
    if (operation == "Relu") return set_activation(Activation::relu());
    if (operation == "Sigmoid") return set_activation(Activation::sigmoid());
    if (operation == "Tanh") return set_activation(Activation::tanh());
    set_activation(Activation::leaky_relu(number("alpha")));
  }

  /// A limit of Clip: an input since version 11 of the operations, before an attribute.
  std::optional<double> limit(std::size_t number, char const* name) const {
    auto const found = node_->attributes.find(name);
    if (found != node_->attributes.end()) return found->second.real;
    if (input(number).empty()) return std::nullopt;
    std::optional<double> value;
    auto const tensor = constant(input(number));
    if (tensor.num_elements() != 1) fail_at_node(fmt::format("{} limits", tensor.num_elements()), "one number");
    for_each_number(tensor, [&](double only) { value = only; });
    return value;
  }

  void take_clip() {
    auto const lowest = limit(1, "min");
    auto const highest = limit(2, "max");
    if (lowest != 0.0) fail_at_node("another lower limit than 0", "0");
    set_activation(highest ? Activation::clipped_relu(*highest) : Activation::relu());
  }

  /// Softmax over the outputs of each sample. Values have the shape [samples, outputs], so these are axis 1, which is
  /// also -1; one of the two is the default of every version of the operation.
  void take_softmax() {
    require_value_input(0);
    auto const axis = number("axis");
    if (axis != 1 && axis != -1)
      fail_at_node(fmt::format("the axis {}", axis), "1 or -1: over the outputs of a sample");
    is_finished_ = true;
  }

  onnx::Graph const& graph_;
  std::string place_;
  std::uint64_t most_numbers_;
  std::uint64_t num_numbers_ = 0; ///< numbers of all weights so far
  onnx::Node const* node_ = nullptr;
  std::string_view value_; ///< name of the output of the last operation
  std::map<std::string_view, std::string_view> constants_;
  std::set<std::string_view> names_; ///< of the input and of all outputs so far
  std::vector<Layer> layers_;
  bool may_get_bias_ = false; ///< the last operation was MatMul, or Gemm without a bias
  bool may_get_activation_ = false;
  bool is_finished_ = false; ///< Softmax was found
};

/// Reads a number of Protocol Buffers; nothing at the end of the bytes, or if it has no end.
std::optional<std::uint64_t> next_number(ByteSource& bytes) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    std::array<char, 1> byte{};
    if (bytes.read(byte) == 0) return std::nullopt;
    number |= std::uint64_t{static_cast<unsigned char>(byte[0]) & 0x7fU} << shift;
    if ((static_cast<unsigned char>(byte[0]) & 0x80U) == 0) return number;
  }
  return std::nullopt;
}

/// False if there are fewer bytes.
bool skip_bytes(ByteSource& bytes, std::uint64_t count) {
  std::array<char, 4096> block{};
  while (count > 0) {
    auto const part = std::span(block).first(static_cast<std::size_t>(std::min<std::uint64_t>(count, block.size())));
    if (bytes.read(part) < part.size()) return false;
    count -= part.size();
  }
  return true;
}

constexpr int newest_version = 64; // of ONNX; the numbers of its versions are small

/// True if all bytes are fields of a model, in any order, with a version of ONNX and a graph among them.
bool are_fields_of_model(ByteSource& bytes) {
  constexpr std::uint64_t version = 1, graph = 7, own_version = 5;
  constexpr std::array<std::uint64_t, 9> with_bytes = {2, 3, 4, 6, graph, 8, 14, 20, 25};
  constexpr std::uint64_t number_kind = 0, bytes_kind = 2;
  constexpr int most_fields = 1 << 16;
  bool has_version = false;
  bool has_graph = false;
  int num_fields = 0;
  for (std::optional<std::uint64_t> tag; (tag = next_number(bytes));) {
    auto const id = *tag >> 3U;
    auto const kind = *tag & 7U;
    auto const value = next_number(bytes);
    if (!value || ++num_fields > most_fields) return false;
    bool const is_number = kind == number_kind && (id == version || id == own_version);
    bool const has_bytes = kind == bytes_kind && std::ranges::find(with_bytes, id) != with_bytes.end();
    if ((!is_number && !has_bytes) || (has_bytes && !skip_bytes(bytes, *value))) return false;
    if (id == version && (*value == 0 || *value >= newest_version)) return false;
    has_version = has_version || id == version;
    has_graph = has_graph || id == graph;
  }
  return has_version && has_graph;
}

} // namespace

bool is_onnx(fs::path const& path) {
  std::array<char, 3> head{};
  if (open_bytes(path)->read(head) < head.size()) return false;
  constexpr char version_tag = 0x08;                                     // field 1, a number
  std::string_view const next_tags = "\x12\x1a\x22\x28\x32\x3a\x42\x72"; // the other fields of a model
  bool const begins_like_one = head[0] == version_tag && head[1] > 0 && head[1] < newest_version &&
                               next_tags.find(head[2]) != std::string_view::npos;
  return begins_like_one || are_fields_of_model(*open_bytes(path));
}

Network read_onnx(fs::path const& path) {
  auto const model = read_text(path);
  auto const graph = onnx::read_graph(model, path.string());
  constexpr std::uint64_t always_modest = std::uint64_t{1} << 21;
  Chain chain(graph, path.string(), std::max<std::uint64_t>(always_modest, model.size() / 2));
  for (auto const message : graph.nodes) chain.take(onnx::read_node(message, path.string()));
  return chain.finish(path.string());
}

} // namespace varve
