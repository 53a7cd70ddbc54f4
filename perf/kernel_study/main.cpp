/// Runs a network by the product's kernels in other launch shapes, checks every answer against the reference, and times
/// them. Exit codes as those of varve; 1 if an answer is wrong.
#include "kernel_study.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/version.hpp"
#include "network/activations.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"
#include "reference/infer.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace varve::kernel_study {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  Backend backend = compiled_backends().front();
  std::string pattern = "radixnet";
  std::size_t neurons = 1024;
  std::size_t layers = 120;
  std::size_t samples = 60000;
  std::size_t check = 1000;
  std::size_t repeat = 7;
  std::uint64_t seed = 1;
  std::string records;
};

/// A way gave another answer than it must (exit code 1).
class WrongAnswer : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// The challenge's network of this size, or one of its weights, degree and cap without structure.
std::unique_ptr<NetworkSource> make_network(Options const& options) {
  if (options.pattern == "radixnet") return std::make_unique<RadixNet>(options.neurons, options.layers, options.seed);
  RandomNetworkRecipe recipe;
  recipe.widths.assign(options.layers + 1, options.neurons);
  recipe.degree = 32;
  recipe.weight = 0.0625;
  recipe.lowest_bias = recipe.highest_bias = -0.19; // keeps about as many samples alive as the challenge's network does
  recipe.cap = kChallengeCap;
  recipe.seed = options.seed;
  return std::make_unique<RandomNetwork>(recipe);
}

std::unique_ptr<Study> make_study(Backend backend, Network const& network, SampleBatch const& samples) {
  switch (backend) { // the build defines VARVE_HAVE_* for the backends of its Kokkos
#if defined(VARVE_HAVE_SERIAL)
  case Backend::serial:
    return study_serial(network, samples);
#endif
#if defined(VARVE_HAVE_OPENMP)
  case Backend::openmp:
    return study_openmp(network, samples);
#endif
#if defined(VARVE_HAVE_CUDA)
  case Backend::cuda:
    return study_cuda(network, samples);
#endif
  default:
    throw UsageError("this build has no backend '" + to_string(backend) + "'");
  }
}

std::string name_of(Shape const& shape) {
  std::string const format =
      shape.block_outputs == 1 ? "single outputs" : fmt::format("blocks of {}", shape.block_outputs);
  return fmt::format("{}, {}, teams of {}, tiles of {}, lanes of {}, packs of {}, {:.3g} layers a launch", shape.kernel,
                     format, shape.team_size, shape.tile_width, shape.samples_per_lane, shape.pack_width,
                     shape.layers_per_launch);
}

/// Runs every way once; throws WrongAnswer unless each gives this hash.
void check(Study& study, std::uint64_t expected, std::string const& whose) {
  for (std::size_t way = 0; way < study.ways().size(); ++way) {
    study.run(way);
    std::uint64_t const hash = study.hash();
    if (hash == expected) continue;
    throw WrongAnswer(fmt::format("{}: activations {:016x}, but {} are {:016x}; this is a defect of the kernel in this "
                                  "shape, so nothing was timed",
                                  name_of(study.ways()[way].shape), hash, whose, expected));
  }
}

/// Seconds of each way, of all repetitions. The ways take turns, so that what else the machine does meets all alike.
std::vector<std::vector<double>> measure(Study& study, std::size_t repeat) {
  std::vector<std::vector<double>> seconds(study.ways().size());
  for (std::size_t repetition = 0; repetition < repeat; ++repetition) {
    for (std::size_t way = 0; way < seconds.size(); ++way) seconds[way].push_back(study.run(way));
  }
  return seconds;
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  std::size_t const middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2.0;
}

Json provenance_of(Options const& options, std::size_t num_checked, std::uint64_t hash) {
  return {{"program", "varve_kernel_study"},
          {"git_commit", provenance.git_commit},
          {"compiler", provenance.compiler},
          {"build_type", provenance.build_type},
          {"kokkos_version", provenance.kokkos_version},
          {"backend", to_string(options.backend)},
          {"device", device_name(options.backend)},
          {"pattern", options.pattern},
          {"neurons", options.neurons},
          {"layers", options.layers},
          {"samples", options.samples},
          {"seed", options.seed},
          {"checked_samples", num_checked},
          {"activation_hash", fmt::format("{:016x}", hash)}};
}

Json json_of(Shape const& shape) {
  return {{"kernel", shape.kernel},
          {"block_outputs", shape.block_outputs},
          {"team_size", shape.team_size},
          {"tile_width", shape.tile_width},
          {"samples_per_lane", shape.samples_per_lane},
          {"pack_width", shape.pack_width},
          {"layers_per_launch", shape.layers_per_launch}};
}

