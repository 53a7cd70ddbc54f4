#include "fuzz/target.hpp"

#include "io/foreign_files.hpp"
#include "network/sample_set.hpp"

namespace varve::fuzz {
namespace {

constexpr std::size_t max_entries = std::size_t{1} << 20;

} // namespace

/// A Matrix Market file, read as a matrix, as samples, and as samples part by part. All readings find the same entries,
/// but for zeros that are stored.
VARVE_FUZZ_TARGET(matrix_market) {
  auto const path = file_of(bytes, "matrix");
  if (!is_matrix_market(path)) return;
  auto const reader = open_matrix_market_samples(path);
  if (reader->num_entries() > max_entries || reader->num_samples() > max_entries) return;
  auto const all = to_set(reader->read(0, reader->num_samples()));
  require_valid(all.matrix, "matrix");
  require(all.matrix.num_entries() == reader->num_entries(), "samples have other entries than were counted");
  auto const middle = reader->num_samples() / 2;
  auto const end = to_set(open_matrix_market_samples(path, SampleRange{middle, reader->num_samples()})
                              ->read(0, reader->num_samples() - middle));
  auto const begin = to_set(reader->read(0, middle));
  require(begin.matrix.num_entries() + end.matrix.num_entries() == all.matrix.num_entries(),
          "samples that are read part by part differ");
  auto const rows = read_matrix_market(path);
  require(rows.num_rows == all.num_samples() && rows.num_columns == all.num_neurons() &&
              rows.num_entries() >= all.matrix.num_entries(),
          "the matrix has other entries than its samples");
}

} // namespace varve::fuzz
