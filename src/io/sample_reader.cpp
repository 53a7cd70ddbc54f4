#include "io/sample_reader.hpp"

#include "core/error.hpp"
#include "io/challenge.hpp"
#include "io/hdf5.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {

std::unique_ptr<SampleReader> open_sample_reader(std::filesystem::path const& path, std::size_t neurons,
                                                 OptionalSampleRange const& range, std::size_t bytes) {
  if (!hdf5::has_signature(path)) return open_challenge_samples(path, neurons, range, bytes);
  require_width(path, neurons);
  return std::make_unique<SampleFileReader>(path, range);
}

std::unique_ptr<SampleReader> open_sample_reader(std::filesystem::path const& path, std::optional<std::size_t> neurons,
                                                 std::size_t bytes) {
  if (neurons) return open_sample_reader(path, *neurons, std::nullopt, bytes);
  if (hdf5::has_signature(path)) return std::make_unique<SampleFileReader>(path);
  throw UsageError(
      fmt::format("{} is text and does not say how many neurons its samples have; add --neurons", path.string()));
}

std::size_t samples_that_fit(SampleReader const& reader, std::size_t bytes) {
  constexpr std::size_t num_parts = 3;
  auto const num_samples = std::max<std::size_t>(reader.num_samples(), 1);
  auto const needed =
      static_cast<double>(reader.num_entries() * reader.bytes_per_entry() + num_samples * sizeof(EdgeOffset));
  if (needed <= static_cast<double>(bytes)) return num_samples;
  auto const fit = static_cast<double>(bytes) / num_parts / needed * static_cast<double>(num_samples);
  return std::max<std::size_t>(1, static_cast<std::size_t>(fit));
}

} // namespace varve
