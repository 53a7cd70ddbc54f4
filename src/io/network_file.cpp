#include "io/network_file.hpp"

#include "core/error.hpp"
#include "io/binsparse.hpp"
#include "io/checksum.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_guard.hpp"
#include "io/hdf5_walk.hpp"
#include "io/line_error.hpp"
#include "io/output_file.hpp"
#include "io/training_record.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr char const* format_name = "varve-network";
constexpr std::uint64_t format_version = 1;

constexpr char const* own_layers = "layers";
constexpr char const* best_layers = "best"; ///< of the network of the best epoch, in checkpoints

bool has_best(fs::path const& path) {
  auto const file = hdf5::open_file(path);
  return hdf5::has_child(file.id(), "training") && hdf5::has_child(file.id(), best_layers);
}

std::string layer_name(std::size_t number) { return fmt::format("{:06}", number); }

void write_layer(hid_t parent, std::size_t number, Layer const& layer, fs::path const& path) {
  auto const group = hdf5::create_group(parent, layer_name(number), path);
  binsparse::write_matrix(hdf5::create_group(group.id(), "weights", path), layer.weights, path);
  if (layer.bias.size() == 1) {
    hdf5::write_scalar(group.id(), "bias", layer.bias[0], path);
  } else {
    hdf5::write_list(group.id(), "bias", H5T_IEEE_F64LE, layer.bias, false, path);
  }
  auto const& activation = entry_of(layer.activation.kind);
  hdf5::write_text(group.id(), "activation", activation.name, path);
  if (activation.parameter != nullptr)
    hdf5::write_real(group.id(), activation.parameter, layer.activation.*activation.value, path);
}

void require_network_file(hdf5::File const& file, std::string const& place) {
  auto const format = hdf5::read_text(file.id(), "format", place);
  if (format != format_name) {
    throw InputError(fmt::format("{}: found the format {}, expected \"{}\"", place, quote(format), format_name));
  }
  auto const version = hdf5::read_count(file.id(), "version", place);
  if (version != format_version) {
    throw InputError(fmt::format("{}: found version {} of the format, expected {}", place, version, format_version));
  }
}

/// Throws InputError if a layer has a parameter of another activation: then the name of its activation may be wrong.
void require_no_other_parameter(hdf5::Group const& group, ActivationEntry const& found, std::string const& place) {
  for (auto const& other : all_activations) {
    if (other.parameter == nullptr || other.kind == found.kind || H5Aexists(group.id(), other.parameter) <= 0) continue;
    throw InputError(fmt::format("{}: found a {} beside the activation {}, which has none; expected {}", place,
                                 other.parameter, quote(found.name), quote(other.name)));
  }
}

Activation read_activation(hdf5::Group const& group, std::string const& place) {
  auto const name = hdf5::read_text(group.id(), "activation", place);
  auto const found =
      std::ranges::find(all_activations, name, [](auto const& entry) { return std::string(entry.name); });
  if (found == all_activations.end()) {
    std::string names;
    for (auto const& entry : all_activations) names += (names.empty() ? "" : ", ") + quote(entry.name);
    throw InputError(fmt::format("{}: found the activation {}, expected one of {}", place, quote(name), names));
  }
  require_no_other_parameter(group, *found, place);
  bool const is_bent = found->kind == ActivationKind::relu || found->parameter != nullptr;
  Activation activation = is_bent ? Activation::relu() : Activation::identity();
  activation.kind = found->kind;
  if (found->parameter != nullptr) {
    activation.*(found->value) = hdf5::read_real(group.id(), found->parameter, place);
    require_valid(activation, place);
  }
  return activation;
}

hdf5::Dataset open_bias(hdf5::Group const& group, std::size_t num_outputs, std::string const& place) {
  auto dataset = hdf5::open_dataset(group.id(), "bias", place);
  auto const length = hdf5::length_of(dataset, place + ": bias");
  if (length != 1 && length != num_outputs) {
    throw InputError(fmt::format("{}: found {} biases, expected 1 or {}", place, length, num_outputs));
  }
  return dataset;
}

std::vector<double> read_bias(hdf5::Group const& group, std::size_t num_outputs, std::string const& place) {
  auto const dataset = open_bias(group, num_outputs, place);
  return hdf5::read_reals(dataset, 0, hdf5::length_of(dataset, place + ": bias"), place + ": bias");
}

/// Runs `work` and adds the file name to its InputError about a layer; an allocation failure becomes a ResourceError.
template <class Work>
auto in_file(fs::path const& path, std::size_t number, Work const& work) {
  auto const fail_memory = [&] {
    throw ResourceError(fmt::format("{}: layer {} does not fit into memory", path.string(), number));
  };
  try {
    return work();
  } catch (InputError const& error) {
    std::string const sentence = error.what();
    throw InputError(sentence.starts_with(path.string()) ? sentence : fmt::format("{}: {}", path.string(), sentence));
  } catch (std::bad_alloc const&) {
    fail_memory();
  } catch (std::length_error const&) {
    fail_memory();
  }
  std::abort();
}

