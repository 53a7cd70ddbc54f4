#include "io/categories.hpp"

#include "core/error.hpp"
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

/// Calls visit(sample, line) for each sample of a file; the sample counts from 0, the line from 1.
template <class Visit>
void for_each_sample(std::filesystem::path const& path, SampleIndex first_number, Visit const& visit) {
  auto const parse = [&](std::string_view line, std::size_t number) {
    SampleIndex sample = 0;
    auto const [next, error] = std::from_chars(line.data(), line.data() + line.size(), sample);
    if (error != std::errc() || next != line.data() + line.size() || sample < first_number) {
      fail_at_line(
          path, number, quote(line),
          fmt::format("one sample number from {} to {}", first_number, std::numeric_limits<SampleIndex>::max()));
    }
    visit(sample - first_number, number);
    return true;
  };
  for_each_line(path, parse, LastBreak::required);
}

/// Reads the file again to report the line that repeats a sample.
[[noreturn]] void fail_repeated(std::filesystem::path const& path, SampleIndex first_number, SampleIndex repeated) {
  bool is_second = false;
  for_each_sample(path, first_number, [&](SampleIndex sample, std::size_t line) {
    if (sample == repeated && std::exchange(is_second, true))
      fail_at_line(path, line, fmt::format("sample {} a second time", sample + first_number), "each sample once");
  });
  fail_at_line(path, 1, "a file that changes while it is read", "one that stays as it is");
}

void sort_distinct(std::vector<SampleIndex>& samples, std::filesystem::path const& path, SampleIndex first_number) {
  if (!std::ranges::is_sorted(samples)) std::ranges::sort(samples);
  auto const repeated = std::ranges::adjacent_find(samples);
  if (repeated != samples.end()) fail_repeated(path, first_number, *repeated);
}

} // namespace

std::vector<SampleIndex> read_categories(std::filesystem::path const& path, SampleIndex first_number) {
  std::vector<SampleIndex> samples;
  // sort and check early: a long file that repeats few samples must not fill the memory
  std::size_t next_check = std::size_t{1} << 20;
  for_each_sample(path, first_number, [&](SampleIndex sample, std::size_t) {
    samples.push_back(sample);
    if (samples.size() < next_check) return;
    sort_distinct(samples, path, first_number);
    next_check *= 2;
  });
  sort_distinct(samples, path, first_number);
  return samples;
}

void write_categories(std::filesystem::path const& path, std::span<SampleIndex const> samples,
                      SampleIndex first_number) {
  fmt::memory_buffer text;
  for (auto const sample : samples) fmt::format_to(std::back_inserter(text), "{}\n", sample + first_number);
  TextWriter file(path);
  file.write({text.data(), text.size()});
  file.commit();
}

void write_predictions(std::filesystem::path const& path, std::span<SampleIndex const> samples,
                       std::span<NeuronIndex const> neurons, SampleIndex first_number) {
  VARVE_REQUIRE(samples.size() == neurons.size(), "each sample needs one predicted neuron");
  fmt::memory_buffer text;
  for (std::size_t row = 0; row < samples.size(); ++row) {
    fmt::format_to(std::back_inserter(text), "{}\t{}\n", samples[row] + first_number, neurons[row] + first_number);
  }
  TextWriter file(path);
  file.write({text.data(), text.size()});
  file.commit();
}

} // namespace varve
