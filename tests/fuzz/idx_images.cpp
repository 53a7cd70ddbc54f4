#include "fuzz/target.hpp"

#include "io/foreign_files.hpp"
#include "network/sample_set.hpp"

#include <algorithm>

namespace varve::fuzz {

/// IDX images. Read as a whole or part by part, they are the same, and as many entries as were counted.
VARVE_FUZZ_TARGET(idx_images) {
  auto const path = file_of(bytes, "images");
  auto const reader = open_idx_images(path);
  if (reader->num_entries() > (EdgeOffset{1} << 20U) || reader->num_samples() > 4096) return;
  auto const all = to_set(reader->read(0, reader->num_samples()));
  require_valid(all.matrix, "images");
  require(all.matrix.num_entries() == reader->num_entries(), "images have other entries than were counted");
  auto const middle = reader->num_samples() / 2;
  auto const end = to_set(reader->read(middle, reader->num_samples()));
  auto const begin = to_set(reader->read(0, middle));
  require(begin.num_samples() + end.num_samples() == all.num_samples() &&
              begin.matrix.num_entries() + end.matrix.num_entries() == all.matrix.num_entries(),
          "images that are read part by part differ");
}

} // namespace varve::fuzz
