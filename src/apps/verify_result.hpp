#pragma once

#include "io/sample_reader.hpp"
#include "reference/verdict.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// A file written by varve infer: categories in text, or activations in a sample file.
class ResultFile {
public:
  /// Opens a result and checks it against the input. `is_part` means that only a part of the input is verified, so that
  /// the file may hold more samples. Throws InputError if the file is broken, names samples that the input does not
  /// contain, or lacks samples to be verified.
  /// Categories count from `first_number`, 0 or 1.
  ResultFile(std::string const& path, SampleReader const& samples, std::size_t num_outputs, bool is_part,
             SampleIndex first_number);

  bool has_activations() const { return activations_ != nullptr; }

  /// The file's results for some samples: which are alive, and their activations (without rows if the file holds
  /// categories).
  struct Part {
    std::vector<bool> is_alive;
    SampleSet activations;
  };
  Part part(std::size_t first, std::size_t last);

private:
  SampleIndex first_sample_ = 0;
  std::vector<SampleIndex> categories_;
  std::unique_ptr<SampleReader> activations_;
  std::size_t skipped_ = 0; ///< number of samples in the file before the first one that is verified
};

/// A sample for which the file is wrong.
struct Difference {
  SampleIndex sample = 0;
  bool is_alive = false;       ///< true category
  bool is_found_alive = false; ///< category in the file
  double distance = 0.0;       ///< largest difference of activations, in units of the sample's largest true activation
};

/// A sample whose category could change by rounding in double.
struct NearTie {
  SampleIndex sample = 0;
  Verdict verdict;
  bool is_alive_in_float = false; ///< category from the reference's plain loops, over the whole network
  bool is_alive_in_double = false;
};

/// The outcome of verifying all samples.
class Comparison {
public:
  /// `tolerance` is the largest accepted difference of activations, in units of the sample's largest true activation.
  explicit Comparison(double tolerance) : tolerance_(tolerance) {}

  void add(Verdicts const& truth, ResultFile::Part const& found, SampleIndex first_sample);
  void add(NearTie const& tie) { near_ties.push_back(tie); }

  std::size_t num_samples = 0;
  std::size_t num_alive = 0;
  std::size_t num_certain_in_float = 0;
  std::size_t num_certain_in_double = 0;
  std::size_t num_other_nonzeros = 0; ///< number of samples whose set of nonzero activations differs
  /// Largest difference of activations, in units of the sample's largest true activation.
  double largest_distance = 0.0;
  SampleIndex farthest_sample = 0;
  /// Sample with the least margin; is_alive_in_float and is_alive_in_double are not set.
  std::optional<NearTie> least_margin;
  std::vector<Difference> differences;
  std::vector<NearTie> near_ties;

private:
  double tolerance_;
};

} // namespace varve
