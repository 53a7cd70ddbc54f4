#include "io/challenge.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/triple_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

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

/// The number of neurons and the layer number in the name of a layer file; nullopt for other names.
std::optional<std::pair<std::size_t, std::size_t>> numbers_in_name(std::string_view name) {
  std::size_t neurons = 0;
  std::size_t number = 0;
  bool const begins = take(name, "n") && take(name, neurons) && take(name, "-l") && take(name, number);
  if (!begins || !take(name, ".tsv")) return std::nullopt;
  bool const is_layer = name.empty() || name == ".gz" || name == ".xz" || name == ".zst";
  return is_layer ? std::optional(std::pair(neurons, number)) : std::nullopt;
}

std::vector<fs::directory_entry> entries_of(fs::path const& folder) {
  std::error_code error;
  fs::directory_iterator const begin(folder, error);
  if (error) fail<InputError>("{} cannot be read: {}", folder.string(), error.message());
  return {begin, fs::directory_iterator()};
}

LayerFiles find_layer_files(fs::path const& folder) {
  LayerFiles files;
  for (auto const& entry : entries_of(folder)) {
    auto const name = entry.path().filename().string();
    auto const numbers = numbers_in_name(name);
    if (!numbers) continue;
    auto const [place, is_new] = files[numbers->first].emplace(numbers->second, entry.path());
    if (!is_new) {
      std::string names[] = {place->second.filename().string(), name};
      std::ranges::sort(names);
      fail<InputError>("{} holds both {} and {}, expected one file per layer", folder.string(), names[0], names[1]);
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
    fail<InputError>("{} holds layer files for {} neurons, found none for {}", folder.string(),
                     fmt::join(neurons, ", "), *options.neurons);
  }
  if (neurons.size() == 1) return neurons.front();
  fail<UsageError>("{} holds networks of {} neurons: say which one to read", folder.string(), fmt::join(neurons, ", "));
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
      fail<InputError>("{} (or .gz, .xz, .zst) is missing, expected the files of layers 1 to {}",
                       (folder / name).string(), num_layers);
    }
    paths.push_back(file->second);
  }
  if (paths.empty()) fail<InputError>("{} holds only a layer 0, expected layers from 1", folder.string());
  return paths;
}

void require_sensible(ChallengeOptions const& options) {
  if (options.neurons && (*options.neurons < 1 || *options.neurons > std::numeric_limits<NeuronIndex>::max()))
    fail<UsageError>("{} neurons were asked for, expected 1 to {}", *options.neurons,
                     std::numeric_limits<NeuronIndex>::max());
  if (options.layers && *options.layers < 1) throw UsageError("0 layers were asked for, expected at least 1");
  if (options.bias && !std::isfinite(*options.bias))
    fail<UsageError>("the bias {} was asked for, expected a finite number", *options.bias);
  if (options.cap && !(*options.cap > 0.0 && std::isfinite(*options.cap)))
    fail<UsageError>("the cap {} was asked for, expected a positive finite number", *options.cap);
}

/// The width of a network and its files in layer order.
struct ChallengeFiles {
  std::size_t neurons = 0;
  std::vector<fs::path> paths;
};

/// Finds the files that open_challenge_network reads. Throws as it does.
ChallengeFiles find_challenge_files(fs::path const& folder, ChallengeOptions const& options) {
  require_sensible(options);
  auto layers_in = folder;
  auto files = find_layer_files(folder);
  if (files.empty()) {
    auto const folders = find_neuron_folders(folder);
    if (!folders.empty()) layers_in = folders.at(choose_neurons(folders, options, folder));
    if (!folders.empty()) files = find_layer_files(layers_in);
  }
  if (files.empty())
    fail<InputError>(
        "{} holds no layer files, expected nN-lK.tsv (or .gz, .xz, .zst) in it or in its sub-folder neuronN",
        layers_in.string());
  auto const neurons = choose_neurons(files, options, layers_in);
  if (neurons < 1 || neurons > std::numeric_limits<NeuronIndex>::max())
    fail<InputError>("{} holds layer files for {} neurons, expected 1 to {}", layers_in.string(), neurons,
                     std::numeric_limits<NeuronIndex>::max());
  return {neurons, choose_layers(files.at(neurons), options, layers_in, neurons)};
}

class ChallengeNetwork final : public NetworkSource {
public:
  ChallengeNetwork(fs::path folder, std::vector<fs::path> files, std::size_t neurons, double bias, double cap)
      : folder_(std::move(folder)), files_(std::move(files)), neurons_(neurons), bias_(bias), cap_(cap) {}

  std::string name() const override { return folder_.string(); }
  std::size_t num_layers() const override { return files_.size(); }

  Layer layer(std::size_t number) const override {
    auto triples = read_triples({.path = files_.at(number),
                                 .names = {"input", "output", "weight"},
                                 .largest = {neurons_, neurons_},
                                 .row_position = 1,
                                 .wanted = SampleRange{0, neurons_}});
    return {std::move(*triples.whole), {bias_}, Activation::clipped_relu(cap_)};
  }

private:
  fs::path folder_;
  std::vector<fs::path> files_;
  std::size_t neurons_;
  double bias_;
  double cap_;
};

/// Calls visit(row, column, value) for each entry of a matrix.
template <class Visit>
void for_each_entry(SparseMatrix const& matrix, Visit const& visit) {
  for (std::size_t row = 0; row < matrix.num_rows; ++row)
    for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
      visit(row, std::uint64_t{matrix.column_indices[entry]}, matrix.value(entry));
}

