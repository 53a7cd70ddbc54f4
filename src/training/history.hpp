#pragma once

#include "training/trainer.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace varve {

/// The course of a training as a table of tab-separated values, one line per epoch. It contains no times, so an
/// interrupted and resumed training leaves the same bytes as an uninterrupted one.
class History {
public:
  /// Keeps the lines of an existing file up to epoch `num_epochs`. Throws InputError if the file is not a history.
  History(std::filesystem::path path, std::uint64_t num_epochs);

  /// Adds an epoch and writes the file, which appears whole. Throws what OutputFile throws.
  void add(EpochResult const& result);

private:
  std::filesystem::path path_;
  std::vector<std::string> lines_; ///< the lines of epochs, without the header
};

} // namespace varve