/// A checksum of all numbers of a layer.
std::uint64_t sum_of(Layer const& layer) {
  auto const& [weights, bias, activation] = layer;
  auto sum = checksum_of<std::uint64_t>({weights.num_rows, weights.num_columns}, 0);
  sum = checksum_of(weights.row_pointers, sum);
  sum = checksum_of(weights.column_indices, sum);
  sum = checksum_of(weights.values, sum);
  sum = checksum_of(bias, sum);
  return checksum_of<double>({static_cast<double>(activation.kind), activation.cap, activation.slope}, sum);
}

} // namespace

struct NetworkFile::Contents {
  fs::path path;
  std::string layers_name = own_layers; ///< the group of the layers
  bool is_checked = false;              ///< hdf5::has_checksums()
  hdf5::File file;
  hdf5::Group layers;
  std::vector<binsparse::Descriptor> weights;

  std::string place(std::size_t number) const {
    return fmt::format("{}: {}layer {}", path.string(), layers_name == own_layers ? "" : layers_name + ": ", number);
  }
  hdf5::Group open_layer(std::size_t number) const {
    return hdf5::open_group(layers.id(), layer_name(number), place(number));
  }

  void open(fs::path const& file_path, char const* group_name) {
    path = file_path;
    layers_name = group_name;
    file = hdf5::open_file(path);
    require_network_file(file, path.string());
    layers = hdf5::open_group(file.id(), layers_name, path.string());
  }

  void read_descriptors() {
    auto const count = num_layers();
    for (std::size_t number = 0; number < count; ++number)
      take_descriptor(number, hdf5::open_group(open_layer(number).id(), "weights", place(number)));
  }

  /// Reads all metadata of a share of the layers, and the descriptor of the layer before them, which they must fit.
  void walk(hdf5::Share share) {
    auto const [first, last] = share.range(num_layers());
    for (std::size_t number = first > 0 ? first - 1 : 0; number < last; ++number) {
      auto const layer = open_layer(number);
      auto const group = hdf5::open_group(layer.id(), "weights", place(number));
      take_descriptor(number, group);
      if (number < first) continue;
      binsparse::require_arrays(group, weights.back(), place(number));
      open_bias(layer, weights.back().num_rows, place(number));
      read_activation(layer, place(number));
    }
  }

private:
  std::size_t num_layers() const {
    auto const count = hdf5::num_children(layers, path.string());
    if (count == 0) throw InputError(fmt::format("{}: found no layers, expected at least one", path.string()));
    return count;
  }

  void take_descriptor(std::size_t number, hdf5::Group const& group) {
    auto const descriptor = binsparse::read_descriptor(group, place(number));
    if (!weights.empty() && descriptor.num_columns != weights.back().num_rows) {
      throw InputError(fmt::format("{}: layer {} takes {} inputs, but layer {} has {} outputs", path.string(), number,
                                   descriptor.num_columns, number - 1, weights.back().num_rows));
    }
    weights.push_back(descriptor);
  }
};

void NetworkFile::walk(fs::path const& path, hdf5::Share const& share) {
  for (auto const* const group : {own_layers, best_layers}) {
    if (group == best_layers && !has_best(path)) continue;
    Contents contents;
    contents.open(path, group);
    contents.walk(share);
  }
}

NetworkFile::NetworkFile(fs::path const& path) : NetworkFile(path, own_layers) {}

NetworkFile::NetworkFile(fs::path const& path, char const* group) : contents_(std::make_unique<Contents>()) {
  auto const lock = hdf5::lock();
  try {
    bool const is_checked = hdf5::has_checksums(path);
    hdf5::guarded(path, is_checked, structure_walk(path), [&] {
      *contents_ = {};
      contents_->is_checked = is_checked;
      contents_->open(path, group);
      contents_->read_descriptors();
    });
  } catch (...) {
    contents_.reset(); // must happen while the lock is held
    throw;
  }
}

NetworkFile::~NetworkFile() {
  auto const lock = hdf5::lock();
  contents_.reset();
}

std::string NetworkFile::name() const { return contents_->path.string(); }

std::size_t NetworkFile::num_layers() const { return contents_->weights.size(); }

LayerHeader NetworkFile::header(std::size_t number) const {
  auto const lock = hdf5::lock();
  auto const read = [&] {
    auto const& weights = contents_->weights.at(number);
    auto const group = contents_->open_layer(number);
    auto const place = contents_->place(number);
    return LayerHeader{weights.num_columns, weights.num_rows, weights.num_entries,
                       read_bias(group, weights.num_rows, place), read_activation(group, place)};
  };
  auto const& path = contents_->path;
  return in_file(path, number, [&] { return hdf5::guarded(path, contents_->is_checked, structure_walk(path), read); });
}

