#pragma once

#include "distribute/communicator.hpp"
#include "distribute/record_file.hpp"
#include "products/product_tiles.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// The finished tiles of a rank on disk, until all are done: in a temporary file, or in a journal, so that a killed
/// product can continue. JOURNAL.md describes the journal's files, which are those of `varve infer` but for the content
/// of the records: the number of a task in 8 bytes, and the numbers of its tile row by row.
class TileStore {
public:
  /// In a nameless temporary file in this folder. Throws ResourceError if it cannot be created.
  TileStore(std::filesystem::path const& folder, ProductTiles const& tiles, std::size_t element_size);

  /// Opens or creates this rank's file of a journal and finds the tiles in it and in the left files of other jobs that
  /// are this rank's to read (see Journal). `run` holds, by name, everything that the result depends on. Throws
  /// InputError if a file is not a journal of this product, ResourceError if it cannot be created.
  TileStore(std::filesystem::path const& journal, nlohmann::ordered_json const& run, ProductTiles const& tiles,
            std::size_t element_size, int rank, int num_ranks);

  /// The tasks whose tiles are stored, in the order of add().
  std::vector<std::uint64_t> const& tasks() const { return tasks_; }

  /// Stores a tile; in a journal it is on the disk then. Throws ResourceError if there is no room, InputError if an
  /// input has changed since it was opened.
  void add(std::uint64_t task, std::string_view numbers);

  /// The record of tile `number`: its task and numbers.
  std::string read(std::size_t number) const;

  /// Bytes after the last complete record of a journal, left by a killed process.
  std::uint64_t num_discarded_bytes() const;

private:
  struct Place {
    std::size_t file = 0;
    std::size_t record = 0;
  };

  void find_tiles(std::size_t number, nlohmann::ordered_json const& run);

  ProductTiles tiles_;
  std::size_t element_size_;
  std::vector<RecordFile> files_; ///< this rank's own file first
  std::vector<Place> places_;
  std::vector<std::uint64_t> tasks_;
};

/// The rows of a tile in a journal of which this rank has a file, or is to read one; nullopt if there is none, or if it
/// does not say. Throws InputError if a file is no journal.
std::optional<std::uint64_t> tile_of_journal(std::filesystem::path const& journal, int rank, int num_ranks);

/// The tiles of `order` of which no rank has finished a part, and of the others the quarters that are not finished.
/// Collective. Throws InputError if a tile is stored twice, or beside a quarter of it.
std::vector<std::uint64_t> tasks_left(Communicator const& communicator, ProductTiles const& tiles,
                                      std::vector<std::uint64_t> const& order,
                                      std::vector<std::uint64_t> const& finished);

/// Calls consume with the tiles of this store, one in memory at a time.
void for_each_own_tile(TileStore const& store,
                       std::function<void(std::uint64_t task, std::string_view numbers)> const& consume);

/// Collective. Rank 0 calls consume with the tiles of all ranks in the order of their tasks, one in memory at a time.
void for_each_tile(Communicator const& communicator, TileStore const& store,
                   std::function<void(std::uint64_t task, std::string_view numbers)> const& consume);

} // namespace varve
