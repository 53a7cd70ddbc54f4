#pragma once

#include "network/sample_set.hpp"

namespace varve {

/// Writes samples batch by batch into a file that appears on commit() or not at all.
class SampleWriter {
public:
  virtual ~SampleWriter() = default;

  /// Writes the next samples. They must have the file's number of neurons and be numbered directly after the samples
  /// before. Throws InputError if they are malformed, ResourceError if the disk is full or fails.
  virtual void append(SampleSet const& batch) = 0;

  /// Makes the file appear. Throws as OutputFile::commit does.
  virtual void commit() = 0;
};

} // namespace varve
