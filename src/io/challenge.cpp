#include "io/challenge.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/triple_text.hpp"
#include "network/challenge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;

// limit on image numbers: a typing error must not fill the memory
constexpr std::uint64_t largest_image = std::uint64_t{1} << 30;

/// Removes `text` from the front of `rest`; false if it is not there.
bool take(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

/// Parses a number and removes it from the front of `rest`; false if there is none.
bool take(std::string_view& rest, std::size_t& number) {
  auto const [next, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<std::size_t>(next - rest.data()));
  return true;
}

/// The layer files of a folder, by number of neurons and layer number (from 1).
using LayerFiles = std::map<std::size_t, std::map<std::size_t, fs::path>>;

bool is_layer_name(std::string_view name, std::size_t& neurons, std::size_t& number) {
  bool const begins = take(name, "n") && take(name, neurons) && take(name, "-l") && take(name, number);
  return begins && take(name, ".tsv") && (name.empty() || name == ".gz" || name == ".xz" || name == ".zst");
}

std::vector<fs::directory_entry> entries_of(fs::path const& folder) {
  std::error_code error;
  fs::directory_iterator const begin(folder, error);
  if (error) throw InputError(fmt::format("{} cannot be read: {}", folder.string(), error.message()));
  return {begin, fs::directory_iterator()};
}

LayerFiles find_layer_files(fs::path const& folder) {
  LayerFiles files;
  for (auto const& entry : entries_of(folder)) {
    std::size_t neurons = 0;
    std::size_t number = 0;
    auto const name = entry.path().filename().string();
    if (!is_layer_name(name, neurons, number)) continue;
    auto const [place, is_new] = files[neurons].emplace(number, entry.path());
    if (!is_new) {
      std::string names[] = {place->second.filename().string(), name};
      std::ranges::sort(names);
      throw InputError(
          fmt::format("{} holds both {} and {}, expected one file per layer", folder.string(), names[0], names[1]));
    }
  }
  return files;
}

/// The sub-folders neuronN, by N.
std::map<std::size_t, fs::path> find_neuron_folders(fs::path const& folder) {
  std::map<std::size_t, fs::path> folders;
  for (auto const& entry : entries_of(folder)) {
    auto const name = entry.path().filename().string();
    std::string_view rest = name;
    std::size_t neurons = 0;
    if (take(rest, "neuron") && take(rest, neurons) && rest.empty() && entry.is_directory()) {
      folders.emplace(neurons, entry.path());
    }
  }
  return folders;
}

/// The requested number of neurons, or the only one present.
template <class ByNeurons>
std::size_t choose_neurons(ByNeurons const& present, ChallengeOptions const& options, fs::path const& folder) {
  std::vector<std::size_t> neurons;
  for (auto const& [number, unused] : present) neurons.push_back(number);
  if (options.neurons) {
    if (present.contains(*options.neurons)) return *options.neurons;
    throw InputError(fmt::format("{} holds layer files for {} neurons, found none for {}", folder.string(),
                                 fmt::join(neurons, ", "), *options.neurons));
  }
  if (neurons.size() == 1) return neurons.front();
  throw UsageError(
      fmt::format("{} holds networks of {} neurons: say which one to read", folder.string(), fmt::join(neurons, ", ")));
}

/// The files of layers 1, 2, ... in order.
std::vector<fs::path> choose_layers(std::map<std::size_t, fs::path> const& files, ChallengeOptions const& options,
                                    fs::path const& folder, std::size_t neurons) {
  auto const num_layers = options.layers.value_or(files.rbegin()->first);
  std::vector<fs::path> paths;
  for (std::size_t number = 1; number <= num_layers; ++number) {
    auto const file = files.find(number);
    if (file == files.end()) {
      auto const name = fmt::format("n{}-l{}.tsv", neurons, number);
      throw InputError(fmt::format("{} (or .gz, .xz, .zst) is missing, expected the files of layers 1 to {}",
                                   (folder / name).string(), num_layers));
    }
    paths.push_back(file->second);
  }
  if (paths.empty()) throw InputError(fmt::format("{} holds only a layer 0, expected layers from 1", folder.string()));
  return paths;
}

void require_sensible(ChallengeOptions const& options) {
  if (options.neurons && (*options.neurons < 1 || *options.neurons > std::numeric_limits<NeuronIndex>::max())) {
    throw UsageError(fmt::format("{} neurons were asked for, expected 1 to {}", *options.neurons,
                                 std::numeric_limits<NeuronIndex>::max()));
  }
  if (options.layers && *options.layers < 1) throw UsageError("0 layers were asked for, expected at least 1");
  if (options.bias && !std::isfinite(*options.bias)) {
    throw UsageError(fmt::format("the bias {} was asked for, expected a finite number", *options.bias));
  }
  if (options.cap && !(*options.cap > 0.0 && std::isfinite(*options.cap))) {
    throw UsageError(fmt::format("the cap {} was asked for, expected a positive finite number", *options.cap));
  }
}

/// The width of a network and its files in layer order.
struct ChallengeFiles {
  std::size_t neurons = 0;
  std::vector<fs::path> paths;
};

ChallengeFiles find_challenge_files(fs::path const& folder, ChallengeOptions const& options) {
  require_sensible(options);
  auto layers_in = folder;
  auto files = find_layer_files(folder);
  if (files.empty()) {
    auto const folders = find_neuron_folders(folder);
    if (!folders.empty()) layers_in = folders.at(choose_neurons(folders, options, folder));
    if (!folders.empty()) files = find_layer_files(layers_in);
  }
  if (files.empty()) {
    throw InputError(fmt::format("{} holds no layer files, expected nN-lK.tsv (or .gz, .xz, .zst) in it or in its "
                                 "sub-folder neuronN",
                                 layers_in.string()));
  }
  auto const neurons = choose_neurons(files, options, layers_in);
  if (neurons < 1 || neurons > std::numeric_limits<NeuronIndex>::max()) {
    throw InputError(fmt::format("{} holds layer files for {} neurons, expected 1 to {}", layers_in.string(), neurons,
                                 std::numeric_limits<NeuronIndex>::max()));
  }
  return {neurons, choose_layers(files.at(neurons), options, layers_in, neurons)};
}

class ChallengeNetwork final : public NetworkSource {
public:
  ChallengeNetwork(fs::path folder, std::vector<fs::path> files, std::size_t neurons, double bias, double cap)
      : folder_(std::move(folder)), files_(std::move(files)), neurons_(neurons), bias_(bias), cap_(cap) {}

  std::string name() const override { return folder_.string(); }
  std::size_t num_layers() const override { return files_.size(); }

  Layer layer(std::size_t number) const override {
    TripleFormat format;
    format.names = {"input", "output", "weight"};
    format.largest = {neurons_, neurons_};
    format.row_position = 1;
    auto triples = read_triples(files_.at(number), format, neurons_, {0, neurons_}, false);
    return {std::move(triples.matrix), {bias_}, Activation::clipped_relu(cap_)};
  }

private:
  fs::path folder_;
  std::vector<fs::path> files_;
  std::size_t neurons_;
  double bias_;
  double cap_;
};

/// Throws unless text can store this layer: it must match layer 0 in everything but its weights.
void require_like_challenge(Layer const& layer, Layer const& first, std::size_t number, fs::path const& folder) {
  auto const fail = [&](std::string const& found) {
    throw UsageError(fmt::format("{} cannot hold the network as text: layer {} {}; write a .h5 file instead",
                                 folder.string(), number, found));
  };
  auto const bias = first.bias.front();
  if (layer.num_inputs() != layer.num_outputs()) {
    fail(fmt::format("has {} inputs and {} outputs, expected as many", layer.num_inputs(), layer.num_outputs()));
  }
  if (layer.num_outputs() != first.num_outputs()) {
    fail(fmt::format("has {} outputs, expected {} as in layer 0", layer.num_outputs(), first.num_outputs()));
  }
  auto const other = std::ranges::find_if(layer.bias, [&](double value) { return value != bias; });
  if (other != layer.bias.end()) fail(fmt::format("has a bias of {}, expected {} everywhere", *other, bias));
  if (!layer.activation.has_cap()) fail("has no clipped relu");
  if (layer.activation.cap != first.activation.cap) {
    fail(fmt::format("has the cap {}, expected {} as in layer 0", layer.activation.cap, first.activation.cap));
  }
}

/// Writes lines of numbers through a buffer of bounded size.
class LineWriter {
public:
  explicit LineWriter(fs::path const& path, Appears appears = Appears::by_itself) : file_(path, appears) {}

  void write(std::uint64_t first, std::uint64_t second, double value) {
    fmt::format_to(std::back_inserter(text_), "{}\t{}\t{}\n", first, second, value);
    if (text_.size() > 1 << 20) flush();
  }

  void commit() {
    flush();
    file_.commit();
  }

private:
  void flush() {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }

  TextWriter file_;
  fmt::memory_buffer text_;
};

TripleFormat sample_format(std::size_t neurons, std::optional<std::size_t> num_samples) {
  TripleFormat format;
  format.names = {"image", "pixel", "value"};
  format.largest = {num_samples.value_or(largest_image), neurons};
  format.drops_zeros = true;
  return format;
}

WantedRows wanted_samples(TripleFormat const& format, OptionalSampleRange const& range,
                          std::optional<std::size_t> num_samples) {
  if (!range) return {0, num_samples};
  if (range->first > range->second || range->second > format.largest[0]) {
    throw UsageError(fmt::format("the samples {}:{} were asked for, expected a range within 1:{}", range->first + 1,
                                 range->second, format.largest[0]));
  }
  return {range->first, range->second};
}

/// Throws if a range begins after the last image. It may end there, because trailing images may have no pixel.
void require_begun(fs::path const& path, SampleRange range, std::uint64_t largest) {
  if (range.first < largest || range.first == range.second) return;
  throw UsageError(fmt::format("the samples {}:{} were asked for, but {} ends with sample {}", range.first + 1,
                               range.second, path.string(), largest));
}

/// Samples of a text that is too large for memory.
class ChallengeSampleReader final : public SampleReader {
public:
  ChallengeSampleReader(fs::path const& path, TripleFormat const& format, std::size_t neurons, WantedRows const& wanted,
                        TripleScan const& scan)
      : rows_(path, format, neurons, wanted, scan.sums),
        num_neurons_(neurons),
        num_samples_(wanted.last.value_or(scan.largest_row) - wanted.first),
        num_entries_(scan.num_entries),
        first_sample_(wanted.first),
        has_one_value_(scan.has_one_value) {}

  std::size_t num_samples() const override { return num_samples_; }
  std::size_t num_neurons() const override { return num_neurons_; }
  EdgeOffset num_entries() const override { return num_entries_; }
  SampleIndex first_sample() const override { return first_sample_; }
  bool has_one_value() const override { return has_one_value_; }
  SampleBatch read(std::size_t first, std::size_t last) override {
    return SampleSet{rows_.read(first, last), first_sample_ + first};
  }

private:
  TripleRows rows_;
  std::size_t num_neurons_;
  std::size_t num_samples_;
  EdgeOffset num_entries_;
  SampleIndex first_sample_;
  bool has_one_value_;
};

void write_layer_file(Layer const& layer, fs::path const& path) {
  LineWriter file(path, Appears::with_folder);
  for (std::size_t output = 0; output < layer.num_outputs(); ++output) {
    for (auto entry = layer.weights.row_pointers[output]; entry < layer.weights.row_pointers[output + 1]; ++entry) {
      file.write(std::uint64_t{layer.weights.column_indices[entry]} + 1, output + 1, layer.weights.value(entry));
    }
  }
  file.commit();
}

} // namespace

