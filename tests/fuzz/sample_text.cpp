#include "fuzz/target.hpp"

#include "core/error.hpp"
#include "io/challenge.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace varve::fuzz {
namespace {

struct Request {
  std::size_t neurons;
  OptionalSampleRange range;
};

/// What is asked of the text; the first byte of an input chooses.
constexpr std::array requests = {Request{64, std::nullopt},         Request{1, std::nullopt},
                                 Request{1024, SampleRange{0, 3}},  Request{64, SampleRange{2, 5}},
                                 Request{4294967295, std::nullopt}, Request{64, SampleRange{5, 5}}};

/// The samples read with a budget that no text fits: part by part. Nothing if the text cannot be read so.
std::optional<SampleSet> read_in_parts(std::filesystem::path const& path, Request const& request, std::size_t step) {
  try {
    auto const reader = open_challenge_samples(path, request.neurons, request.range, 0);
    SampleSet all;
    all.first_sample = reader->first_sample();
    all.matrix.num_columns = reader->num_neurons();
    for (std::size_t first = 0; first < reader->num_samples(); first += step) {
      auto const last = std::min(first + step, reader->num_samples());
      append_rows(all, to_set(reader->read(first, last)));
    }
    return all;
  } catch (InputError const&) {
    return std::nullopt;
  }
}

/// Values once if they are equal: parts of one entry each do not know it.
SparseMatrix expanded(SparseMatrix matrix) {
  if (matrix.values.size() == 1) matrix.values.assign(matrix.num_entries(), double(matrix.values[0]));
  return matrix;
}

} // namespace

/// Samples in text. Read as a whole or part by part, they are the same.
VARVE_FUZZ_TARGET(sample_text) {
  auto const choice = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.front()) % requests.size();
  auto const& request = requests[choice];
  auto const path = file_of(bytes.substr(std::min<std::size_t>(1, bytes.size())), "samples.tsv");
  auto const samples = read_challenge_samples(path, request.neurons, request.range);
  require_valid(samples.matrix, "samples");
  if (samples.num_samples() > 4096) return;
  auto const step = std::max<std::size_t>(1, samples.num_samples() / 3);
  auto const parts = read_in_parts(path, request, step);
  if (!parts || parts->num_samples() == 0) return;
  auto const whole = expanded(samples.matrix);
  require(parts->first_sample == samples.first_sample && parts->matrix.row_pointers == whole.row_pointers &&
              parts->matrix.column_indices == whole.column_indices,
          "samples that are read part by part differ");
}

} // namespace varve::fuzz
