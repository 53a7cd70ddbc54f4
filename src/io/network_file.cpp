#include "io/network_file.hpp"

#include "core/error.hpp"
#include "io/stored_matrix.hpp"
#include "io/text_file.hpp"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using container::NumberType;

constexpr char const* own_layers = "layers";
constexpr char const* best_layers = "best"; ///< of the network of the best epoch, in checkpoints
constexpr char const* receipt_array = "training.receipt";
constexpr std::uint64_t numbers_per_epoch = 11;
constexpr std::uint64_t max_moments = 2;

Activation read_activation(Json const& object, std::string const& place) {
  if (!object.contains("activation") || !object["activation"].is_string())
    fail_at(place, "no activation", "the name of one");
  auto const name = object["activation"].get<std::string>();
  auto const* const found = find_activation(name);
  if (found == nullptr) {
    std::string names;
    for (auto const& entry : all_activations) names += (names.empty() ? "" : ", ") + quote(entry.name);
    fail<InputError>("{}: found the activation {}, expected one of {}", place, quote(name), names);
  }
  std::vector<std::string_view> keys = {"shape", "activation", "weights_of"};
  if (found->parameter != nullptr) keys.emplace_back(found->parameter);
  container::require_keys(object, keys, place);
  if (found->parameter == nullptr) return make_activation(*found, 0.0);
  if (!object.contains(found->parameter) || !object[found->parameter].is_number())
    fail_at(place, fmt::format("no {}", found->parameter), "a number");
  auto const activation = make_activation(*found, object[found->parameter].get<double>());
  require_valid(activation, place);
  return activation;
}

/// Runs `work` and adds the file name to its InputError about a layer; an allocation failure becomes a ResourceError.
template <class Work>
auto in_file(fs::path const& path, std::size_t number, Work const& work) {
  try {
    std::optional<decltype(work())> found;
    if (container::fits_memory([&] { found = work(); })) return *std::move(found);
  } catch (InputError const& error) {
    std::string const sentence = error.what();
    throw InputError(sentence.starts_with(path.string()) ? sentence : fmt::format("{}: {}", path.string(), sentence));
  }
  fail<ResourceError>("{}: layer {} does not fit into memory", path.string(), number);
}

/// The layers of one of the networks of a file, which stays open.
class StoredLayers final : public NetworkSource {
public:
  StoredLayers(container::File& file, char const* list) : file_(file) {
    auto const& place = file.path().string();
    auto const found = file.description().find(list);
    if (found == file.description().end() || !found->is_array() || found->empty())
      fail<InputError>("{}: found no layers in {}, expected at least one", place, quote(list));
    for (auto const& object : *found) take(object, fmt::format("{}.{}", list, layers_.size()));
  }

  std::string name() const override { return file_.path().string(); }
  std::size_t num_layers() const override { return layers_.size(); }

  LayerHeader header(std::size_t number) const {
    auto const& layer = layers_.at(number);
    return in_file(file_.path(), number, [&] {
      return LayerHeader{layer.weights.num_columns(), layer.weights.num_rows(), layer.weights.num_entries(),
                         file_.read_all<double>(*layer.bias), layer.activation};
    });
  }

  Layer layer(std::size_t number) const override {
    auto header = this->header(number);
    return in_file(file_.path(), number, [&] {
      auto const& weights = layers_[number].weights;
      Layer layer{weights.rows(0, weights.num_rows()), std::move(header.bias), header.activation};
      require_valid(layer, number);
      return layer;
    });
  }

private:
  struct Stored {
    container::StoredMatrix weights;
    container::Array const* bias;
    Activation activation;
  };

  void take(Json const& object, std::string const& name) {
    auto const place = fmt::format("{}: {}", file_.path().string(), name);
    auto const number = layers_.size();
    if (!object.is_object()) fail_at(place, "no JSON object", "one for each layer");
    auto const activation = read_activation(object, place);
    auto const [num_outputs, num_inputs] = container::shape_in(object, place);
    if (number > 0 && num_inputs != layers_.back().weights.num_rows())
      fail<InputError>("{}: layer {} takes {} inputs, but layer {} has {} outputs", file_.path().string(), number,
                       num_inputs, number - 1, layers_.back().weights.num_rows());
    auto const& bias = file_.list(name + ".bias", {NumberType::f32, NumberType::f64}, num_outputs, true);
    if (!object.contains("weights_of")) {
      layers_.push_back({{file_, name, num_outputs, num_inputs}, &bias, activation});
      return;
    }
    auto const source = container::count_in(object, "weights_of", place);
    if (source >= number) fail_at(place, fmt::format("the weights of layer {}", source), "those of an earlier layer");
    auto const weights = layers_[source].weights;
    if (weights.num_rows() != num_outputs || weights.num_columns() != num_inputs)
      fail_at(place, fmt::format("the weights of layer {}, which has another shape", source), "one of the same shape");
    layers_.push_back({weights, &bias, activation});
  }

