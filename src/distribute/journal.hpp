#pragma once

#include "distribute/batch_store.hpp"
#include "distribute/record_file.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace varve {

/// The finished batches of a run, on disk, so that a run that was killed goes on where it was. Rank 0 writes FILE, rank
/// r FILE.r. Each rank also reads the files that ranks beyond those of this job have left, so that a job may go on with
/// any number of ranks; all of them must lie in a folder that all ranks see. JOURNAL.md describes the file.
class Journal final : public BatchStore {
public:
  /// Opens, or creates, this rank's file, and finds what it and the left files hold. `run` holds, by name, all that
  /// outputs depend on. Throws InputError if a file is no journal or the journal of another run, ResourceError if it
  /// cannot be created.
  Journal(std::filesystem::path const& path, nlohmann::ordered_json run, int rank, int num_ranks);

  /// What the runs before found out about the network (see begin); null if there were none.
  nlohmann::ordered_json const& network() const { return network_; }

  /// Call before the first add(): a new file begins with what the run is, and what its network was found to be.
  void begin(nlohmann::ordered_json const& network);

  void add(FinishedBatch const& batch) override;
  std::string read(std::size_t number) const override;

  /// Bytes behind the last whole record, which a killed process left.
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
  std::vector<RecordFile> files_; ///< this rank's own first
  std::vector<Place> places_;     ///< of each batch
};

} // namespace varve
