#pragma once

#include "training/trainer.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace varve {

/// The course of a training as a table of tab-separated values: a line per epoch. It holds no times, so that a training
/// that was interrupted leaves the same bytes as one that was not.
class History {
public:
  /// Keeps what the file holds of the epochs up to `num_epochs`, if there is one. Throws InputError if it is no
  /// history.
  History(std::filesystem::path path, std::uint64_t num_epochs);

  /// Adds an epoch and writes the whole file, which appears at once. Throws as OutputFile does.
  void add(EpochResult const& result);

private:
  std::filesystem::path path_;
  std::vector<std::string> lines_; ///< after the head
};

} // namespace varve