bool is_layer_file_name(std::string_view name) {
  std::size_t neurons = 0;
  std::size_t number = 0;
  return is_layer_name(name, neurons, number);
}

std::vector<fs::path> challenge_layer_files(fs::path const& folder, ChallengeOptions const& options) {
  return find_challenge_files(folder, options).paths;
}

std::unique_ptr<NetworkSource> open_challenge_network(fs::path const& folder, ChallengeOptions const& options) {
  auto [neurons, paths] = find_challenge_files(folder, options);
  auto const bias = options.bias ? options.bias : challenge_bias(neurons);
  if (!bias) {
    throw UsageError(
        fmt::format("{} holds a network of {} neurons, for which the challenge names no bias: give the bias",
                    folder.string(), neurons));
  }
  return std::make_unique<ChallengeNetwork>(folder, std::move(paths), neurons, *bias,
                                            options.cap.value_or(kChallengeCap));
}

SampleSet read_challenge_samples(fs::path const& path, std::size_t neurons, OptionalSampleRange const& range,
                                 std::optional<std::size_t> num_samples) {
  auto const format = sample_format(neurons, num_samples);
  auto const wanted = wanted_samples(format, range, num_samples);
  auto triples = read_triples(path, format, neurons, wanted, true);
  if (range && !num_samples) require_begun(path, *range, triples.largest_row);
  return {std::move(triples.matrix), wanted.first};
}

