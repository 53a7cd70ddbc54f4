#include "io/layer_list.hpp"

#include "core/error.hpp"
#include "io/layer_description.hpp"
#include "io/line_error.hpp"
#include "io/matrix_file.hpp"
#include "io/matrix_parts.hpp"
#include "io/named_activation.hpp"
#include "io/natural_order.hpp"
#include "io/npy.hpp"
#include "io/plain_binsparse.hpp"
#include "io/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr char const* list_name = "network.json";

/// The matrices of a folder, in the order of their names; hidden files are none of them.
std::vector<fs::path> matrices_in(fs::path const& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    auto const name = entry->path().filename().string();
    if (!name.starts_with('.') && !is_layer_file_name(name) && matrix_format(entry->path()))
      files.push_back(entry->path());
  }
  std::ranges::sort(files, [](fs::path const& left, fs::path const& right) {
    return comes_before(left.filename().string(), right.filename().string());
  });
  return files;
}

/// The JSON text of a network, if it has one.
std::optional<fs::path> description_of(fs::path const& path) {
  std::error_code error;
  auto const list = fs::is_directory(path, error) ? path / list_name : path;
  return is_layer_description(list) ? std::optional(list) : std::nullopt;
}

/// Matrices without a description: each gets what the options say.
std::vector<LayerDescription> bare_layers(fs::path const& path) {
  std::error_code error;
  auto const files = fs::is_directory(path, error) ? matrices_in(path) : std::vector{path};
  std::vector<LayerDescription> layers;
  for (auto const& file : files) {
    if (!is_plain_binsparse(file)) {
      layers.push_back({.file = file});
      continue;
    }
    for (auto const& name : plain_matrix_names(file)) layers.push_back({.file = file, .member = name});
  }
  return layers;
}

std::vector<LayerDescription> descriptions_of(fs::path const& path) {
  auto const description = description_of(path);
  return description ? read_layer_descriptions(*description) : bare_layers(path);
}

template <class Number>
void require_asked(std::optional<std::size_t> const& asked, Number found, char const* what, fs::path const& path) {
  if (!asked || *asked == found) return;
  throw UsageError(fmt::format("{} {} was asked for, but {} says {}", what, *asked, path.string(), found));
}

/// The layers of a network, read on demand.
class LayerList final : public NetworkSource {
public:
  LayerList(fs::path path, std::vector<LayerDescription> descriptions, ChallengeOptions const& options)
      : path_(std::move(path)), descriptions_(std::move(descriptions)), options_(options) {
    std::size_t num_outputs = 0; // of the layer before
    std::size_t num_inputs = 0;
    for (std::size_t number = 0; number < descriptions_.size(); ++number) {
      auto const& file = descriptions_[number].file;
      if (!tensors_.contains(file) && is_safetensors(file)) tensors_.emplace(file, file);
      auto const layer = this->layer(number);
      if (number > 0) require_fitting(layer, number, num_inputs, num_outputs);
      num_inputs = layer.num_inputs();
      num_outputs = layer.num_outputs();
      has_orientation_ = has_orientation_ || num_inputs != num_outputs || says_orientation(number);
      require_asked(options_.neurons, num_inputs, "the number of inputs", path_);
      require_asked(options_.neurons, num_outputs, "the number of outputs", path_);
    }
  }

  /// True if a layer is not square, or something says what its rows are.
  bool has_orientation() const { return has_orientation_; }

  std::string name() const override { return path_.string(); }
  std::size_t num_layers() const override { return descriptions_.size(); }

  Layer layer(std::size_t number) const override {
    auto const& description = descriptions_.at(number);
    auto const place = fmt::format("{}: layer {}", path_.string(), number);
    bool const transposes = description.transposes.value_or(options_.transposes_weights);
    Layer layer{weights(description, transposes, place), bias(description), activation(description, place)};
    try {
      require_valid(layer, number);
    } catch (InputError const& failure) {
      throw InputError(fmt::format("{}: {}", path_.string(), failure.what()));
    }
    return layer;
  }

private:
  SparseMatrix weights(LayerDescription const& layer, bool transposes, std::string const& place) const {
    if (auto const tensors = tensors_.find(layer.file); tensors != tensors_.end()) {
      if (layer.member.empty()) {
        throw UsageError(
            fmt::format("{} is a safetensors file, which does not say which tensors are layers, in which order; list "
                        "them in a JSON file and give that",
                        layer.file.string()));
      }
      return tensors->second.matrix(layer.member, transposes);
    }
    auto const format = matrix_format(layer.file);
    if (!format) {
      throw InputError(
          fmt::format("{}: found no matrix in {}, expected one of NumPy, SciPy, Matrix Market, binsparse or "
                      "safetensors",
                      place, layer.file.string()));
    }
    if (format != MatrixFormat::binsparse && !layer.member.empty())
      throw InputError(fmt::format("{}: found the name {} of a part of {}, which holds one matrix", place,
                                   quote(layer.member), layer.file.string()));
    if (format == MatrixFormat::npy) require_no_list(layer.file, place);
    auto matrix = format == MatrixFormat::binsparse ? read_plain_matrix(layer.file, layer.member)
                                                    : read_matrix(layer.file, *format);
    return transposes ? transposed_matrix(std::move(matrix), place) : std::move(matrix);
  }

