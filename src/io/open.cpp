#include "io/open.hpp"

#include "core/error.hpp"
#include "io/categories.hpp"
#include "io/checksum.hpp"
#include "io/container.hpp"
#include "io/foreign_files.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/network_file.hpp"
#include "io/sample_file.hpp"
#include "io/text_file.hpp"

#include <array>
#include <string_view>
#include <system_error>

namespace varve {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// How files of other programs begin.
constexpr std::array signatures = {std::pair("\x89HDF\r\n\x1a\n"sv, "an HDF5 file"),
                                   std::pair("\x93NUMPY"sv, "an array of NumPy"),
                                   std::pair("PK\x03\x04"sv, "a zip archive, as those of SciPy")};

/// The compression implied by an ending .tsv, .tsv.gz, .tsv.xz or .tsv.zst; nullopt for other names.
std::optional<Compression> text_compression(fs::path const& path) {
  auto const compression = compression_of_name(path);
  auto const name = compression == Compression::none ? path : path.stem();
  return name.extension() == ".tsv" ? std::optional(compression) : std::nullopt;
}

template <class Number>
void require_equal(std::optional<Number> const& asked, Number found, char const* what, fs::path const& path) {
  if (asked && *asked != found)
    fail<UsageError>("{} {} was asked for, but {} says {}", what, *asked, path.string(), found);
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
    if (options.cap && !header.activation.has_cap())
      fail<UsageError>("the cap {} was asked for, but layer {} of {} has no clipped relu", *options.cap, number,
                       path.string());
    require_equal(options.cap, header.activation.cap, in_layer("the cap").c_str(), path);
  }
}

} // namespace

bool is_container_name(fs::path const& path) { return path.extension() == ".safetensors"; }

FileKind kind_of(fs::path const& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return FileKind::absent;
  if (fs::is_directory(path, error)) return FileKind::folder;
  if (container::is_container(path)) return FileKind::container;
  auto const head = bytes_of_file(path, 0, 8);
  for (auto const& [signature, what] : signatures) {
    if (!head.starts_with(signature)) continue;
    fail<InputError>("{0} is {1}, which Varve's Python package reads: varve-convert {0} NAME.safetensors",
                     path.string(), what);
  }
  if (is_container_name(path)) fail_at(path.string(), "no safetensors file", "one by the ending of its name");
  if (is_idx(path)) return FileKind::idx;
  return is_matrix_market(path) ? FileKind::matrix_market : FileKind::text;
}

std::unique_ptr<NetworkSource> open_network(fs::path const& path, ChallengeOptions const& options) {
  switch (kind_of(path)) {
  case FileKind::folder:
    return open_challenge_network(path, options);
  case FileKind::container: {
    auto file = std::make_unique<NetworkFile>(path);
    require_agreement(*file, options, path);
    return file;
  }
  case FileKind::absent:
    fail<InputError>("{} cannot be read: No such file or directory", path.string());
  default:
    fail<InputError>("{0} is not a network: expected a .safetensors file of Varve, or a folder of nN-lK.tsv files; of "
                     "ONNX models and others, varve-convert {0} NAME.safetensors makes one",
                     path.string());
  }
}

std::vector<fs::path> network_files(fs::path const& path, ChallengeOptions const& options) {
  std::error_code error;
  if (fs::is_directory(path, error)) return challenge_layer_files(path, options);
  return {path};
}

std::uint64_t network_checksum(fs::path const& path, ChallengeOptions const& options) {
  std::error_code error;
  return fs::is_directory(path, error) ? files_checksum(network_files(path, options)) : file_checksum(path);
}

SampleSet open_samples(fs::path const& path, std::optional<std::size_t> neurons, OptionalSampleRange const& range) {
  if (neurons && kind_of(path) == FileKind::text) return read_challenge_samples(path, *neurons, range);
  auto const reader = open_sample_reader(path, neurons, range, 0);
  return to_set(reader->read(0, reader->num_samples()));
}

