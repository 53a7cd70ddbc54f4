#include "apps/verify_result.hpp"

#include "core/error.hpp"
#include "io/categories.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace varve {
namespace {

/// A range of samples in the numbering of text files, which starts at 1.
std::string range_text(SampleIndex first, SampleIndex count) { return fmt::format("{}:{}", first + 1, first + count); }

/// The difference between two rows of activations.
struct RowDistance {
  /// Largest difference divided by the largest true activation; infinity if all true activations are 0.
  double largest = 0.0;
  bool other_nonzeros = false;
};

RowDistance distance_of(SparseMatrix const& truth, SparseMatrix const& found, std::size_t row) {
  std::vector<double> values(truth.num_columns);
  RowDistance distance;
  double largest = 0.0;
  for (EdgeOffset entry = truth.row_pointers[row]; entry < truth.row_pointers[row + 1]; ++entry) {
    values[truth.column_indices[entry]] = truth.value(entry);
    largest = std::max(largest, std::abs(truth.value(entry)));
  }
  std::vector<double> others(truth.num_columns);
  for (EdgeOffset entry = found.row_pointers[row]; entry < found.row_pointers[row + 1]; ++entry)
    others[found.column_indices[entry]] = found.value(entry);
  for (std::size_t neuron = 0; neuron < values.size(); ++neuron) {
    distance.other_nonzeros |= (values[neuron] == 0.0) != (others[neuron] == 0.0);
    if (values[neuron] != others[neuron])
      distance.largest = std::max(distance.largest, std::abs(values[neuron] - others[neuron]) / largest);
  }
  return distance;
}

} // namespace

ResultFile::ResultFile(std::string const& path, SampleReader const& samples, std::size_t num_outputs, bool is_part,
                       SampleIndex first_number)
    : first_sample_(samples.first_sample()) {
  SampleIndex const count = samples.num_samples();
  if (kind_of(path) != FileKind::container) {
    categories_ = read_categories(path, first_number);
    auto const is_outside = [&](SampleIndex sample) {
      return sample < first_sample_ || sample >= first_sample_ + count;
    };
    auto const outside = std::ranges::find_if(categories_, is_outside);
    if (outside != categories_.end() && !is_part) {
      throw InputError(fmt::format("{} names sample {}, but the input holds samples {}; verify a part with --samples "
                                   "FIRST:LAST",
                                   path, *outside + 1, range_text(first_sample_, count)));
    }
    return;
  }
  require_width(path, read_sample_header(path).num_neurons, num_outputs, "outputs");
  auto reader = std::make_unique<SampleFileReader>(path);
  SampleIndex const first = reader->first_sample();
  SampleIndex const held = reader->num_samples();
  bool const holds_all = first <= first_sample_ && first + held >= first_sample_ + count;
  if (!holds_all || (!is_part && held != count)) {
    throw InputError(fmt::format("{} holds samples {}, expected {}", path, range_text(first, held),
                                 range_text(first_sample_, count)));
  }
  skipped_ = static_cast<std::size_t>(first_sample_ - first);
  activations_ = std::move(reader);
}

ResultFile::Part ResultFile::part(std::size_t first, std::size_t last) {
  Part part;
  part.is_alive.assign(last - first, false);
  if (!has_activations()) {
    auto const begin = std::ranges::lower_bound(categories_, first_sample_ + first);
    for (auto sample = begin; sample != categories_.end() && *sample < first_sample_ + last; ++sample)
      part.is_alive[static_cast<std::size_t>(*sample - first_sample_ - first)] = true;
    return part;
  }
  part.activations = to_set(activations_->read(skipped_ + first, skipped_ + last));
  auto const& matrix = part.activations.matrix;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
      if (matrix.value(entry) != 0.0) part.is_alive[row] = true;
  }
  return part;
}

void Comparison::add(Verdicts const& truth, ResultFile::Part const& found, SampleIndex first_sample) {
  bool const has_activations = found.activations.num_samples() > 0;
  for (std::size_t row = 0; row < truth.of_samples.size(); ++row) {
    Verdict const& verdict = truth.of_samples[row];
    SampleIndex const sample = first_sample + row;
    ++num_samples;
    num_alive += verdict.is_alive ? 1 : 0;
    num_certain_in_float += verdict.is_certain_in_float ? 1 : 0;
    num_certain_in_double += verdict.is_certain_in_double ? 1 : 0;
    if (!least_margin || verdict.margin < least_margin->verdict.margin) least_margin = {sample, verdict, false, false};
    RowDistance distance;
    if (has_activations) distance = distance_of(truth.activations.matrix, found.activations.matrix, row);
    num_other_nonzeros += distance.other_nonzeros ? 1 : 0;
    if (distance.largest > largest_distance) {
      largest_distance = distance.largest;
      farthest_sample = sample;
    }
    if (verdict.is_alive != found.is_alive[row] || distance.largest > tolerance_)
      differences.push_back({sample, verdict.is_alive, found.is_alive[row], distance.largest});
  }
}

} // namespace varve
