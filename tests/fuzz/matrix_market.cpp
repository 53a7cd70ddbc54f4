#include "fuzz/target.hpp"

#include "io/matrix_file.hpp"
#include "io/open.hpp"
#include "network/sample_batch.hpp"

#include <algorithm>

namespace varve::fuzz {
namespace {

constexpr std::size_t most_entries = std::size_t{1} << 20;

} // namespace

/// A matrix of another program (NumPy, SciPy, Matrix Market, binsparse), read as samples, part by part, and as a
/// network of one layer. All readings find the same entries, but for zeros that are stored.
VARVE_FUZZ_TARGET(matrices) {
  auto const path = file_of(bytes, "matrix");
  auto const format = matrix_format(path);
  if (!format) return;
  auto const reader = open_matrix_samples(path, *format);
  if (reader->num_entries() > most_entries || reader->num_samples() > most_entries) return;
  auto const all = to_set(reader->read(0, reader->num_samples()));
  require_valid(all.matrix, "matrix");
  require(all.matrix.num_entries() == reader->num_entries(), "samples have other entries than were counted");
  auto const middle = reader->num_samples() / 2;
  auto const end = to_set(reader->read(middle, reader->num_samples()));
  auto const begin = to_set(reader->read(0, middle));
  require(begin.matrix.num_entries() + end.matrix.num_entries() == all.matrix.num_entries(),
          "samples that are read part by part differ");
  ChallengeOptions options;
  options.activation = "relu";
  auto const rows = open_network(path, options)->layer(0).weights;
  require(rows.num_rows == all.num_samples() && rows.num_entries() >= all.matrix.num_entries(),
          "weights have other entries than samples");
  options.transposes_weights = true;
  auto const columns = open_network(path, options)->layer(0).weights;
  require(columns.num_rows == rows.num_columns && columns.num_entries() == rows.num_entries(),
          "transposed weights have other entries");
}

} // namespace varve::fuzz
