#include "io/labels.hpp"

#include "core/error.hpp"
#include "io/idx.hpp"
#include "io/matrix_market.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace varve {
namespace {

namespace fs = std::filesystem;

NeuronIndex parse_label(std::string_view line, fs::path const& path, std::size_t number) {
  NeuronIndex label = 0;
  auto const [next, error] = std::from_chars(line.data(), line.data() + line.size(), label);
  if (error != std::errc() || next != line.data() + line.size() || label == no_class)
    fail_at_line(path, number, quote(line), fmt::format("one class from 0 to {}", no_class - 1));
  return label;
}

/// Reads labels from text. Keeps only the wanted ones in memory, however long the file is.
Labels read_text_labels(fs::path const& path, SampleRange const& wanted, OtherSamples others) {
  Labels labels{{}, wanted.first};
  SampleIndex next = 0; // number of the sample of the next label
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    auto const label = parse_label(line, path, number);
    if (next >= wanted.first && next < wanted.second) labels.classes.push_back(label);
    ++next;
    return others == OtherSamples::refused || next < wanted.second;
  });
  require_samples(path, "labels", {0, next}, wanted, others);
  return labels;
}

} // namespace

Labels open_labels(fs::path const& path, SampleRange const& samples, OtherSamples others) {
  auto const kind = kind_of(path);
  if (kind == FileKind::container) {
    auto const header = read_sample_header(path);
    SampleRange const all{header.first_sample, header.first_sample + header.num_samples};
    if (header.has_labels) require_samples(path, "labels", all, samples, others);
    return read_sample_labels(path, samples);
  }
  if (kind != FileKind::idx) return read_text_labels(path, samples, others);
  require_samples(path, "labels", {0, num_idx_labels(path)}, samples, others);
  return read_idx_labels(path, samples);
}

std::unique_ptr<SampleReader> open_targets(std::filesystem::path const& path, std::optional<std::size_t> num_outputs,
                                           SampleRange const& samples, OtherSamples others) {
  if (kind_of(path) == FileKind::matrix_market) {
    auto const all = open_matrix_market_samples(path);
    if (num_outputs) require_width(path, all->num_neurons(), *num_outputs, "outputs", "targets");
    require_samples(path, "targets", {0, all->num_samples()}, samples, others);
    return open_matrix_market_samples(path, samples);
  }
  auto const header = read_sample_header(path);
  auto const width = header.num_targets.value_or(header.num_neurons);
  if (num_outputs) require_width(path, width, *num_outputs, "outputs", "targets");
  require_samples(path, "targets", {header.first_sample, header.first_sample + header.num_samples}, samples, others);
  return open_sample_file(path, samples, header.num_targets ? SamplePart::targets : SamplePart::samples);
}

} // namespace varve
