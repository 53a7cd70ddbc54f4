#include "io/open.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/checksum.hpp"
#include "io/hdf5.hpp"
#include "io/hdf5_guard.hpp"
#include "io/hdf5_walk.hpp"
#include "io/idx.hpp"
#include "io/input_files.hpp"
#include "io/layer_groups.hpp"
#include "io/layer_list.hpp"
#include "io/matrix_file.hpp"
#include "io/network_file.hpp"
#include "io/onnx.hpp"
#include "io/plain_binsparse.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// The compression implied by an ending .tsv, .tsv.gz, .tsv.xz or .tsv.zst; nullopt for other names.
std::optional<Compression> text_compression(fs::path const& path) {
  auto const compression = compression_of_name(path);
  auto const name = compression == Compression::none ? path : path.stem();
  return name.extension() == ".tsv" ? std::optional(compression) : std::nullopt;
}

template <class Number>
void require_equal(std::optional<Number> const& asked, Number found, char const* what, fs::path const& path) {
  if (asked && *asked != found) {
    throw UsageError(fmt::format("{} {} was asked for, but {} says {}", what, *asked, path.string(), found));
  }
}

/// Throws UsageError if an option contradicts a network file; options may repeat what the file says.
void require_agreement(NetworkFile const& file, ChallengeOptions const& options, fs::path const& path) {
  require_equal(options.layers, file.num_layers(), "the number of layers", path);
  if (!options.neurons && !options.bias && !options.cap) return;
  for (std::size_t number = 0; number < file.num_layers(); ++number) {
    auto const header = file.header(number);
    auto const in_layer = [&](char const* what) { return fmt::format("{} of layer {}", what, number); };
    require_equal(options.neurons, header.num_inputs, in_layer("the number of inputs").c_str(), path);
    require_equal(options.neurons, header.num_outputs, in_layer("the number of outputs").c_str(), path);
    for (auto const bias : header.bias) require_equal(options.bias, bias, in_layer("the bias").c_str(), path);
    if (options.cap && !header.activation.has_cap()) {
      throw UsageError(fmt::format("the cap {} was asked for, but layer {} of {} has no clipped relu", *options.cap,
                                   number, path.string()));
    }
    require_equal(options.cap, header.activation.cap, in_layer("the cap").c_str(), path);
  }
}

/// Throws UsageError if an option was given that is for matrices of other programs.
void require_no_matrix_options(ChallengeOptions const& options, fs::path const& path) {
  char const* const option = !options.activation.empty()  ? "--activation"
                             : options.slope              ? "--slope"
                             : options.transposes_weights ? "--transpose-weights"
                                                          : nullptr;
  if (option == nullptr) return;
  throw UsageError(
      fmt::format("{} is for matrices of other programs, which do not say it; {} says it", option, path.string()));
}

/// Throws UsageError if an option was given that contradicts an ONNX model, or that it has no place for.
std::unique_ptr<NetworkSource> open_onnx(fs::path const& path, ChallengeOptions const& options) {
  auto network = std::make_unique<Network>(read_onnx(path));
  require_equal(options.layers, network->num_layers(), "the number of layers", path);
  if (options.neurons || options.bias || options.cap)
    throw UsageError(fmt::format("--neurons, --bias and --cap are for networks in text; {} says them", path.string()));
  return network;
}

/// True if an HDF5 file declares that it holds samples.
bool holds_hdf5_samples(fs::path const& path) {
  auto const guard = hdf5::lock();
  return hdf5::guarded(path, structure_walk(path), [&] { return says_samples(path); });
}

} // namespace

void try_out_hdf5(fs::path const& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || !hdf5::has_signature(path)) return;
  auto const guard = hdf5::lock();
  hdf5::guarded(path, structure_walk(path), [&] { return declared_format(path); });
}

std::unique_ptr<NetworkSource> open_network(fs::path const& path, ChallengeOptions const& options) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw InputError(fmt::format("{} cannot be read: {}", path.string(),
                                 error ? error.message() : std::string("No such file or directory")));
  }
  if (is_layer_list(path)) return open_layer_list(path, options);
  require_no_matrix_options(options, path);
  if (fs::is_directory(path, error)) return open_challenge_network(path, options);
  if (!hdf5::has_signature(path)) {
    if (is_onnx(path)) return open_onnx(path, options);
    throw InputError(
        fmt::format("{} is no network: expected an HDF5 network file, a folder of nN-lK.tsv files, an ONNX "
                    "model, matrices of other programs, or a JSON file that lists them",
                    path.string()));
  }
  auto file = std::make_unique<NetworkFile>(path);
  require_agreement(*file, options, path);
  return file;
}

