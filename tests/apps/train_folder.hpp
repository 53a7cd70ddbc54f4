#pragma once

#include "apps/shared_folder.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace varve::test {

/// A suite whose folder holds two dense networks with the same edges and other weights (d1.safetensors,
/// d2.safetensors), 300 samples (samples.safetensors), others (others.safetensors), labels (labels.txt), and samples
/// with these labels (train.safetensors).
template <class Suite>
class TrainFolder : public SharedFolder<Suite> {
public:
  using Words = std::vector<std::string>;
  using SharedFolder<Suite>::path;

  static void make_files() {
    for (std::string const seed : {"1", "2"}) {
      succeed({"generate", "random", "--widths", "16,32,24,4", "--density", "1", "--init", "he", "--seed", seed,
               "--output", path("d" + seed + ".safetensors")});
    }
    for (std::string const name : {"samples", "others"}) {
      succeed({"generate", "samples", "--neurons", "16", "--samples", "300", "--density", "0.6", "--seed",
               name == "samples" ? "1" : "5", "--output", path(name + ".safetensors")});
    }
    succeed({"infer", "--network", path("d2.safetensors"), "--input", path("samples.safetensors"), "--predictions",
             path("found.tsv")});
    std::istringstream found(varve::test::read_bytes(path("found.tsv")));
    std::string labels;
    for (std::size_t sample = 0, neuron = 0; found >> sample >> neuron;)
      labels += std::to_string(neuron - 1) + "\n"; // the file counts from 1
    varve::test::write_bytes(path("labels.txt"), labels);
    succeed({"convert", path("samples.safetensors"), path("train.safetensors"), "--labels", path("labels.txt")});
  }

protected:
  /// A command with these options, which replace those that it has.
  static Words replaced(Words all, Words const& options) {
    for (std::size_t i = 0; i + 1 < options.size(); i += 2) {
      auto const before = std::ranges::find(all, options[i]);
      if (before == all.end()) {
        all.insert(all.end(), {options[i], options[i + 1]});
      } else {
        bool const has_keys = (*(before + 1) + options[i + 1]).find('=') != std::string::npos;
        *(before + 1) = (has_keys ? *(before + 1) + "," : "") + options[i + 1];
      }
    }
    return all;
  }

  /// The command with these options, which replace defaults of these tests.
  static Words words(Words const& options) {
    return replaced({"train", "--network", path("d1.safetensors"), "--input", path("train.safetensors"), "--output",
                     path("trained.safetensors"), "--batch", "100", "--epochs", "3"},
                    options);
  }

  /// The hash of all weights that a run prints last.
  static std::string hash_of(Ended const& ended) {
    auto const place = ended.out.find("weights   ");
    EXPECT_NE(place, std::string::npos) << ended.out;
    return place == std::string::npos ? "" : ended.out.substr(place + 10, 16);
  }
  static std::string train(Words const& options) { return hash_of(succeed(words(options))); }

  static void expect_failure(Words const& options, int exit_code, std::string const& part) {
    expect_sentence(run_varve(words(options)), exit_code, {part}, part + ": ");
  }
};

} // namespace varve::test
