#include "io/training_record.hpp"

#include "core/error.hpp"
#include "io/checksum.hpp"
#include "io/hdf5_guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using LayerMoments = OptimizerState::OfLayer;

std::string group_of_layer(std::size_t number) { return fmt::format("{:06}", number); }

/// The narrower of two types that holds all numbers.
hid_t type_for(std::vector<double> const& numbers) {
  bool const are_floats = std::ranges::all_of(
      numbers, [](double number) { return static_cast<double>(static_cast<float>(number)) == number; });
  return are_floats ? H5T_IEEE_F32LE : H5T_IEEE_F64LE;
}

void write_moments(hid_t group, std::string const& what, std::vector<std::vector<double>> const& moments,
                   fs::path const& path) {
  for (std::size_t number = 0; number < moments.size(); ++number)
    hdf5::write_list(group, fmt::format("{}_{}", what, number), type_for(moments[number]), moments[number], false,
                     path);
}

std::vector<std::vector<double>> read_moments(hid_t group, std::string const& what, std::uint64_t count,
                                              std::string const& place) {
  std::vector<std::vector<double>> moments;
  for (std::uint64_t number = 0; number < count; ++number) {
    auto const name = fmt::format("{}_{}", what, number);
    auto const dataset = hdf5::open_dataset(group, name, place);
    moments.push_back(hdf5::read_reals(dataset, 0, hdf5::length_of(dataset, place + ": " + name), place + ": " + name));
  }
  return moments;
}

/// Reads the group `training` and passes the moments of one layer after the other to `take`. The record that it returns
/// has none.
TrainingRecord read_record(fs::path const& path, std::function<void(LayerMoments)> const& take) {
  auto const file = hdf5::open_file(path);
  if (!hdf5::has_child(file.id(), "training")) {
    throw InputError(fmt::format("{} is no checkpoint: it has no group \"training\", as those that varve train writes",
                                 path.string()));
  }
  auto const place = path.string() + ": training";
  auto const group = hdf5::open_group(file.id(), "training", place);
  TrainingRecord record;
  record.recipe = hdf5::read_text(group.id(), "recipe", place);
  record.progress = hdf5::read_text(group.id(), "progress", place);
  record.optimizer.num_steps = hdf5::read_count(group.id(), "steps", place);
  auto const num_moments = hdf5::read_count(group.id(), "moments", place);
  if (num_moments > 2) throw InputError(fmt::format("{}: found {} moments, expected 0 to 2", place, num_moments));
  auto const num_layers = hdf5::num_children(group, place);
  for (std::uint64_t number = 0; number < num_layers; ++number) {
    auto const layer_place = fmt::format("{}: layer {}", place, number);
    auto const layer = hdf5::open_group(group.id(), group_of_layer(number), layer_place);
    take({read_moments(layer.id(), "weights", num_moments, layer_place),
          read_moments(layer.id(), "bias", num_moments, layer_place)});
  }
  if (hdf5::has_child(file.id(), "history")) {
    auto const history_place = path.string() + ": history";
    auto const history = hdf5::open_dataset(file.id(), "history", path.string());
    record.history = hdf5::read_reals(history, 0, hdf5::length_of(history, history_place), history_place);
  }
  return record;
}

/// read_record() of a file from outside.
TrainingRecord read_guarded(fs::path const& path, std::function<void(LayerMoments)> const& take) {
  auto const lock = hdf5::lock();
  hdf5::Walk const walk{"training record", [&](hdf5::Share share) {
                          if (share.number == 0) read_record(path, [](LayerMoments const&) {});
                        }};
  return hdf5::guarded(path, walk, [&] { return read_record(path, take); });
}

/// A checksum of all that a record holds besides its moments.
std::uint64_t sum_of_head(TrainingRecord const& record) {
  auto const texts = checksum(record.progress, checksum(record.recipe));
  return checksum_of<std::uint64_t>({record.optimizer.num_steps}, checksum_of(record.history, texts));
}

std::uint64_t sum_of(LayerMoments const& layer, std::uint64_t before) {
  for (auto const* const kind : {&layer.weights, &layer.bias})
    for (auto const& moments : *kind) before = checksum_of(moments, before);
  return before;
}

} // namespace

void write_training_record(hid_t file, TrainingRecord const& record, fs::path const& path) {
  auto const group = hdf5::create_group(file, "training", path);
  auto const& layers = record.optimizer.layers;
  hdf5::write_text(group.id(), "recipe", record.recipe, path);
  hdf5::write_text(group.id(), "progress", record.progress, path);
  hdf5::write_integer(group.id(), "steps", record.optimizer.num_steps, path);
  hdf5::write_integer(group.id(), "moments", layers.empty() ? 0 : layers.front().weights.size(), path);
  for (std::size_t number = 0; number < layers.size(); ++number) {
    auto const layer = hdf5::create_group(group.id(), group_of_layer(number), path);
    write_moments(layer.id(), "weights", layers[number].weights, path);
    write_moments(layer.id(), "bias", layers[number].bias, path);
  }
  if (!record.history.empty()) hdf5::write_list(file, "history", H5T_IEEE_F64LE, record.history, false, path);
}

TrainingRecord read_training_record(fs::path const& path) {
  std::vector<LayerMoments> layers;
  auto record = read_guarded(path, [&](LayerMoments layer) { layers.push_back(std::move(layer)); });
  record.optimizer.layers = std::move(layers);
  return record;
}

std::uint64_t sum_of(TrainingRecord const& record) {
  std::uint64_t sum = 0;
  for (auto const& layer : record.optimizer.layers) sum = sum_of(layer, sum);
  return sum + sum_of_head(record);
}

std::uint64_t sum_of_training_record(fs::path const& path) {
  std::uint64_t sum = 0;
  auto const record = read_guarded(path, [&](LayerMoments const& layer) { sum = sum_of(layer, sum); });
  return sum + sum_of_head(record);
}

} // namespace varve
