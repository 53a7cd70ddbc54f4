#include "io/categories.hpp"

#include "core/error.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

namespace varve {
namespace {

/// The number in a line, from `least` to `most`. Throws InputError, naming `what` is expected, if it holds another
/// text.
template <class Number>
Number number_in(std::string_view line, Number least, Number most, char const* what, std::filesystem::path const& path,
                 std::size_t place) {
  Number number = 0;
  auto const [next, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || next != line.data() + line.size() || number < least || number > most)
    fail_at_line(path, place, quote(line), fmt::format("one {} from {} to {}", what, least, most));
  return number;
}

/// Calls visit(sample, line) for each sample of a file; the sample counts from 0, the line from 1.
template <class Visit>
void for_each_sample(std::filesystem::path const& path, Visit const& visit) {
  constexpr auto largest = std::numeric_limits<SampleIndex>::max();
  auto const parse = [&](std::string_view line, std::size_t number) {
    visit(number_in<SampleIndex>(line, 1, largest, "sample number", path, number) - 1, number);
    return true;
  };
  for_each_line(path, parse, LastBreak::required);
}

/// Reads the file again to report the line that repeats a sample.
[[noreturn]] void fail_repeated(std::filesystem::path const& path, SampleIndex repeated) {
  bool is_second = false;
  for_each_sample(path, [&](SampleIndex sample, std::size_t line) {
    if (sample == repeated && std::exchange(is_second, true))
      fail_at_line(path, line, fmt::format("sample {} a second time", sample + 1), "each sample once");
  });
  fail_at_line(path, 1, "a file that changes while it is read", "one that stays as it is");
}

void sort_distinct(std::vector<SampleIndex>& samples, std::filesystem::path const& path) {
  if (!std::ranges::is_sorted(samples)) std::ranges::sort(samples);
  auto const repeated = std::ranges::adjacent_find(samples);
  if (repeated != samples.end()) fail_repeated(path, *repeated);
}

} // namespace

std::vector<SampleIndex> read_categories(std::filesystem::path const& path) {
  std::vector<SampleIndex> samples;
  // sort and check early: a long file that repeats few samples must not fill the memory
  std::size_t next_check = std::size_t{1} << 20;
  for_each_sample(path, [&](SampleIndex sample, std::size_t) {
    samples.push_back(sample);
    if (samples.size() < next_check) return;
    sort_distinct(samples, path);
    next_check *= 2;
  });
  sort_distinct(samples, path);
  return samples;
}

Labels read_text_labels(std::filesystem::path const& path, SampleRange const& wanted, OtherSamples others) {
  Labels labels{{}, wanted.first};
  SampleIndex next = 0; // number of the sample of the next label
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    auto const label = number_in<NeuronIndex>(line, 0, no_class - 1, "class", path, number);
    if (next >= wanted.first && next < wanted.second) labels.classes.push_back(label);
    ++next;
    return others == OtherSamples::refused || next < wanted.second;
  });
  require_samples(path, "labels", {0, next}, wanted, others);
  return labels;
}

void write_categories(std::filesystem::path const& path, std::span<SampleIndex const> samples) {
  TextWriter file(path);
  for (auto const sample : samples) file.print("{}\n", sample + 1);
  file.commit();
}

void write_predictions(std::filesystem::path const& path, std::span<SampleIndex const> samples,
                       std::span<NeuronIndex const> neurons) {
  VARVE_REQUIRE(samples.size() == neurons.size(), "each sample needs one predicted neuron");
  TextWriter file(path);
  for (std::size_t row = 0; row < samples.size(); ++row)
    file.print("{}\t{}\n", samples[row] + 1, SampleIndex{neurons[row]} + 1);
  file.commit();
}

} // namespace varve
