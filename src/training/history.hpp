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
  /// A history that begins with these epochs, and writes it if there are any. A checkpoint of Varve 0.2 knows fewer
  /// than its num_epochs: then keeps the lines of an existing file up to that one, and num_missing() says how many it
  /// lacks. has_changes: the pattern changes, and lines tell how many edges were dropped and how many of them returned.
  /// Throws what OutputFile throws, InputError if the existing file is not such a history.
  History(std::filesystem::path path, std::vector<EpochResult> const& epochs, std::uint64_t num_epochs,
          bool has_changes = false);

  /// The number of epochs before the first one added whose lines the file lacks.
  std::uint64_t num_missing() const { return num_missing_; }

  /// Adds an epoch and writes the file, which appears whole. Throws what OutputFile throws.
  void add(EpochResult const& result);

private:
  void read(std::uint64_t num_epochs);
  void write() const;
  std::string head() const;
  std::string line_of(EpochResult const& result) const;

  std::filesystem::path path_;
  bool has_changes_;
  std::uint64_t num_missing_ = 0;
  std::vector<std::string> lines_; ///< the lines of epochs, without the header
};

} // namespace varve