/// Throws unless text can store this layer: it must match layer 0 in everything but its weights.
void require_like_challenge(Layer const& layer, Layer const& first, std::size_t number, fs::path const& folder) {
  auto const refuse = [&](std::string const& found) {
    fail<UsageError>("{} cannot hold the network as text: layer {} {}; write a .safetensors file instead",
                     folder.string(), number, found);
  };
  auto const bias = first.bias.front();
  if (layer.num_inputs() != layer.num_outputs())
    refuse(fmt::format("has {} inputs and {} outputs, expected as many", layer.num_inputs(), layer.num_outputs()));
  if (layer.num_outputs() != first.num_outputs())
    refuse(fmt::format("has {} outputs, expected {} as in layer 0", layer.num_outputs(), first.num_outputs()));
  auto const other = std::ranges::find_if(layer.bias, [&](double value) { return value != bias; });
  if (other != layer.bias.end()) refuse(fmt::format("has a bias of {}, expected {} everywhere", *other, bias));
  if (!layer.activation.has_cap()) refuse("has no clipped relu");
  if (layer.activation.cap != first.activation.cap)
    refuse(fmt::format("has the cap {}, expected {} as in layer 0", layer.activation.cap, first.activation.cap));
}

void write_layer_file(Layer const& layer, fs::path const& path) {
  TextWriter file(path, Appears::with_folder);
  for_each_entry(layer.weights, [&](std::size_t output, std::uint64_t input, double weight) {
    file.print("{}\t{}\t{}\n", input + 1, output + 1, weight);
  });
  file.commit();
}

// limit on image numbers: a typing error must not fill the memory
constexpr std::uint64_t largest_image = std::uint64_t{1} << 30;

void require_sensible(OptionalSampleRange const& range) {
  if (!range || (range->first <= range->second && range->second <= largest_image)) return;
  fail<UsageError>("the samples {}:{} were asked for, expected a range within 1:{}", range->first + 1, range->second,
                   largest_image);
}

/// Throws if a range begins after the last image. It may end there, because trailing images may have no pixel.
void require_begun(fs::path const& path, OptionalSampleRange const& range, std::uint64_t largest) {
  if (!range || range->first < largest || range->first == range->second) return;
  fail<UsageError>("the samples {}:{} were asked for, but {} ends with sample {}", range->first + 1, range->second,
                   path.string(), largest);
}

class ChallengeSampleWriter final : public SampleWriter {
public:
  explicit ChallengeSampleWriter(fs::path path) : path_(std::move(path)), file_(path_) {}

  void append(SampleSet const& batch) override {
    for_each_entry(batch.matrix, [&](std::size_t row, std::uint64_t column, double value) {
      file_.print("{}\t{}\t{}\n", batch.first_sample + row + 1, column + 1, value);
    });
  }
  void append_labels(Labels const& /*batch*/) override { fail_no_place("labels"); }
  void append_targets(SampleSet const& /*batch*/) override { fail_no_place("targets"); }
  void commit() override { file_.commit(); }

private:
  [[noreturn]] void fail_no_place(char const* what) const {
    fail<UsageError>("{} is text, which has no place for {}; expected .safetensors, or --samples-only", path_.string(),
                     what);
  }

  fs::path path_;
  TextWriter file_;
};

TripleText sample_text(fs::path const& path, std::size_t neurons, OptionalSampleRange const& range) {
  require_sensible(range);
  return {.path = path,
          .names = {"image", "pixel", "value"},
          .largest = {largest_image, neurons},
          .drops_zeros = true,
          .is_parallel = true,
          .wanted = range};
}

} // namespace

bool is_layer_file_name(std::string_view name) { return numbers_in_name(name).has_value(); }

std::vector<fs::path> challenge_layer_files(fs::path const& folder, ChallengeOptions const& options) {
  return find_challenge_files(folder, options).paths;
}

std::unique_ptr<NetworkSource> open_challenge_network(fs::path const& folder, ChallengeOptions const& options) {
  auto [neurons, paths] = find_challenge_files(folder, options);
  auto const bias = options.bias ? options.bias : challenge_bias(neurons);
  if (!bias)
    fail<UsageError>("{} holds a network of {} neurons, for which the challenge names no bias: give the bias",
                     folder.string(), neurons);
  return std::make_unique<ChallengeNetwork>(folder, std::move(paths), neurons, *bias,
                                            options.cap.value_or(kChallengeCap));
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

SampleSet read_challenge_samples(fs::path const& path, std::size_t neurons, OptionalSampleRange const& range) {
  auto scan = read_triples(sample_text(path, neurons, range));
  require_begun(path, range, scan.largest_row);
  return {std::move(*scan.whole), scan.facts.first_sample};
}

std::unique_ptr<SampleReader> open_challenge_samples(fs::path const& path, std::size_t neurons,
                                                     OptionalSampleRange const& range, std::size_t bytes) {
  auto const text = sample_text(path, neurons, range);
  auto scan = read_triples(text, bytes);
  require_begun(path, range, scan.largest_row);
  if (!scan.whole) return open_triples(text, std::move(scan));
  return std::make_unique<SamplesInMemory>(SampleSet{std::move(*scan.whole), scan.facts.first_sample});
}

std::unique_ptr<SampleWriter> create_challenge_samples(fs::path const& path) {
  return std::make_unique<ChallengeSampleWriter>(path);
}

} // namespace varve
