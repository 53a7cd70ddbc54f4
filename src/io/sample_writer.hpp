#pragma once

#include "network/labels.hpp"
#include "network/sample_set.hpp"

namespace varve {

/// Writes samples batch by batch into a file that appears on commit() or not at all.
class SampleWriter {
public:
  virtual ~SampleWriter() = default;

  /// Writes the next samples. They must have the file's number of neurons and be numbered directly after the samples
  /// before. Throws InputError if they are malformed, ResourceError if the disk is full or fails.
  virtual void append(SampleSet const& batch) = 0;

  /// Writes the classes, or the targets, of the next samples; the samples themselves may be appended before or after.
  /// Throws as append does, and UsageError if the format cannot store them.
  virtual void append_labels(Labels const& batch) = 0;
  virtual void append_targets(SampleSet const& batch) = 0;

  /// Makes the file appear. Throws as OutputFile::commit does.
  virtual void commit() = 0;
};

} // namespace varve
