#pragma once

#include "io/sample_reader.hpp"
#include "reference/verdict.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// A file that varve infer wrote: categories in text, or activations in HDF5.
class ResultFile {
public:
  /// Throws InputError if the file is broken, names samples that the input lacks, or lacks samples that are verified.
  /// `is_part`: only a part of the input is verified, so that the file may hold more samples.
  ResultFile(std::string const& path, SampleReader const& samples, std::size_t num_outputs, bool is_part);

  bool has_activations() const { return activations_ != nullptr; }

  /// What the file says about the samples [first, last), counted from the first one that is verified; parts are asked
  /// for in ascending order. `activations`: without rows if the file holds categories.
  struct Part {
    std::vector<bool> is_alive;
    SampleSet activations;
  };
  Part part(std::size_t first, std::size_t last);

private:
  SampleIndex first_sample_ = 0;
  std::vector<SampleIndex> categories_;
  std::unique_ptr<SampleReader> activations_;
  std::size_t skipped_ = 0; ///< samples of the file before the first one that is verified
};

/// A sample that the file is wrong about.
struct Difference {
  SampleIndex sample = 0;
  bool is_alive = false;       ///< in truth
  bool is_found_alive = false; ///< in the file
  double distance = 0.0;       ///< of activations, in units of the sample's largest
};

/// A sample whose category rounding in double might change.
struct NearTie {
  SampleIndex sample = 0;
  Verdict verdict;
  bool is_alive_in_float = false; ///< in the reference's loops over the whole network
  bool is_alive_in_double = false;
};

/// What verifying all samples came to.
class Comparison {
public:
  /// `tolerance`: how far activations may be off, in units of the sample's largest.
  explicit Comparison(double tolerance) : tolerance_(tolerance) {}

  void add(Verdicts const& truth, ResultFile::Part const& found, SampleIndex first_sample);
  void add(NearTie const& tie) { near_ties.push_back(tie); }

  std::size_t num_samples = 0;
  std::size_t num_alive = 0;
  std::size_t num_certain_in_float = 0;
  std::size_t num_certain_in_double = 0;
  std::size_t num_other_nonzeros = 0; ///< samples whose set of nonzero activations differs
  double largest_distance = 0.0;      ///< of activations, in units of the sample's largest
  SampleIndex farthest_sample = 0;
  std::optional<NearTie> least_margin; ///< the loops' categories are not set
  std::vector<Difference> differences;
  std::vector<NearTie> near_ties;

private:
  double tolerance_;
};

} // namespace varve