Layer NetworkFile::layer(std::size_t number) const {
  auto header = this->header(number);
  return in_file(contents_->path, number, [&] {
    Layer layer{{}, std::move(header.bias), header.activation};
    {
      auto const lock = hdf5::lock();
      auto const& descriptor = contents_->weights[number];
      auto const place = contents_->place(number);
      auto const group = hdf5::open_group(contents_->open_layer(number).id(), "weights", place);
      layer.weights = binsparse::read_rows(group, descriptor, 0, descriptor.num_rows, place);
    }
    require_valid(layer, number);
    return layer;
  });
}

std::unique_ptr<NetworkSource> open_network_file(fs::path const& path) { return std::make_unique<NetworkFile>(path); }

std::unique_ptr<NetworkSource> open_best_network(fs::path const& path) {
  auto const lock = hdf5::lock();
  if (!hdf5::guarded(path, structure_walk(path), [&] { return has_best(path); })) return nullptr;
  return std::make_unique<NetworkFile>(path, best_layers);
}

struct NetworkFileWriter::Contents {
  OutputFile output;
  hdf5::File file;
  hdf5::Group layers;
  std::size_t num_outputs = 0;             ///< number of outputs of the last layer written
  std::vector<std::uint64_t> sums;         ///< of the layers written
  std::vector<std::uint64_t> best_sums;    ///< of those of the best epoch, if they are written
  std::optional<std::uint64_t> record_sum; ///< of the training record, if there is one

  explicit Contents(fs::path const& path) : output(path) {}

  /// True if this file holds what was appended. Throws InputError if it is broken.
  bool are_in(fs::path const& written) const {
    if (!have(NetworkFile(written), sums)) return false;
    if (!best_sums.empty()) {
      auto const best = open_best_network(written);
      if (!best || !have(*best, best_sums)) return false;
    }
    return !record_sum || sum_of_training_record(written) == *record_sum;
  }

private:
  static bool have(NetworkSource const& network, std::vector<std::uint64_t> const& expected) {
    if (network.num_layers() != expected.size()) return false;
    for (std::size_t number = 0; number < expected.size(); ++number)
      if (sum_of(network.layer(number)) != expected[number]) return false;
    return true;
  }
};

NetworkFileWriter::NetworkFileWriter(fs::path const& path) : contents_(std::make_unique<Contents>(path)) {
  auto const lock = hdf5::lock();
  try {
    auto& file = contents_->file;
    file = hdf5::create_file(contents_->output.partial_path(), path);
    hdf5::write_text(file.id(), "format", format_name, path);
    hdf5::write_integer(file.id(), "version", format_version, path);
    contents_->layers = hdf5::create_group(file.id(), "layers", path);
  } catch (...) {
    contents_.reset();
    throw;
  }
}

NetworkFileWriter::~NetworkFileWriter() {
  auto const lock = hdf5::lock();
  contents_.reset();
}

void NetworkFileWriter::append(Layer const& layer) {
  VARVE_REQUIRE(contents_, "a network file is written after its commit");
  auto const number = contents_->sums.size();
  require_valid(layer, number);
  if (number > 0) require_fit(contents_->num_outputs, layer, number);

  auto const lock = hdf5::lock();
  write_layer(contents_->layers.id(), number, layer, contents_->output.path());
  contents_->sums.push_back(sum_of(layer));
  contents_->num_outputs = layer.num_outputs();
}

void NetworkFileWriter::append(TrainingRecord const& record) {
  VARVE_REQUIRE(contents_, "a network file is written after its commit");
  auto const lock = hdf5::lock();
  write_training_record(contents_->file.id(), record, contents_->output.path());
  contents_->record_sum = sum_of(record);
}

void NetworkFileWriter::append_best(Network const& best) {
  VARVE_REQUIRE(contents_, "a network file is written after its commit");
  auto const lock = hdf5::lock();
  auto const& path = contents_->output.path();
  auto const group = hdf5::create_group(contents_->file.id(), best_layers, path);
  for (std::size_t number = 0; number < best.num_layers(); ++number) {
    write_layer(group.id(), number, best.layers()[number], path);
    contents_->best_sums.push_back(sum_of(best.layers()[number]));
  }
}

void NetworkFileWriter::commit() {
  VARVE_REQUIRE(contents_ && !contents_->sums.empty(), "a network file is committed once, with at least one layer");
  {
    auto const lock = hdf5::lock();
    contents_->layers = {};
    hdf5::close_file(contents_->file, contents_->output.path());
  }
  contents_->output.commit([&](fs::path const& written) { return contents_->are_in(written); });
  contents_.reset();
}

} // namespace varve
