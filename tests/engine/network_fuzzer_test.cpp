#include "engine/draw.hpp"
#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "core/stopwatch.hpp"
#include "network/sample_set.hpp"
#include "passes/edge_order.hpp"
#include "passes/reduced_network.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Place;
using test::RandomCase;
using test::RandomCases;

constexpr std::uint64_t kSeedsOfTheSuite = 40;

/// What was tried.
struct Tally {
  std::size_t networks = 0;
  std::size_t runs = 0;
  std::size_t refused = 0; ///< of the runs: the memory limit was too small
  std::size_t differences = 0;
};

/// A number from the environment.
std::uint64_t number_of(char const* name, std::uint64_t usual) {
  char const* const text = std::getenv(name); // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? usual : std::stoull(text);
}

/// A case of a seed: narrow networks, some with curves, and wide ones.
RandomCase case_of(std::uint64_t seed) {
  RandomCases random(seed);
  if (seed % 4 == 0) return random.draw();
  auto drawn = random.draw_wide();
  if (seed % 5 == 0) drawn.network = test::with_curves(drawn.network, seed);
  return drawn;
}

/// The places of this build, or those of the backend that VARVE_FUZZ_BACKEND names.
std::vector<Place> places_to_try() {
  auto places = test::all_places();
  if (char const* const name = std::getenv("VARVE_FUZZ_BACKEND")) // NOLINT(concurrency-mt-unsafe)
    std::erase_if(places, [only = parse_backend(name)](Place const& place) { return place.backend != only; });
  return places;
}

/// Draws the options of a run: where, which format, kernel and tile, order of edges, reductions, batches and memory.
InferenceOptions draw_options(RandomCases& random) {
  static auto const places = places_to_try();
  auto const choices = test::all_choices(places.at(random.below(places.size())));
  auto options = choices.at(random.below(choices.size()));
  constexpr std::array orders = {EdgeOrder::ascending, EdgeOrder::balanced, EdgeOrder::forced};
  options.edge_order = orders.at(random.below(orders.size()));
  auto& reductions = options.reductions;
  for (bool* const reduction : {&reductions.saturation, &reductions.equal_samples, &reductions.merge_neurons,
                                &reductions.fold_constants, &reductions.drop_unread})
    *reduction = random.below(3) == 0;
  if (random.below(4) == 0) options.batch = 1 + random.below(70);
  if (random.below(4) == 0) options.expected_samples = 1 + random.below(200);
  if (random.below(8) == 0) options.device_memory_limit = std::size_t(1) << (16 + random.below(10)); // 64 KiB to 32 MiB
  if (random.below(8) == 0) options.device_weight_limit = std::size_t(1) << (12 + random.below(12));
  options.memory_limit = std::size_t(1) << 29U; // with which dense layers of wide ones are refused
  if (has_own_memory(options.backend) && random.below(2) == 0) options.repeat = 3; // launches are recorded
  return options;
}

std::string name_of_run(InferenceOptions const& options) {
  return test::describe(options) + (options.precision == Precision::double_precision ? ", double" : ", float") +
         ", edges " + to_string(options.edge_order) + (options.reductions.rewrites_network() ? ", rewritten" : "") +
         (options.device_memory_limit ? ", limited" : "");
}

/// The activations by plain loops, of the network as its passes and the order of edges leave it.
SampleSet expected_of(RandomCase const& drawn, InferenceOptions const& options) {
  auto const& wanted = options.reductions;
  ReducedNetwork const reduced(drawn.network, {wanted.merge_neurons, wanted.fold_constants, wanted.drop_unread},
                               std::numeric_limits<std::size_t>::max());
  NetworkSource const& source = wanted.rewrites_network() ? static_cast<NetworkSource const&>(reduced) : drawn.network;
  OrderedNetwork const ordered(std::shared_ptr<NetworkSource const>(std::shared_ptr<void>(), &source),
                               options.edge_order);
  auto const last = test::reference_of(ordered, drawn.samples, options.precision);
  if (!wanted.rewrites_network()) return last;
  SampleSet expanded;
  expanded.first_sample = last.first_sample;
  expanded.matrix.num_rows = last.num_samples();
  expanded.matrix.num_columns = drawn.network.num_outputs();
  for (std::size_t row = 0; row < last.num_samples(); ++row) {
    std::vector<double> values(last.num_neurons());
    for (auto entry = last.matrix.row_pointers[row]; entry < last.matrix.row_pointers[row + 1]; ++entry)
      values[last.matrix.column_indices[entry]] = last.matrix.value(entry);
    for (std::size_t output = 0; output < expanded.num_neurons(); ++output) {
      double const value = values[reduced.output_map()[output]];
      if (value == 0.0) continue;
      expanded.matrix.column_indices.push_back(static_cast<NeuronIndex>(output));
      expanded.matrix.values.push_back(value);
    }
    expanded.matrix.row_pointers.push_back(expanded.matrix.num_entries());
  }
  return expanded;
}

/// Runs a case in several ways and counts the runs that differ from the plain loops in any output.
void try_seed(std::uint64_t seed, Tally& tally) {
  auto const drawn = case_of(seed);
  RandomCases random(seed + 1000000);
  ++tally.networks;
  for (std::size_t run = 0; run < 4; ++run) {
    auto const options = draw_options(random);
    ++tally.runs;
    try {
      auto const result = test::run_all(drawn.network, drawn.samples, options).result;
      auto const expected = expected_of(drawn, options);
      bool const is_equal = result.activations == expected && result.live_samples == categories(expected) &&
                            result.predictions == largest(expected.matrix) &&
                            result.activation_hash == hash(expected, options.precision);
      if (is_equal) continue;
      ++tally.differences;
      ADD_FAILURE() << "seed " << seed << ", run " << run << ": " << name_of_run(options);
    } catch (ResourceError const& error) {
      ASSERT_TRUE(!options.formats.empty() || options.kernel || options.device_memory_limit ||
                  options.device_weight_limit)
          << error.what();
      ++tally.refused;
    }
  }
}

/// Tries the seeds of the suite, or, with VARVE_FUZZ_SECONDS, the seeds from VARVE_FUZZ_SEED on for so long, each of
/// which is printed first.
TEST(NetworkFuzzer, FindsNoDifferenceFromPlainLoops) {
  Tally tally;
  Stopwatch const time;
  std::uint64_t const seconds = number_of("VARVE_FUZZ_SECONDS", 0);
  std::uint64_t const first = number_of("VARVE_FUZZ_SEED", 1);
  auto const goes_on = [&](std::uint64_t seed) {
    return seconds > 0 ? time.seconds() < static_cast<double>(seconds)
                       : seed < first + test::Draw::count(kSeedsOfTheSuite);
  };
  for (std::uint64_t seed = first; goes_on(seed); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    if (seconds > 0) std::cout << "seed " << seed << std::endl;
    try_seed(seed, tally);
    if (HasFatalFailure()) break;
  }
  std::string const text = std::to_string(tally.networks) + " networks, " + std::to_string(tally.runs) + " runs, " +
                           std::to_string(tally.refused) + " of them refused for want of memory, " +
                           std::to_string(tally.differences) + " differences";
  RecordProperty("tried", text);
  if (seconds > 0) std::cout << text << "\n";
  EXPECT_TRUE(tally.networks < kSeedsOfTheSuite || tally.runs > 2 * tally.refused) << text;
}

} // namespace
} // namespace varve
