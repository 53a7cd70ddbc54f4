#include "apps/train_samples.hpp"

#include "core/error.hpp"
#include "io/labels.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"

#include <utility>

namespace varve {

AnsweredSamples read_answered_samples(AnswerFiles const& files, Network const& network, Loss loss) {
  AnsweredSamples read;
  read.samples = open_samples(files.samples, network.num_inputs());
  if (read.samples.num_samples() == 0) throw InputError(files.samples + " holds no samples");
  read.files.samples = files.samples;
  SampleRange const range{read.samples.first_sample, read.samples.first_sample + read.samples.num_samples()};
  bool const has_targets = loss == Loss::mean_square && files.labels.empty() &&
                           kind_of(files.samples) == FileKind::container &&
                           read_sample_header(files.samples).num_targets.has_value();
  if (!files.targets.empty() || has_targets) {
    if (!files.labels.empty()) throw UsageError("samples have labels or targets, not both");
    read.files.targets = files.targets.empty() ? files.samples : files.targets;
    auto const reader = open_targets(read.files.targets, network.num_outputs(), range, OtherSamples::refused);
    read.answers.values = to_set(reader->read(0, reader->num_samples())).matrix;
    return read;
  }
  read.files.labels = files.labels.empty() ? files.samples : files.labels;
  auto labels = open_labels(read.files.labels, range, OtherSamples::refused);
  require_classes(labels, network.num_outputs(), read.files.labels);
  read.answers.labels = std::move(labels.classes);
  return read;
}

} // namespace varve