  container::File& file_;
  std::vector<Stored> layers_;
};

std::string name_of_moments(std::size_t layer, char const* what, std::uint64_t moment) {
  return fmt::format("training.{}.{}.{}", layer, what, moment);
}

/// A layer in a description.
Json describe(Layer const& layer) {
  auto const& activation = entry_of(layer.activation.kind);
  Json object = {{"shape", {layer.num_outputs(), layer.num_inputs()}}, {"activation", activation.name}};
  if (activation.parameter != nullptr) object[activation.parameter] = layer.activation.*activation.value;
  return object;
}

} // namespace

struct NetworkFile::Contents {
  container::File file;
  std::optional<StoredLayers> layers;
  std::optional<StoredLayers> best;
  std::uint64_t num_steps = 0;
  std::uint64_t num_moments = 0;

  explicit Contents(fs::path const& path) : file(path) {
    if (is_checkpoint()) {
      file.require_kind("network", {own_layers, best_layers, "training"});
    } else {
      file.require_kind("network", {own_layers});
    }
    layers.emplace(file, own_layers);
    if (is_checkpoint()) open_training();
    file.require_no_others();
  }

  bool is_checkpoint() const { return file.description().contains("training"); }

  std::vector<std::vector<double>> moments(std::size_t layer, char const* what) const {
    std::vector<std::vector<double>> found;
    for (std::uint64_t moment = 0; moment < num_moments; ++moment)
      found.push_back(file.read_all<double>(file.at(name_of_moments(layer, what, moment))));
    return found;
  }

  /// Empty if there is none.
  std::string text(std::string const& name) const {
    if (!file.has(name)) return {};
    auto const letters = file.read_all<char>(file.at(name));
    return {letters.begin(), letters.end()};
  }

private:
  /// Checks the arrays of the record, whose sizes engine and trainer check, and opens the best network.
  void open_training() {
    auto const place = file.path().string() + ": training";
    auto const& training = file.description()["training"];
    if (!training.is_object()) fail_at(place, "no JSON object", "one with steps and moments");
    container::require_keys(training, {"steps", "moments"}, place);
    num_steps = container::count_in(training, "steps", place);
    num_moments = container::count_in(training, "moments", place);
    if (num_moments > max_moments) fail<InputError>("{}: found {} moments, expected 0 to 2", place, num_moments);
    for (auto const* const text : {"training.recipe", "training.progress"}) file.array(text, {NumberType::u8});
    if (file.has(receipt_array)) file.array(receipt_array, {NumberType::u8});
    if (file.has("history")) {
      auto const& history = file.array("history", {NumberType::f64});
      if (history.shape.size() != 2 || history.shape[1] != numbers_per_epoch)
        fail_at(place, "a history of another shape", fmt::format("{} numbers for each epoch", numbers_per_epoch));
    }
    for (std::size_t layer = 0; layer < layers->num_layers(); ++layer)
      for (auto const* const what : {"weights", "bias"})
        for (std::uint64_t moment = 0; moment < num_moments; ++moment)
          file.array(name_of_moments(layer, what, moment), {NumberType::f32, NumberType::f64});
    if (file.description().contains(best_layers)) best.emplace(file, best_layers);
  }
};

NetworkFile::NetworkFile(fs::path const& path) : contents_(std::make_unique<Contents>(path)) {}

NetworkFile::~NetworkFile() = default;

std::string NetworkFile::name() const { return contents_->layers->name(); }

std::size_t NetworkFile::num_layers() const { return contents_->layers->num_layers(); }

LayerHeader NetworkFile::header(std::size_t number) const { return contents_->layers->header(number); }

Layer NetworkFile::layer(std::size_t number) const { return contents_->layers->layer(number); }

NetworkSource const* NetworkFile::best() const { return contents_->best ? &*contents_->best : nullptr; }

TrainingRecord NetworkFile::training_record() const {
  if (!contents_->is_checkpoint())
    throw InputError(name() + " is not a checkpoint: its description has no \"training\", as of those that varve train "
                              "writes");
  TrainingRecord record;
  record.recipe = contents_->text("training.recipe");
  record.progress = contents_->text("training.progress");
  record.receipt = contents_->text(receipt_array);
  record.optimizer.num_steps = contents_->num_steps;
  auto const& file = contents_->file;
  if (file.has("history")) record.history = file.read_all<double>(file.at("history"));
  for (std::size_t layer = 0; layer < num_layers(); ++layer)
    record.optimizer.layers.push_back({contents_->moments(layer, "weights"), contents_->moments(layer, "bias")});
  return record;
}

