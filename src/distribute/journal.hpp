#pragma once

#include "distribute/batch_store.hpp"
#include "distribute/record_file.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace varve {

/// The finished batches of a run on disk, so that a killed run can continue. Rank 0 writes FILE, rank r writes FILE.r.
/// The ranks of this job also read files left by ranks with higher numbers than this job has, so that a job can
/// continue with any number of ranks; all files must be in a folder visible to all ranks. JOURNAL.md describes the
/// file.
class Journal final : public BatchStore {
public:
  /// Opens or creates this rank's file and finds the batches in it and in the left files assigned to this rank. `run`
  /// holds, by name, everything that outputs depend on. Throws InputError if a file is not a journal or belongs to
  /// another run, ResourceError if it cannot be created.
  Journal(std::filesystem::path const& path, nlohmann::ordered_json run, int rank, int num_ranks);

  /// The description of the network that earlier runs stored with begin(); null if there is none.
  nlohmann::ordered_json const& network() const { return network_; }

  /// Writes the descriptions of the run and the network at the start of a new file; does nothing if the file has them
  /// already. Call it before the first add().
  void begin(nlohmann::ordered_json const& network);

  void add(FinishedBatch const& batch) override;
  std::string read(std::size_t number) const override;

  /// Bytes after the last complete record, left by a killed process.
  std::uint64_t num_discarded_bytes() const;

private:
  struct Place {
    std::size_t file = 0;
    std::size_t record = 0;
  };

  void open_files(std::filesystem::path const& path, int rank, int num_ranks);
  void require_this_run(RecordFile const& file);
  void find_batches(std::size_t number);

  nlohmann::ordered_json run_;
  nlohmann::ordered_json network_;
  std::vector<RecordFile> files_; ///< this rank's own file first
  std::vector<Place> places_;     ///< file and record of each batch
};

} // namespace varve
