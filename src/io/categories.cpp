#include "io/categories.hpp"

#include "core/error.hpp"
#include "io/line_error.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

namespace varve {
namespace {

/// A sample and the line that names it.
using NumberedSample = std::pair<SampleIndex, std::size_t>;

std::string_view without_blanks(std::string_view line) {
  auto const begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

void read_block(TextBlock const& block, std::filesystem::path const& path, std::vector<NumberedSample>& samples) {
  std::string_view rest = block.text;
  for (std::size_t number = block.first_line; !rest.empty(); ++number) {
    auto const length = std::min(rest.find('\n'), rest.size());
    auto const line = without_blanks(rest.substr(0, length));
    rest.remove_prefix(std::min(length + 1, rest.size()));
    if (line.empty() || line.front() == '%' || line.front() == '#') continue;
    SampleIndex sample = 0;
    auto const [next, error] = std::from_chars(line.data(), line.data() + line.size(), sample);
    if (error != std::errc() || next != line.data() + line.size() || sample < 1) {
      fail_at_line(path, number, quote(line),
                   fmt::format("one sample number from 1 to {}", std::numeric_limits<SampleIndex>::max()));
    }
    samples.emplace_back(sample - 1, number);
  }
}

} // namespace

std::vector<SampleIndex> read_categories(std::filesystem::path const& path) {
  TextReader reader(path);
  TextBlock block;
  std::vector<NumberedSample> samples;
  while (reader.next(block)) read_block(block, path, samples);
  std::ranges::sort(samples);
  auto const repeated = std::ranges::adjacent_find(samples, {}, &NumberedSample::first);
  if (repeated != samples.end()) {
    auto const& [sample, line] = *std::next(repeated);
    fail_at_line(path, line, fmt::format("sample {} a second time", sample + 1), "each sample once");
  }
  std::vector<SampleIndex> result;
  result.reserve(samples.size());
  for (auto const& [sample, line] : samples) result.push_back(sample);
  return result;
}

void write_categories(std::filesystem::path const& path, std::span<SampleIndex const> samples) {
  fmt::memory_buffer text;
  for (auto const sample : samples) fmt::format_to(std::back_inserter(text), "{}\n", sample + 1);
  TextWriter file(path);
  file.write({text.data(), text.size()});
  file.commit();
}

void write_predictions(std::filesystem::path const& path, std::span<SampleIndex const> samples,
                       std::span<NeuronIndex const> neurons) {
  VARVE_REQUIRE(samples.size() == neurons.size(), "each sample needs one predicted neuron");
  fmt::memory_buffer text;
  for (std::size_t row = 0; row < samples.size(); ++row) {
    fmt::format_to(std::back_inserter(text), "{}\t{}\n", samples[row] + 1, std::uint64_t{neurons[row]} + 1);
  }
  TextWriter file(path);
  file.write({text.data(), text.size()});
  file.commit();
}

} // namespace varve
