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

/// Keeps the finished batches of a rank until all are done: in memory, in a temporary file, or in a journal.
class BatchStore {
public:
  virtual ~BatchStore() = default;

  /// Stores a batch. Throws ResourceError if there is no room for it.
  virtual void add(FinishedBatch const& batch) = 0;

  /// The bytes of batch `number` (see to_bytes), counted from 0 in the order of add().
  virtual std::string read(std::size_t number) const = 0;

  /// The samples of each stored batch, in the order of add().
  std::vector<SampleRange> const& ranges() const { return ranges_; }

protected:
  std::vector<SampleRange> ranges_;
};

/// A store that keeps batches in memory.
std::unique_ptr<BatchStore> store_in_memory();

/// A store that keeps nothing, for ranks whose batches another rank stores.
std::unique_ptr<BatchStore> store_nowhere();

/// A store in a nameless temporary file in this folder, for outputs larger than memory; the file disappears with the
/// process. Throws ResourceError if it cannot be created.
std::unique_ptr<BatchStore> store_in_temporary_file(std::filesystem::path const& folder);

/// Collective. Rank 0 calls consume with the batches of all ranks in the order of their samples, one in memory at a
/// time; the other ranks send theirs. An exception from a store or from consume is rethrown on its rank after all
/// batches have been sent.
void for_each_in_order(Communicator const& communicator, BatchStore const& store,
                       std::function<void(FinishedBatch const&)> const& consume);

} // namespace varve
