#pragma once

#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <string>

namespace varve {

/// The files of samples and their answers as options name them; an empty name of answers means the file of the samples.
struct AnswerFiles {
  std::string samples, labels, targets;
};

/// Samples with their answers, and the files that hold them: either `labels` or `targets` has a name.
struct AnsweredSamples {
  SampleSet samples;
  Answers answers;
  AnswerFiles files;
};

/// Reads samples and their answers: targets, if a file of them is named or if the loss is mean-square and the file of
/// the samples has some; else labels. Throws InputError if a file is broken, lacks answers, or holds no samples;
/// UsageError if labels and targets are named.
AnsweredSamples read_answered_samples(AnswerFiles const& files, Network const& network, Loss loss);

} // namespace varve
