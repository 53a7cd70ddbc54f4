#include "io/targets.hpp"

#include "core/error.hpp"
#include "io/file_kind.hpp"
#include "io/matrix_market.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>

namespace varve {
namespace {

void require_targets_width(std::filesystem::path const& path, std::size_t found,
                           std::optional<std::size_t> num_outputs) {
  if (!num_outputs || *num_outputs == found) return;
  throw InputError(
      fmt::format("{} holds targets of {} neurons, the network has {} outputs", path.string(), found, *num_outputs));
}

} // namespace

std::unique_ptr<SampleReader> open_targets(std::filesystem::path const& path, std::optional<std::size_t> num_outputs,
                                           SampleRange const& samples, OtherSamples others) {
  if (kind_of(path) == FileKind::matrix_market) {
    auto const all = open_matrix_market_samples(path);
    require_targets_width(path, all->num_neurons(), num_outputs);
    require_samples(path, "targets", {0, all->num_samples()}, samples, others);
    return open_matrix_market_samples(path, samples);
  }
  auto const header = read_sample_header(path);
  auto const width = header.num_targets.value_or(header.num_neurons);
  require_targets_width(path, width, num_outputs);
  require_samples(path, "targets", {header.first_sample, header.first_sample + header.num_samples}, samples, others);
  return std::make_unique<SampleFileReader>(path, samples,
                                            header.num_targets ? SamplePart::targets : SamplePart::samples);
}

} // namespace varve
