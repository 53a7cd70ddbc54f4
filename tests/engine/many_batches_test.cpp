#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "network/sample_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;

/// Thousands of small batches, each of which comes while the one before is computed, as `varve infer` has them come: a
/// GPU records what it launches for a size that comes again, while another thread gets memory for larger samples.
class ManyBatches : public testing::TestWithParam<Place> {
protected:
  static constexpr std::size_t width = 40;
  static constexpr std::size_t max_samples = 200;

  /// Samples, and the sums of the hashes of the reference's activations before each of them.
  struct Pool {
    SampleBatch samples;
    std::vector<std::uint64_t> hashes;

    std::uint64_t hash_of(std::size_t first, std::size_t last) const { return hashes[last] - hashes[first]; }
  };

  ManyBatches() {
    std::vector<Layer> layers(6);
    for (auto& layer : layers) {
      layer.weights = random_.draw_matrix(width, width, 12, 1.0);
      layer.bias = {-0.05};
      layer.activation = Activation::clipped_relu(2.0);
    }
    network_.emplace(std::move(layers));
    add_pool(3, 1); // the entries of a batch grow from pool to pool
    add_pool(12, 0);
    add_pool(width, 0);
    add_pool(width, 1);
  }

  void add_pool(std::size_t max_entries, std::size_t num_values) {
    SampleSet samples{random_.draw_matrix(max_samples, width, max_entries, 2.0), 1000 * pools_.size()};
    auto& values = samples.matrix.values;
    if (num_values == 1) values = {1.0};
    while (num_values != 1 && values.size() < samples.matrix.num_entries()) values.push_back(random_.real(-1, 1));
    auto const expected = test::reference_of(*network_, samples, GetParam().precision);
    Pool pool{SampleBatch(samples), {0}};
    for (std::size_t sample = 0; sample < max_samples; ++sample)
      pool.hashes.push_back(pool.hashes.back() + hash(samples_of(expected, sample, sample + 1), GetParam().precision));
    pools_.push_back(std::move(pool));
  }

  /// A batch of the pool, and its hash.
  struct Batch {
    SampleBatch samples;
    std::uint64_t hash;
  };

  /// Batches of 1 to 200 samples: a size comes several times, the next is smaller or larger.
  std::vector<Batch> draw_batches(std::size_t num_sizes) {
    constexpr std::size_t times = 7; // in either place for samples: a call, a recording, and its repetition
    std::vector<Batch> batches;
    for (std::size_t number = 0; number < num_sizes; ++number) {
      std::size_t const size = 1 + random_.below(random_.below(2) == 0 ? 20 : max_samples);
      auto const& pool = pools_.at(number * pools_.size() / num_sizes);
      for (std::size_t time = 0; time < times; ++time) {
        std::size_t const first = random_.below(max_samples - size + 1);
        batches.push_back({pool.samples.part(first, first + size), pool.hash_of(first, first + size)});
      }
    }
    return batches;
  }

  /// Runs the batches. The batch after each, and the one after that, for which no place is left, come meanwhile.
  static void expect_right(Inference& inference, std::vector<Batch> const& batches) {
    auto const memory = inference.sample_memory();
    auto const bring = [&](std::size_t number) {
      return std::async(std::launch::async, [&, number] {
        std::shared_ptr<void> read; // as readers of files take it
        if (memory) read = memory->take(1 + batches[number].samples.num_entries() * sizeof(NeuronIndex));
        for (std::size_t next = number; next < std::min(number + 2, batches.size()); ++next)
          inference.upload_ahead(batches[next].samples);
      });
    };
    auto next = bring(0);
    for (std::size_t number = 0; number < batches.size(); ++number) {
      next.get();
      if (number + 1 < batches.size()) next = bring(number + 1);
      auto const result = inference.infer(batches[number].samples, {});
      if (result.activation_hash == batches[number].hash) continue;
      ADD_FAILURE() << "batch " << number << " of " << batches[number].samples.num_samples() << " samples is wrong";
      break;
    }
    if (next.valid()) next.get();
  }

  test::RandomCases random_{31};
  std::optional<Network> network_;
  std::vector<Pool> pools_;
};
INSTANTIATE_TEST_SUITE_P(Everywhere, ManyBatches, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(ManyBatches, ComeWhileOthersAreComputed) {
  auto const choices = test::all_choices(GetParam()); // other kernels, other launches
  for (std::size_t number = 0; number < choices.size(); ++number) {
    SCOPED_TRACE(testing::Message() << number << ": " << test::describe(choices[number]));
    auto const inference = prepare(*network_, choices[number]);
    bool const has_one_value = number % 2 == 0; // then the plan changes when samples with several values come
    inference->plan({max_samples, max_samples * 4, has_one_value});
    expect_right(*inference, draw_batches(8));
  }
}

} // namespace
} // namespace varve
