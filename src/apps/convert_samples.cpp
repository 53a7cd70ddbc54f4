#include "apps/convert_samples.hpp"

#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "io/idx.hpp"
#include "io/labels.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace varve {
namespace {

/// The labels and targets of the samples of a file.
struct AddedAnswers {
  std::optional<Labels> labels;
  std::unique_ptr<SampleReader> targets;
};

std::unique_ptr<SampleReader> open_source(SampleConversion const& conversion) {
  auto const half_of_memory = available_memory(Backend::serial) / 2; // unsorted text must be sorted in memory
  if (!conversion.pixels) return open_sample_reader(conversion.source, conversion.neurons, half_of_memory);
  if (kind_of(conversion.source) != FileKind::idx)
    throw UsageError(fmt::format("--pixels is for IDX images, but {} is not an IDX file", conversion.source));
  auto const scale = *conversion.pixels == "raw" ? PixelScale::raw : PixelScale::unit;
  auto images = open_idx_images(conversion.source, std::nullopt, scale);
  if (conversion.neurons) require_width(conversion.source, images->num_neurons(), *conversion.neurons);
  return images;
}

AddedAnswers open_answers(SampleConversion const& conversion, SampleReader const& samples) {
  AddedAnswers answers;
  if (conversion.drops_answers) return answers;
  SampleRange const range{samples.first_sample(), samples.first_sample() + samples.num_samples()};
  SampleFileHeader header;
  if (kind_of(conversion.source) == FileKind::container) header = read_sample_header(conversion.source);
  auto const& labels = conversion.labels.empty() && header.has_labels ? conversion.source : conversion.labels;
  auto const& targets = conversion.targets.empty() && header.num_targets ? conversion.source : conversion.targets;
  if (!labels.empty()) answers.labels = open_labels(labels, range, OtherSamples::refused);
  if (!targets.empty()) answers.targets = open_targets(targets, std::nullopt, range, OtherSamples::refused);
  return answers;
}

} // namespace

void convert_samples(SampleConversion const& conversion) {
  constexpr std::size_t most_samples = 16384;
  constexpr std::size_t value_bytes = 64; // of a value with its column, read, copied and written
  auto const most_values = std::min(std::size_t{1} << 26U, available_memory(Backend::serial) / 2 / value_bytes);
  auto const reader = open_source(conversion);
  auto const answers = open_answers(conversion, *reader);
  auto const writer = open_sample_writer(conversion.target, reader->num_neurons());
  if (answers.labels) writer->append_labels(*answers.labels);
  auto const progress = terminal_progress("converting samples");
  auto const num_samples = reader->num_samples();
  auto const at_a_time =
      std::clamp<std::size_t>(most_values / std::max<std::size_t>(reader->num_neurons(), 1), 1, most_samples);
  std::size_t done = 0;
  do {
    auto const last = std::min(done + at_a_time, num_samples);
    if (answers.targets) writer->append_targets(to_set(answers.targets->read(done, last)));
    writer->append(to_set(reader->read(done, last)));
    done = last;
    if (progress) progress(done, num_samples);
  } while (done < num_samples);
  writer->commit();
}

} // namespace varve
