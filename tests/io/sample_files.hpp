#pragma once

#include "io/open.hpp"
#include "io/sample_file.hpp"

/// Whole sample files at once.
namespace varve {

inline SampleSet read_sample_file(std::filesystem::path const& path, OptionalSampleRange const& range = std::nullopt) {
  auto const reader = open_sample_file(path, range);
  return to_set(reader->read(0, reader->num_samples()));
}

inline void write_sample_file(std::filesystem::path const& path, SampleSet const& samples) {
  save_samples(samples, path);
}

} // namespace varve
