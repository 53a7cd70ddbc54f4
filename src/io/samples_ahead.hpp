#pragma once

#include "io/sample_reader.hpp"

#include <memory>

namespace varve {

/// A reader of the same samples, all of which another thread reads from now on, while the caller does other work; they
/// are kept in memory. `memory` is as in SampleReader::read_into, which does nothing afterwards. What reading throws,
/// the first call of read() throws. If the system grants no thread, the reader itself is returned.
std::unique_ptr<SampleReader> read_ahead(std::unique_ptr<SampleReader> reader, std::shared_ptr<SampleMemory> memory);

} // namespace varve
