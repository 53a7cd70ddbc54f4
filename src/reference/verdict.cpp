#include "reference/verdict.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "reference/enclosure.hpp"
#include "reference/exact_activations.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace varve {
namespace {

constexpr std::size_t kExactAtATime = 64; // samples computed at a time; limits memory, because integers may become long

/// Throws InputError if a layer has a curve, whose values no finite number of bits holds.
void require_exact_values(NetworkSource const& network) {
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    Activation const activation = network.layer(number).activation;
    if (activation.curve() == Curve::none) continue;
    fail<InputError>(
        "{}: layer {} has the activation {}, which cannot be computed without rounding; verify without --exact",
        network.name(), number, entry_of(activation.kind).name);
  }
}

/// One past the last layer that revives dead samples; 0 if there is none.
std::size_t revived_until(NetworkSource const& network) {
  std::size_t until = 0;
  for (std::size_t number = 0; number < network.num_layers(); ++number)
    if (!keeps_zero(network.layer(number))) until = number + 1;
  return until;
}

/// Calls visit(layer, later_keep_zero) for each layer in order. Throws InputError if layers or samples do not fit
/// together.
template <class Visit>
void for_each_layer(NetworkSource const& network, std::size_t revived_until, std::size_t num_neurons,
                    Visit const& visit) {
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    Layer const layer = fitting_layer(network, number, num_neurons);
    num_neurons = layer.num_outputs();
    visit(distinct_layer(layer), number + 1 >= revived_until);
  }
}

/// True if the bounds decide whether each activation is 0 and are tight to 2^-40 of the largest activation.
bool are_known(Enclosure const& enclosure) {
  double largest = 0.0;
  double most = 0.0; // largest radius
  for (auto const& [centre, radius] : enclosure.activations()) {
    if (radius > 0.0 && std::abs(centre) <= radius) return false;
    largest = std::max(largest, std::abs(centre));
    most = std::max(most, radius);
  }
  return most <= std::ldexp(largest, -40);
}

/// Judges a set of samples in exact arithmetic.
class ExactJudge {
public:
  ExactJudge(NetworkSource const& network, SampleSet const& samples, bool wants_activations)
      : network_(network),
        samples_(samples),
        wants_activations_(wants_activations),
        revived_until_(revived_until(network)),
        verdicts_(samples.num_samples()),
        rows_(wants_activations ? samples.num_samples() : 0) {}

  /// Computes the bounds of all samples and marks those that need exact integers as open.
  void enclose() {
    std::vector<Enclosure> in_double;
    std::vector<Enclosure> in_float;
    for (std::size_t sample = 0; sample < samples_.num_samples(); ++sample) {
      in_double.emplace_back(samples_, sample, Precision::double_precision);
      in_float.emplace_back(samples_, sample, Precision::single_precision);
    }
    for_each_layer(network_, revived_until_, samples_.num_neurons(), [&](DistinctLayer const& layer, bool is_final) {
      for_each_on_host_threads(in_double.size(), [&](std::size_t sample) {
        in_double[sample].forward(layer, is_final);
        in_float[sample].forward(layer, is_final);
      });
      num_outputs_ = layer.num_outputs();
    });
    for (std::size_t sample = 0; sample < in_double.size(); ++sample) {
      auto const& enclosure = in_double[sample];
      verdicts_[sample] = {enclosure.is_alive(), in_float[sample].is_certain(), enclosure.is_certain(),
                           enclosure.margin()};
      if (!enclosure.is_certain() || (wants_activations_ && !are_known(enclosure))) open_.push_back(sample);
      if (!wants_activations_) continue;
      for (auto const& activation : enclosure.activations()) rows_[sample].push_back(activation.centre);
    }
  }

  /// Computes the open samples without rounding.
  void compute() {
    for (std::size_t first = 0; first < open_.size(); first += kExactAtATime) {
      std::size_t const count = std::min(kExactAtATime, open_.size() - first);
      std::vector<ExactActivations> activations;
      for (std::size_t i = 0; i < count; ++i) activations.emplace_back(samples_, open_[first + i]);
      for_each_layer(network_, revived_until_, samples_.num_neurons(), [&](DistinctLayer const& layer, bool is_final) {
        ExactLayer const exact(layer);
        for_each_on_host_threads(count, [&](std::size_t i) { activations[i].forward(exact, is_final); });
      });
      for (std::size_t i = 0; i < count; ++i) keep(open_[first + i], activations[i]);
    }
  }

  Verdicts take() {
    Verdicts verdicts{std::move(verdicts_), {}};
    if (wants_activations_) verdicts.activations = {nonzeros_of(rows_, num_outputs_), samples_.first_sample};
    return verdicts;
  }

private:
  void keep(std::size_t sample, ExactActivations const& activations) {
    Verdict& verdict = verdicts_[sample];
    bool const is_alive = !activations.is_dead();
    VARVE_REQUIRE(!verdict.is_certain_in_double || verdict.is_alive == is_alive, "the bounds contradict the integers");
    verdict.is_alive = is_alive;
    verdict.margin = activations.margin();
    if (!wants_activations_) return;
    rows_[sample].clear();
    for (std::size_t neuron = 0; neuron < activations.num_neurons(); ++neuron)
      rows_[sample].push_back(activations.value(neuron));
  }

  NetworkSource const& network_;
  SampleSet const& samples_;
  bool wants_activations_;
  std::size_t revived_until_;
  std::size_t num_outputs_ = 0;
  std::vector<Verdict> verdicts_;
  std::vector<std::vector<double>> rows_; ///< last activations, if wanted
  std::vector<std::size_t> open_;
};

/// Takes the categories of infer<double>(); where the bounds are certain, they must agree.
void judge_in_double(NetworkSource const& network, SampleSet const& samples, bool wants_activations,
                     Verdicts& verdicts) {
  auto last = infer<double>(network, samples);
  auto const alive = categories(last);
  for (std::size_t sample = 0; sample < verdicts.of_samples.size(); ++sample) {
    auto& verdict = verdicts.of_samples[sample];
    bool const is_alive = std::ranges::binary_search(alive, samples.first_sample + sample);
    VARVE_REQUIRE(!verdict.is_certain_in_double || verdict.is_alive == is_alive, "the bounds contradict the loops");
    verdict.is_alive = is_alive;
  }
  if (wants_activations) verdicts.activations = std::move(last);
}

} // namespace

Verdicts judge(NetworkSource const& network, SampleSet const& samples, Arithmetic arithmetic, bool wants_activations) {
  require_valid(samples.matrix, "samples");
  bool const is_exact = arithmetic == Arithmetic::exact;
  if (is_exact) require_exact_values(network);
  ExactJudge judge(network, samples, is_exact && wants_activations);
  judge.enclose();
  if (is_exact) judge.compute();
  auto verdicts = judge.take();
  if (!is_exact) judge_in_double(network, samples, wants_activations, verdicts);
  return verdicts;
}

} // namespace varve
