#pragma once

#include "network/sample_set.hpp"

namespace varve {

/// Writes samples batch by batch into a file that appears with commit() or not at all.
class SampleWriter {
public:
  virtual ~SampleWriter() = default;

  /// Writes the next samples: of the file's number of neurons and, by number, right behind those before. Throws
  /// InputError if they are malformed, ResourceError if the disk is full or fails.
  virtual void append(SampleSet const& batch) = 0;

  /// Makes the file appear.
  virtual void commit() = 0;
};

} // namespace varve