/// One record for each comparison that a way is part of.
std::vector<Json> records_of(Way const& way, std::vector<double> const& seconds, Json const& origin) {
  std::vector<Json> records;
  Json const shape = json_of(way.shape);
  for (auto const& varied : way.varied) {
    Json record = origin;
    record.update({{"varied", varied.number}, {"value", shape.at(varied.number)}, {"is_own_choice", varied.is_own}});
    record.update(shape);
    record.update({{"loop_seconds", median(seconds)}, {"loop_seconds_all", seconds}});
    records.push_back(std::move(record));
  }
  return records;
}

void append(std::string const& path, std::vector<Json> const& records) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::app);
  for (auto const& record : records) file << record.dump() << '\n';
  file.flush();
  if (!file) throw ResourceError(fmt::format("{} cannot be written: give --records a file in a folder that can", path));
}

int run(Options const& options) {
  append(options.records, {}); // if it cannot be written, say so before anything is measured
  Network const network = load(*make_network(options));
  SampleSet const images = digit_images(options.neurons, options.samples, options.seed);
  std::size_t const num_checked = std::min(options.check, options.samples);
  SampleSet const first = samples_of(images, 0, num_checked);
  std::uint64_t const expected = hash(infer<float>(network, first), Precision::single_precision);
  SampleBatch const checked(first);
  SampleBatch const all(images);

  auto const study = make_study(options.backend, network, all);
  study->take(checked);
  check(*study, expected, "those of the reference");
  study->take(all);
  study->run(0);
  std::uint64_t const common = study->hash();
  check(*study, common, "those of another shape");

  auto const seconds = measure(*study, options.repeat);
  Json const origin = provenance_of(options, num_checked, common);
  for (std::size_t number = 0; number < seconds.size(); ++number) {
    auto const& way = study->ways()[number];
    auto const [fastest, slowest] = std::ranges::minmax(seconds[number]);
    fmt::print("{:10.3f} ms ({:.3f} to {:.3f})  {}\n", 1e3 * median(seconds[number]), 1e3 * fastest, 1e3 * slowest,
               name_of(way.shape));
    append(options.records, records_of(way, seconds[number], origin));
  }
  return 0;
}

void add_options(CLI::App& command, Options& options) {
  command.add_option_function<std::string>(
      "--backend", [&options](std::string const& name) { options.backend = parse_backend(name); },
      "serial, openmp or cuda (default: the fastest of this build)");
  command.add_option("--neurons", options.neurons, "neurons per layer, a power of two from 32")->capture_default_str();
  command.add_option("--layers", options.layers, "number of layers")->check(CLI::PositiveNumber)->capture_default_str();
  command.add_option("--samples", options.samples, "digit-like images")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--pattern", options.pattern, "radixnet, or random: 32 inputs of each output, any of them")
      ->check(CLI::IsMember({"radixnet", "random"}))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of network and images")->capture_default_str();
  command.add_option("--repeat", options.repeat, "timed runs of each shape, in turn")
      ->check(CLI::Range(7, 1000000))
      ->capture_default_str();
  command.add_option("--check", options.check, "samples to compare with the reference before anything is timed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--records", options.records, "JSON lines to append to, one for each shape and comparison");
}

} // namespace
} // namespace varve::kernel_study

int main(int num_arguments, char** arguments) {
  CLI::App command("The product's kernels in other launch shapes: team size, tiles, lanes, blocks, layers per launch.",
                   "varve_kernel_study");
  auto const fail = [](int exit_code, char const* sentence) {
    fmt::print(stderr, "varve_kernel_study: {}\n", sentence);
    return exit_code;
  };
  try {
    varve::Runtime const runtime(num_arguments, arguments);
    varve::kernel_study::Options options;
    varve::kernel_study::add_options(command, options);
    command.parse(num_arguments, arguments);
    return varve::kernel_study::run(options);
  } catch (CLI::ParseError const& error) {
    return command.exit(error) == 0 ? 0 : 2;
  } catch (varve::kernel_study::WrongAnswer const& error) {
    return fail(1, error.what());
  } catch (varve::Error const& error) {
    return fail(static_cast<int>(error.kind()), error.what());
  } catch (std::bad_alloc const&) {
    return fail(4, "the memory of this machine does not suffice; ask for fewer samples or layers");
  } catch (std::exception const& error) {
    return fail(4, error.what());
  }
}
