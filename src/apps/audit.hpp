#pragma once

#include "apps/infer_options.hpp"
#include "training/training_receipt.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The options of `varve audit` as given by the user.
struct AuditOptions {
  InferOptions files; ///< only network, input, challenge, backend and engine are used
  std::string receipt, against, output;
  std::string labels, targets, checkpoints, step; ///< of a training; step: "random" or a number from 1 on
  std::size_t num_samples = 10;
  std::optional<std::uint64_t> seed, prove;
};

/// Prints a line for each sentence about a file; true if there is none.
bool print_differences(std::string const& file, std::vector<std::string> const& sentences);

/// The same for one sentence, which is no difference if it is empty.
bool print_difference(std::string const& file, std::string const& sentence);

/// Throws InputError unless this program computes by the numerics of a receipt.
void require_own_numerics(std::string const& receipt, int numerics);

/// Audits a training: computes some of its steps again. Returns the exit code.
int audit_training(AuditOptions const& options, TrainingReceipt const& receipt);

} // namespace varve
