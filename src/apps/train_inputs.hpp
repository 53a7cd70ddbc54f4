#pragma once

#include "apps/train_options.hpp"
#include "distribute/communicator.hpp"
#include "distribute/ranks.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstdint>
#include <string>
#include <vector>

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

/// Finds out which rank computes where, and gives the engine of each rank its exchange with the others and, if the user
/// gave no limit, its share of the memory. Returns the devices in rank order on rank 0. Throws ResourceError if two
/// ranks use one device without --share-devices. Collective.
std::vector<RankDevice> place_ranks(Communicator const& communicator, TrainOptions const& options,
                                    TrainingOptions& engine);

/// Throws InputError unless all ranks begin with the same state, read from the same files: recipe, number of steps
/// taken and weights. Collective.
void require_same_start(Communicator const& communicator, TrainOptions const& options, std::string const& recipe,
                        std::uint64_t num_steps, Network const& network);

} // namespace varve