struct NetworkFileWriter::Contents {
  static constexpr std::size_t arrays_per_layer = 4;
  static constexpr std::size_t moments_per_layer = 2 * max_moments;
  static constexpr std::size_t bytes_per_layer = 192; ///< of a description

  std::size_t num_layers; ///< that there will be
  container::Writer file;
  Json layers = Json::array();                                               ///< descriptions of those written
  std::map<std::tuple<Digest, std::size_t, std::size_t>, std::size_t> known; ///< the first layer with these weights
  Json description = {{"kind", "network"}, {"version", 1}};

  /// `num_best`, `num_others`: layers of the best network and other arrays, in checkpoints.
  Contents(fs::path const& path, std::size_t count, std::size_t num_best = 0, std::size_t num_others = 0)
      : num_layers(count),
        file(path, (count + num_best) * arrays_per_layer + num_others, (count + num_best) * bytes_per_layer) {}

  /// Writes a layer of the network whose layers are described in `list`.
  void append(Layer const& layer, char const* name, Json& list) {
    auto const number = list.size();
    auto const prefix = fmt::format("{}.{}", name, number);
    auto object = describe(layer);
    container::NarrowMatrix weights(layer.weights);
    auto const [found, is_new] =
        known.emplace(std::tuple(weights.identity(), layer.num_outputs(), layer.num_inputs()), number);
    if (is_new) {
      weights.add_to(file, prefix);
    } else {
      object["weights_of"] = found->second;
    }
    container::add_reals(file, prefix + ".bias", layer.bias);
    list.push_back(std::move(object));
  }

  void append(TrainingRecord const& record) {
    auto const& optimizer = record.optimizer;
    auto const num_moments = optimizer.layers.empty() ? 0 : optimizer.layers.front().weights.size();
    description["training"] = {{"steps", optimizer.num_steps}, {"moments", num_moments}};
    auto const add = [&](char const* name, std::string const& text) {
      file.add(name, std::vector<char>(text.begin(), text.end()));
    };
    add("training.recipe", record.recipe);
    add("training.progress", record.progress);
    if (!record.receipt.empty()) add(receipt_array, record.receipt);
    if (!record.history.empty()) {
      auto const bytes = container::bytes_of(record.history);
      VARVE_REQUIRE(record.history.size() % numbers_per_epoch == 0, "a history has other numbers");
      file.add("history", NumberType::f64, {record.history.size() / numbers_per_epoch, numbers_per_epoch}, bytes,
               container::hashes_of(bytes));
    }
    for (std::size_t layer = 0; layer < optimizer.layers.size(); ++layer) {
      auto const append = [&](char const* what, std::vector<std::vector<double>> const& moments) {
        for (std::size_t moment = 0; moment < moments.size(); ++moment)
          container::add_reals(file, name_of_moments(layer, what, moment), moments[moment]);
      };
      append("weights", optimizer.layers[layer].weights);
      append("bias", optimizer.layers[layer].bias);
    }
  }
};

NetworkFileWriter::NetworkFileWriter(fs::path const& path, std::size_t num_layers)
    : contents_(std::make_unique<Contents>(path, num_layers)) {}

NetworkFileWriter::NetworkFileWriter(fs::path const& path, Network const& network, TrainingRecord const& record,
                                     Network const* best)
    : contents_(std::make_unique<Contents>(path, network.num_layers(), best != nullptr ? best->num_layers() : 0,
                                           network.num_layers() * Contents::moments_per_layer + 4)) {
  for (auto const& layer : network.layers()) append(layer);
  contents_->append(record);
  if (best == nullptr) return;
  Json layers = Json::array();
  contents_->known.clear(); // layers refer to those of their own network
  for (auto const& layer : best->layers()) contents_->append(layer, best_layers, layers);
  contents_->description[best_layers] = std::move(layers);
}

NetworkFileWriter::~NetworkFileWriter() = default;

void NetworkFileWriter::append(Layer const& layer) {
  VARVE_REQUIRE(contents_ && contents_->layers.size() < contents_->num_layers, "a network file gets more layers");
  auto const number = contents_->layers.size();
  require_valid(layer, number);
  if (number > 0) require_fit(contents_->layers.back()["shape"][0].get<std::size_t>(), layer, number);
  contents_->append(layer, own_layers, contents_->layers);
}

void NetworkFileWriter::commit() {
  VARVE_REQUIRE(contents_ && contents_->num_layers > 0 && contents_->layers.size() == contents_->num_layers,
                "a network file is committed once, with all of its layers");
  contents_->description[own_layers] = std::move(contents_->layers);
  contents_->file.commit(contents_->description);
  contents_.reset();
}

} // namespace varve
