#pragma once

#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// A network and its input, as `varve benchmark` runs them.
struct BenchmarkCase {
  std::string name;
  std::string about; ///< how the data come to be
  std::function<std::shared_ptr<NetworkSource const>()> network;
  std::function<SampleSet()> samples;
  std::vector<std::size_t> sample_counts; ///< each is measured by itself: the first so many samples; empty: all
  std::vector<std::string> reductions;    ///< each is measured by itself, as --reductions takes it
};

/// The names of the suites: "quick", "challenge", "general", "trained", "train", "products".
std::vector<std::string> suite_names();

/// The inference cases of a suite, all from fixed seeds, so that every machine runs the same; none for "train" and
/// "products".
std::vector<BenchmarkCase> cases_of(std::string const& suite);

} // namespace varve
