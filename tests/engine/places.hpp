#pragma once

#include "core/backend.hpp"
#include "core/error.hpp"
#include "engine/inference.hpp"
#include "plan/names.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace varve::test {

/// Where and how exactly a test body runs: every backend of the binary that has kernels of its own, in both precisions.
struct Place {
  Backend backend = Backend::serial;
  Precision precision = Precision::single_precision;
};

inline std::vector<Place> all_places() {
  std::vector<Place> places;
  for (Backend const backend : compiled_backends()) {
    if (backend_of_kernels(backend) != backend) continue;
    places.push_back({backend, Precision::single_precision});
    places.push_back({backend, Precision::double_precision});
  }
  return places;
}

inline std::string name_of(::testing::TestParamInfo<Place> const& info) {
  return to_string(info.param.backend) + (info.param.precision == Precision::double_precision ? "_double" : "_float");
}

inline std::string name_of_precision(::testing::TestParamInfo<Precision> const& info) {
  return info.param == Precision::double_precision ? "double" : "float";
}

inline InferenceOptions options_at(Place place) {
  InferenceOptions options;
  options.backend = place.backend;
  options.precision = place.precision;
  return options;
}

/// Every combination of format, kernel and tile that can be asked for, none of which may change the answer (a kernel
/// that cannot run a layer on this backend gives way to the direct one). The first six leave formats to the plan.
inline std::vector<InferenceOptions> all_choices(Place place) {
  std::vector<InferenceOptions> choices = {options_at(place), options_at(place)};
  choices.back().reductions.saturation = choices.back().reductions.equal_samples = true; // change no bit
  for (KernelName const kernel :
       {KernelName::cones, KernelName::split_output, KernelName::dense, KernelName::small_batch}) {
    choices.push_back(options_at(place));
    choices.back().kernel = kernel;
  }
  for (auto const format : {FormatName::sliced_ell, FormatName::dense}) {
    for (std::size_t const samples : {1U, 16U}) { // tiles of one sample and of several
      choices.push_back(options_at(place));
      choices.back().kernel = KernelName::small_batch;
      choices.back().formats = {format};
      choices.back().expected_samples = samples;
    }
  }
  for (auto const format : {FormatName::csr, FormatName::sliced_ell, FormatName::staged_blocks,
                            FormatName::pattern_blocks, FormatName::dense}) {
    for (KernelName const kernel : {KernelName::direct, KernelName::stationary, KernelName::fused}) {
      auto options = options_at(place);
      options.formats = {format};
      options.kernel = kernel;
      choices.push_back(options);
    }
    choices.push_back(choices.back());
    choices.back().kernel = KernelName::direct;
    choices.back().expected_samples = 1; // host backends choose smaller tiles then
  }
  return choices;
}

/// For messages: what is forced.
inline std::string describe(InferenceOptions const& options) {
  return to_string(options.backend) + ", format " +
         (options.formats.empty() ? "any" : to_string(options.formats.front())) + ", kernel " +
         (options.kernel ? to_string(*options.kernel) : "any") + (options.expected_samples ? ", few samples" : "") +
         (options.batch ? ", batches of " + std::to_string(*options.batch) : "");
}

inline SampleSet reference_of(NetworkSource const& network, SampleSet const& samples, Precision precision) {
  return precision == Precision::double_precision ? infer<double>(network, samples) : infer<float>(network, samples);
}

/// What all batches together gave.
struct Outcome {
  Plan plan;
  BatchResult result;
  std::size_t num_batches = 0;
};

/// Prepares, plans and runs all batches, as a caller of the engine does; all outputs are asked for.
inline Outcome run_all(NetworkSource const& network, SampleSet const& samples, InferenceOptions const& options) {
  Outcome outcome;
  auto const inference = prepare(network, options);
  outcome.plan = inference->plan(shape_of(samples));
  auto& all = outcome.result;
  all.activations.matrix.num_columns = inference->num_outputs();
  all.activations.first_sample = samples.first_sample;
  std::size_t first = 0;
  do {
    std::size_t const last = std::min(first + outcome.plan.batch, samples.num_samples());
    auto const part = inference->infer(samples_of(samples, first, last), {true, true});
    all.live_samples.insert(all.live_samples.end(), part.live_samples.begin(), part.live_samples.end());
    all.predictions.insert(all.predictions.end(), part.predictions.begin(), part.predictions.end());
    all.activation_hash += part.activation_hash;
    all.live_edges += part.live_edges;
    all.num_represented += part.num_represented;
    EXPECT_EQ(part.loop_seconds.size(), options.repeat);
    EXPECT_EQ(part.activations.first_sample, samples.first_sample + first);
    EXPECT_EQ(part.activations.num_neurons(), inference->num_outputs());
    append_rows(all.activations, part.activations);
    ++outcome.num_batches;
    first = last;
  } while (first < samples.num_samples());
  return outcome;
}

} // namespace varve::test
