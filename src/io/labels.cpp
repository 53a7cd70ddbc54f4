#include "io/labels.hpp"

#include "core/error.hpp"
#include "io/hdf5.hpp"
#include "io/line_error.hpp"
#include "io/sample_file.hpp"
#include "io/text_lines.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

namespace varve {
namespace {

namespace fs = std::filesystem;

std::string shown(SampleRange const& samples) {
  return samples.first == samples.second ? "no samples"
                                         : fmt::format("the samples {}:{}", samples.first + 1, samples.second);
}

[[noreturn]] void fail_range(fs::path const& path, std::string const& found, SampleRange const& samples) {
  throw InputError(fmt::format("{}: found labels of {}, expected labels of {}", path.string(), found, shown(samples)));
}

/// Throws InputError unless a file with the labels of `found` may be read for `wanted`.
void require_fit(fs::path const& path, SampleRange const& found, SampleRange const& wanted, OtherLabels others) {
  bool const holds = found.first <= wanted.first && wanted.second <= found.second;
  if (holds && (others == OtherLabels::ignored || found == wanted)) return;
  fail_range(path, shown(found), wanted);
}

NeuronIndex parse_label(std::string_view line, fs::path const& path, std::size_t number) {
  NeuronIndex label = 0;
  auto const [next, error] = std::from_chars(line.data(), line.data() + line.size(), label);
  if (error != std::errc() || next != line.data() + line.size() || label == no_class)
    fail_at_line(path, number, quote(line), fmt::format("one class from 0 to {}", no_class - 1));
  return label;
}

/// Never keeps more labels than are wanted, however long the file is.
Labels read_text_labels(fs::path const& path, SampleRange const& wanted, OtherLabels others) {
  Labels labels{{}, wanted.first};
  SampleIndex next = 0; // number of the sample of the next label
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    auto const label = parse_label(line, path, number);
    if (next >= wanted.first && next < wanted.second) labels.classes.push_back(label);
    ++next;
    return others == OtherLabels::refused || next < wanted.second;
  });
  require_fit(path, {0, next}, wanted, others);
  return labels;
}

} // namespace

Labels open_labels(fs::path const& path, SampleRange const& samples, OtherLabels others) {
  if (!hdf5::has_signature(path)) return read_text_labels(path, samples, others);
  auto const header = read_sample_header(path);
  SampleRange const all{header.first_sample, header.first_sample + header.num_samples};
  if (header.has_labels) require_fit(path, all, samples, others);
  return read_sample_labels(path, samples);
}

} // namespace varve