  /// Throws InputError if an array has one dimension, as biases have, which nothing but a description joins to weights.
  static void require_no_list(fs::path const& file, std::string const& place) {
    auto const shape = NpyStream(open_bytes(file), file.string()).header().shape;
    if (shape.size() != 1) return;
    fail_at(
        place, fmt::format("a list of {} numbers in {}", shape[0], file.string()),
        fmt::format("a matrix of weights (the biases of layers are named in a JSON list of layers, {})", list_name));
  }

  std::vector<double> bias(LayerDescription const& layer) const {
    if (auto const* number = std::get_if<double>(&layer.bias)) return {*number};
    if (auto const* file = std::get_if<fs::path>(&layer.bias)) return read_npy_list(*file);
    if (auto const* name = std::get_if<std::string>(&layer.bias)) {
      auto const tensors = tensors_.find(layer.file);
      return tensors != tensors_.end() ? tensors->second.list(*name) : read_plain_list(layer.file, *name);
    }
    return {options_.bias.value_or(0.0)};
  }

  /// The activation that the description names with its parameter; else that of the options.
  Activation activation(LayerDescription const& layer, std::string const& place) const {
    bool const is_named = !layer.activation.empty();
    auto const cap = layer.cap || is_named ? layer.cap : options_.cap;
    auto const slope = layer.slope || is_named ? layer.slope : options_.slope;
    auto name = is_named ? layer.activation : options_.activation;
    if (name.empty() && cap) name = "clipped_relu";
    if (!name.empty()) return activation_of_name(name, cap, slope, place);
    throw UsageError(
        fmt::format("{} holds weights, but nothing says which activation follows them; add --activation, or "
                    "list the layers in a JSON file",
                    layer.file.string()));
  }

  bool says_orientation(std::size_t number) const {
    return options_.transposes_weights || descriptions_[number].transposes.has_value();
  }

  /// Throws InputError unless the layer takes the outputs of the layer before it; says what would help.
  void require_fitting(Layer const& layer, std::size_t number, std::size_t inputs_before,
                       std::size_t outputs_before) const {
    if (layer.num_inputs() == outputs_before) return;
    bool const fits_transposed = !says_orientation(number) && inputs_before == layer.num_outputs();
    throw InputError(fmt::format(
        "{}: layer {} takes {} inputs, but layer {} has {} outputs{}", path_.string(), number, layer.num_inputs(),
        number - 1, outputs_before,
        fits_transposed ? "; they fit if the rows of the weights are inputs: add --transpose-weights" : ""));
  }

  fs::path path_;
  std::vector<LayerDescription> descriptions_;
  ChallengeOptions options_;
  bool has_orientation_ = false;
  std::map<fs::path, SafetensorsFile> tensors_; ///< headers of all safetensors files; not changed once constructed
};

} // namespace

bool is_layer_list(fs::path const& path) {
  std::error_code error;
  if (description_of(path)) return true;
  if (fs::is_directory(path, error)) return !matrices_in(path).empty();
  return matrix_format(path).has_value() || is_safetensors(path);
}

std::unique_ptr<NetworkSource> open_layer_list(fs::path const& path, ChallengeOptions const& options) {
  auto descriptions = descriptions_of(path);
  require_asked(options.layers, descriptions.size(), "the number of layers", path);
  return std::make_unique<LayerList>(path, std::move(descriptions), options);
}

std::vector<fs::path> layer_list_files(fs::path const& path) {
  std::vector<fs::path> files;
  if (auto const description = description_of(path)) files.push_back(*description);
  for (auto const& layer : descriptions_of(path)) {
    if (files.empty() || files.back() != layer.file) files.push_back(layer.file);
    if (auto const* bias = std::get_if<fs::path>(&layer.bias)) files.push_back(*bias);
  }
  return files;
}

std::string orientation_note(NetworkSource const& network) {
  auto const* const list = dynamic_cast<LayerList const*>(&network);
  if (list == nullptr || list->has_orientation()) return "";
  return fmt::format("all weights of {} are square, so nothing tells whether their rows are outputs; they are taken as "
                     "outputs (if they are inputs: --transpose-weights)",
                     network.name());
}

} // namespace varve