std::unique_ptr<SampleReader> open_challenge_samples(fs::path const& path, std::size_t neurons,
                                                     OptionalSampleRange const& range, std::size_t bytes) {
  auto const format = sample_format(neurons, std::nullopt);
  auto const wanted = wanted_samples(format, range, std::nullopt);
  auto scan = scan_triples(path, format, neurons, wanted, bytes);
  if (range) require_begun(path, *range, scan.largest_row);
  if (scan.whole) return std::make_unique<SamplesInMemory>(SampleSet{std::move(scan.whole->matrix), wanted.first});
  return std::make_unique<ChallengeSampleReader>(path, format, neurons, wanted, scan);
}

void write_challenge_network(NetworkSource const& network, fs::path const& path, Compression compression,
                             Progress const& progress) {
  OutputFolder folder(path);
  auto const num_layers = network.num_layers();
  auto const first = network.layer(0);
  std::mutex progress_guard;
  std::size_t num_done = 0;
  for_each_on_host_threads(num_layers, [&](std::size_t number) {
    auto const layer = network.layer(number);
    require_like_challenge(layer, first, number, path);
    auto const name = fmt::format("n{}-l{}.tsv{}", layer.num_outputs(), number + 1, ending_of(compression));
    write_layer_file(layer, folder.partial_path() / name);
    std::lock_guard const lock(progress_guard);
    ++num_done;
    if (progress) progress(num_done, num_layers);
  });
  folder.commit();
}

struct ChallengeSampleWriter::Contents {
  LineWriter file;
};

ChallengeSampleWriter::ChallengeSampleWriter(fs::path const& path) : contents_(new Contents{LineWriter(path)}) {}

ChallengeSampleWriter::~ChallengeSampleWriter() = default;

void ChallengeSampleWriter::append(SampleSet const& batch) {
  auto const& matrix = batch.matrix;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      contents_->file.write(batch.first_sample + row + 1, std::uint64_t{matrix.column_indices[entry]} + 1,
                            matrix.value(entry));
    }
  }
}

void ChallengeSampleWriter::commit() { contents_->file.commit(); }

void write_challenge_samples(SampleSet const& samples, fs::path const& path) {
  ChallengeSampleWriter writer(path);
  writer.append(samples);
  writer.commit();
}

} // namespace varve
