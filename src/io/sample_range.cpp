#include "io/sample_range.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

namespace varve {

std::string shown(SampleRange const& samples) {
  if (samples.first == samples.second) return "none";
  return fmt::format("the samples {}:{}", samples.first + 1, samples.second);
}

SampleRange rows_within(std::filesystem::path const& path, SampleIndex first_sample, std::uint64_t num_samples,
                        OptionalSampleRange const& range) {
  if (!range) return {0, num_samples};
  bool const is_within =
      range->first >= first_sample && range->first <= range->second && range->second - first_sample <= num_samples;
  if (is_within) return {range->first - first_sample, range->second - first_sample};
  throw UsageError(fmt::format("the samples {}:{} were asked for, but {} holds {}", range->first + 1, range->second,
                               path.string(), shown({first_sample, first_sample + num_samples})));
}

void require_samples(std::filesystem::path const& path, char const* what, SampleRange const& found,
                     SampleRange const& wanted, OtherSamples others) {
  bool const holds = found.first <= wanted.first && wanted.second <= found.second;
  if (holds && (others == OtherSamples::ignored || found == wanted)) return;
  throw InputError(
      fmt::format("{}: found {} of {}, expected {} of {}", path.string(), what, shown(found), what, shown(wanted)));
}

} // namespace varve
