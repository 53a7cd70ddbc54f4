#pragma once

#include "distribute/communicator.hpp"
#include "distribute/finished_batch.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// Where a rank keeps its finished batches until all are done: in memory, in a temporary file, or in a journal.
class BatchStore {
public:
  virtual ~BatchStore() = default;

  /// Keeps a batch. Throws ResourceError if there is no room for it.
  virtual void add(FinishedBatch const& batch) = 0;

  /// The bytes of a batch (see to_bytes).
  virtual std::string read(std::size_t number) const = 0;

  /// Samples of each batch, in the order in which they came.
  std::vector<SampleRange> const& ranges() const { return ranges_; }

protected:
  std::vector<SampleRange> ranges_;
};

std::unique_ptr<BatchStore> store_in_memory();

/// Keeps nothing: for ranks whose batches another one keeps.
std::unique_ptr<BatchStore> store_nowhere();

/// A file in this folder that nobody sees and that goes with the process, for outputs larger than memory. Throws
/// ResourceError if it cannot be created.
std::unique_ptr<BatchStore> store_in_temporary_file(std::filesystem::path const& folder);

/// Rank 0 calls consume with the batches of all ranks, in the order of their samples, one in memory at a time; the
/// others send theirs. Collective. What a store throws, or consume, is thrown on that rank once all have been through.
void for_each_in_order(Communicator const& communicator, BatchStore const& store,
                       std::function<void(FinishedBatch const&)> const& consume);

} // namespace varve
