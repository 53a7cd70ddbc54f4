#include "training/training_data.hpp"

#include "network/activations.hpp"
#include "network/network.hpp"
#include "radixnet/random.hpp"

#include <numeric>
#include <utility>

namespace varve {
namespace {

std::uint64_t hash_of(Answers const& answers, Precision precision) {
  constexpr std::uint64_t label_mark = 1; // no bits of a target: those of 1e-45f and 5e-324
  if (!answers.are_labels()) return hash(answers.values, 0, precision);
  std::uint64_t sum = 0;
  for (std::size_t sample = 0; sample < answers.labels.size(); ++sample)
    sum += activation_fingerprint(sample, answers.labels[sample], label_mark);
  return sum;
}

} // namespace

TrainingData training_data_of(Network const& network, SampleSet const& samples, Answers const& answers,
                              Precision precision) {
  return {samples.num_samples(), weights_hash(network), hash(samples.matrix, 0, precision),
          hash_of(answers, precision)};
}

std::vector<std::uint64_t> sample_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_samples) {
  std::vector<std::uint64_t> order(num_samples);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  RandomStream random(seed, epoch);
  for (std::uint64_t left = num_samples; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

} // namespace varve
