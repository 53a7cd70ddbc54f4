#include "io/layer_description.hpp"

#include "core/error.hpp"
#include "io/byte_stream.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/line_error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

namespace varve {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string shown(Json const& value) { return quote(json_text(value)); }

/// The text of a JSON string that names a file or a part of one. Systems end names at a NUL character.
std::string name_of(Json const& value, std::string const& place) {
  auto name = value.get<std::string>();
  if (name.find('\0') != std::string::npos)
    fail_at(place, fmt::format("the name {}", shown(value)), "one without NUL characters");
  return name;
}

void require_known_keys(Json const& object, std::initializer_list<std::string_view> known, std::string const& place) {
  for (auto const& [key, value] : object.items()) {
    if (std::ranges::find(known, std::string_view(key)) != known.end()) continue;
    fail_at(place, fmt::format("the key {}", quote(key)), fmt::format("one of {}", fmt::join(known, ", ")));
  }
}

/// Reads the keys of a layer, or of the whole network, over what is known already.
class DescriptionReader {
public:
  DescriptionReader(fs::path const& path, Json const& object) : folder_(path.parent_path()), place_(path.string()) {
    if (!object.contains("file")) return;
    if (!object["file"].is_string()) fail_at(place_, fmt::format("the \"file\" {}", shown(object["file"])), "a name");
    file_ = folder_ / name_of(object["file"], place_);
  }

  LayerDescription common(Json const& object) {
    LayerDescription layer;
    take_settings(object, layer);
    return layer;
  }

  LayerDescription layer(Json const& value, LayerDescription layer, std::size_t number) {
    place_ = fmt::format("{}: layer {}", place_.substr(0, place_.rfind(": layer ")), number);
    if (!value.is_object() && !value.is_string()) fail_at(place_, shown(value), "a JSON object or the name of a file");
    if (value.is_object()) {
      require_known_keys(value, {"weights", "bias", "activation", "cap", "slope", "transpose"}, place_);
      if (!value.contains("weights") || !value["weights"].is_string())
        fail_at(place_, "no \"weights\"", "the name of a file, tensor or group");
      if (value.contains("activation"))
        layer.cap = layer.slope = std::nullopt; // those of the network belong to its own
      take_settings(value, layer);
    }
    auto const name = name_of(value.is_object() ? value["weights"] : value, place_);
    layer.file = file_.empty() ? folder_ / name : file_;
    layer.member = file_.empty() ? "" : name;
    if (layer.file.filename().empty() || (!file_.empty() && name.empty()))
      fail_at(place_, "empty \"weights\"", "a name");
    return layer;
  }

private:
  void take_settings(Json const& object, LayerDescription& layer) {
    if (object.contains("bias")) take_bias(object["bias"], layer);
    if (object.contains("activation")) {
      if (!object["activation"].is_string())
        fail_at(place_, fmt::format("the activation {}", shown(object["activation"])), "a name");
      layer.activation = object["activation"].get<std::string>();
    }
    if (object.contains("transpose")) {
      if (!object["transpose"].is_boolean())
        fail_at(place_, fmt::format("\"transpose\": {}", shown(object["transpose"])), "true or false");
      layer.transposes = object["transpose"].get<bool>();
    }
    take_number(object, "cap", layer.cap);
    take_number(object, "slope", layer.slope);
  }

  void take_number(Json const& object, char const* key, std::optional<double>& number) {
    if (!object.contains(key)) return;
    if (!object[key].is_number()) fail_at(place_, fmt::format("\"{}\": {}", key, shown(object[key])), "a number");
    number = object[key].get<double>();
  }

  void take_bias(Json const& bias, LayerDescription& layer) {
    if (bias.is_number()) {
      layer.bias = bias.get<double>();
    } else if (bias.is_string() && file_.empty()) {
      layer.bias = folder_ / name_of(bias, place_);
    } else if (bias.is_string()) {
      layer.bias = name_of(bias, place_);
    } else {
      fail_at(place_, fmt::format("the bias {}", shown(bias)), "a number or a name");
    }
  }

  fs::path folder_;
  std::string place_;
  fs::path file_; ///< the file of all weights; empty: each layer names its own
};

std::string read_limited(fs::path const& path) {
  std::string text(longest_long_json + 1, '\0');
  text.resize(open_bytes(path)->read(text));
  return text;
}

} // namespace

bool is_layer_description(fs::path const& path) {
  std::error_code error;
  if (!fs::is_regular_file(readable_place(path), error)) return false;
  std::array<char, 64> head{};
  std::string_view const text(head.data(), open_bytes(path)->read(head));
  auto const first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

std::vector<LayerDescription> read_layer_descriptions(fs::path const& path) {
  auto const place = path.string();
  auto const object = parse_json(read_limited(path), place, longest_long_json);
  if (!object.is_object()) fail_at(place, "no JSON object", "one that lists layers");
  require_known_keys(object, {"file", "layers", "bias", "activation", "cap", "slope", "transpose"}, place);
  if (!object.contains("layers") || !object["layers"].is_array() || object["layers"].empty())
    fail_at(place, "no \"layers\" that is a list", "one with at least one layer");
  constexpr std::size_t most_layers = 1 << 16;
  if (object["layers"].size() > most_layers)
    fail_at(place, fmt::format("{} layers", object["layers"].size()), fmt::format("no more than {}", most_layers));
  DescriptionReader reader(path, object);
  auto const common = reader.common(object);
  std::vector<LayerDescription> layers;
  layers.reserve(object["layers"].size());
  for (auto const& value : object["layers"]) layers.push_back(reader.layer(value, common, layers.size()));
  return layers;
}

} // namespace varve