std::vector<fs::path> network_files(fs::path const& path, ChallengeOptions const& options) {
  std::error_code error;
  if (fs::exists(path, error) && is_layer_list(path)) return layer_list_files(path);
  if (fs::is_directory(path, error)) return challenge_layer_files(path, options);
  return {path};
}

std::uint64_t network_checksum(fs::path const& path, ChallengeOptions const& options) {
  std::error_code error;
  bool const is_one_file = !fs::is_directory(path, error) && !(fs::exists(path, error) && is_layer_list(path));
  return is_one_file ? file_checksum(path) : files_checksum(network_files(path, options));
}

SampleSet open_samples(fs::path const& path, std::size_t neurons, OptionalSampleRange const& range) {
  if (auto const format = matrix_format(path)) {
    auto const rows = open_matrix_samples(path, *format, range);
    require_width(path, rows->num_neurons(), neurons);
    return to_set(rows->read(0, rows->num_samples()));
  }
  if (hdf5::is_hdf5_and_not_text(path)) {
    require_width(path, neurons);
    return read_sample_file(path, range);
  }
  if (!is_idx(path)) return read_challenge_samples(path, neurons, range);
  auto const images = open_idx_images(path, range);
  require_width(path, images->num_neurons(), neurons);
  return to_set(images->read(0, images->num_samples()));
}

SampleSet open_samples(fs::path const& path, std::optional<std::size_t> neurons) {
  if (neurons) return open_samples(path, *neurons);
  if (auto const format = matrix_format(path)) {
    auto const rows = open_matrix_samples(path, *format);
    return to_set(rows->read(0, rows->num_samples()));
  }
  if (hdf5::is_hdf5_and_not_text(path)) return read_sample_file(path);
  std::error_code error;
  if (fs::is_regular_file(path, error) && is_idx(path)) {
    auto const images = open_idx_images(path);
    return to_set(images->read(0, images->num_samples()));
  }
  throw UsageError(
      fmt::format("{} is text and does not say how many neurons its samples have; add --neurons", path.string()));
}

SampleRange first_samples(fs::path const& path, std::size_t count) {
  SampleIndex const first = is_sample_file(path) ? read_sample_header(path).first_sample : 0;
  return {first, capped_add(first, count)};
}

bool holds_samples(fs::path const& path, ChallengeOptions const& options) {
  std::error_code error;
  bool const describes_layers = !options.activation.empty() || options.cap;
  if (!fs::is_regular_file(readable_place(path), error)) return false;
  try {
    if (is_plain_binsparse(path)) return !describes_layers && plain_matrix_names(path).size() == 1;
    if (!hdf5::has_signature(path))
      return matrix_format(path) ? !describes_layers : !is_layer_list(path) && !is_onnx(path);
    return holds_hdf5_samples(path);
  } catch (InputError const&) {
    return false; // broken either way: reading it as a network reports the reason
  }
}

void save_network(NetworkSource const& network, fs::path const& path, Progress const& progress) {
  if (!hdf5::is_hdf5_name(path)) {
    auto const compression = text_compression(path);
    if (!compression && path.has_extension()) {
      throw UsageError(
          fmt::format("{} has an unknown ending, expected .h5, .hdf5, .tsv, .tsv.gz, .tsv.xz, .tsv.zst, or "
                      "none for a folder of text files",
                      path.string()));
    }
    write_challenge_network(network, path, compression.value_or(Compression::none), progress);
    return;
  }
  NetworkFileWriter writer(path);
  for_each_layer(network, [&](std::size_t number, Layer const& layer) {
    writer.append(layer);
    if (progress) progress(number + 1, network.num_layers());
  });
  writer.commit();
}

std::unique_ptr<SampleWriter> open_sample_writer(fs::path const& path, std::size_t neurons) {
  if (hdf5::is_hdf5_name(path)) return std::make_unique<SampleFileWriter>(path, neurons);
  if (text_compression(path)) return std::make_unique<ChallengeSampleWriter>(path);
  throw UsageError(
      fmt::format("{} has an unknown ending, expected .h5, .hdf5, .tsv, .tsv.gz, .tsv.xz or .tsv.zst", path.string()));
}

void save_samples(SampleSet const& samples, fs::path const& path) {
  auto const writer = open_sample_writer(path, samples.num_neurons());
  writer->append(samples);
  writer->commit();
}

} // namespace varve
