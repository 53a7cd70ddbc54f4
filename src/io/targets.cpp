#include "io/targets.hpp"

#include "core/error.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>

namespace varve {

std::unique_ptr<SampleReader> open_targets(std::filesystem::path const& path, std::optional<std::size_t> num_outputs,
                                           SampleRange const& samples, OtherSamples others) {
  auto const header = read_sample_header(path);
  auto const width = header.num_targets.value_or(header.num_neurons);
  if (num_outputs && *num_outputs != width) {
    throw InputError(
        fmt::format("{} holds targets of {} neurons, the network has {} outputs", path.string(), width, *num_outputs));
  }
  require_samples(path, "targets", {header.first_sample, header.first_sample + header.num_samples}, samples, others);
  return std::make_unique<SampleFileReader>(path, samples,
                                            header.num_targets ? SamplePart::targets : SamplePart::samples);
}

} // namespace varve