std::unique_ptr<SampleReader> open_sample_reader(fs::path const& path, std::optional<std::size_t> neurons,
                                                 OptionalSampleRange const& range, std::size_t bytes) {
  auto const kind = kind_of(path);
  bool const states_width = kind == FileKind::container || kind == FileKind::idx || kind == FileKind::matrix_market;
  if (!states_width && neurons) return open_challenge_samples(path, *neurons, range, bytes);
  if (kind == FileKind::text) {
    fail<UsageError>("{} is text and does not say how many neurons its samples have; add --text neurons=N",
                     path.string());
  }
  auto samples = kind == FileKind::idx             ? open_idx_images(path, range)
                 : kind == FileKind::matrix_market ? open_matrix_market_samples(path, range)
                                                   : open_sample_file(path, range);
  if (neurons) require_width(path, samples->num_neurons(), *neurons);
  return samples;
}

Labels open_labels(fs::path const& path, SampleRange const& samples, OtherSamples others) {
  auto const kind = kind_of(path);
  if (kind == FileKind::container) {
    auto const header = read_sample_header(path);
    SampleRange const all{header.first_sample, header.first_sample + header.num_samples};
    if (header.has_labels) require_samples(path, "labels", all, samples, others);
    return read_sample_labels(path, samples);
  }
  if (kind != FileKind::idx) return read_text_labels(path, samples, others);
  require_samples(path, "labels", {0, num_idx_labels(path)}, samples, others);
  return read_idx_labels(path, samples);
}

std::unique_ptr<SampleReader> open_targets(fs::path const& path, std::optional<std::size_t> num_outputs,
                                           SampleRange const& samples, OtherSamples others) {
  if (kind_of(path) == FileKind::matrix_market) {
    auto const all = open_matrix_market_samples(path);
    if (num_outputs) require_width(path, all->num_neurons(), *num_outputs, "outputs", "targets");
    require_samples(path, "targets", {0, all->num_samples()}, samples, others);
    return open_matrix_market_samples(path, samples);
  }
  auto const header = read_sample_header(path);
  auto const width = header.num_targets.value_or(header.num_neurons);
  if (num_outputs) require_width(path, width, *num_outputs, "outputs", "targets");
  require_samples(path, "targets", {header.first_sample, header.first_sample + header.num_samples}, samples, others);
  return open_sample_file(path, samples, header.num_targets ? SamplePart::targets : SamplePart::samples);
}

bool holds_samples(fs::path const& path) {
  try {
    auto const kind = kind_of(path);
    if (kind != FileKind::container) return kind != FileKind::absent && kind != FileKind::folder;
    container::File const file(path);
    return member_text(file.description(), "kind") == json_text("samples");
  } catch (InputError const&) {
    return false; // broken either way: reading it as a network reports the reason
  }
}

void save_network(NetworkSource const& network, fs::path const& path, Progress const& progress) {
  if (!is_container_name(path)) {
    auto const compression = text_compression(path);
    if (!compression && path.has_extension())
      fail<UsageError>("{} has an unknown ending, expected .safetensors, .tsv, .tsv.gz, .tsv.xz, .tsv.zst, or none for "
                       "a folder of text files",
                       path.string());
    write_challenge_network(network, path, compression.value_or(Compression::none), progress);
    return;
  }
  NetworkFileWriter writer(path, network.num_layers());
  for_each_layer(network, [&](std::size_t number, Layer const& layer) {
    writer.append(layer);
    if (progress) progress(number + 1, network.num_layers());
  });
  writer.commit();
}

std::unique_ptr<SampleWriter> open_sample_writer(fs::path const& path, std::size_t neurons) {
  if (is_container_name(path)) return create_sample_file(path, neurons);
  if (text_compression(path)) return create_challenge_samples(path);
  fail<UsageError>("{} has an unknown ending, expected .safetensors, .tsv, .tsv.gz, .tsv.xz or .tsv.zst",
                   path.string());
}

void save_samples(SampleSet const& samples, fs::path const& path) {
  auto const writer = open_sample_writer(path, samples.num_neurons());
  writer->append(samples);
  writer->commit();
}

} // namespace varve
