#include "fuzz/target.hpp"

#include "core/error.hpp"
#include "io/sample_files.hpp"

#include <algorithm>

namespace varve::fuzz {

/// Samples with labels and targets where there are any. Read as a whole or part by part, they are the same.
VARVE_FUZZ_TARGET(sample_file) {
  auto const path = file_of(bytes, "samples.safetensors");
  auto const all = read_sample_file(path);
  require_valid(all.matrix, "samples");
  if (all.num_samples() > 4096) return;
  auto const reader = open_sample_file(path);
  auto const middle = reader->num_samples() / 2;
  auto const begin = to_set(reader->read(0, middle));
  auto const end = to_set(reader->read(middle, reader->num_samples()));
  require(begin == samples_of(all, 0, middle) && end == samples_of(all, middle, all.num_samples()),
          "samples that are read part by part differ");
  auto const header = read_sample_header(path);
  if (header.has_labels) require(read_sample_labels(path).num_samples() == all.num_samples(), "some labels lack");
  if (!header.num_targets) return;
  auto const targets = open_sample_file(path, std::nullopt, SamplePart::targets);
  require(targets->read(0, all.num_samples()).num_neurons() == *header.num_targets, "targets have another width");
}

} // namespace varve::fuzz
