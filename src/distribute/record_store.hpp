#pragma once

#include "distribute/communicator.hpp"
#include "io/sample_reader.hpp"
#include "io/whole_bytes.hpp"

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

/// An append-only file of records. Each record has a length and a checksum, so that a record half written by a dying
/// process or on a full disk is recognized (JOURNAL.md describes the layout).
class RecordFile {
public:
  enum class Purpose {
    append,   ///< creates a missing file; cuts off a broken end; append() returns once the record is on the disk
    read,     ///< opens an existing file and does not change it
    temporary ///< creates a nameless file that disappears with this object
  };

  /// Opens PATH, or for a temporary file the folder PATH, and finds the complete records. A process that opens a file
  /// in use by another process waits up to ten seconds. Throws InputError if the file does not begin like a file of
  /// records, or stays in use; ResourceError if it cannot be created or read.
  RecordFile(std::filesystem::path path, Purpose purpose);

  std::filesystem::path const& path() const { return path_; }
  std::size_t num_records() const { return offsets_.size(); }

  /// Bytes after the last complete record that were found on opening (and cut off by Purpose::append).
  std::uint64_t num_discarded_bytes() const { return num_discarded_; }

  /// The content of a record. Throws InputError if it has changed since the file was opened.
  std::string read(std::size_t number) const;

  /// Appends a record. Throws ResourceError if the disk is full or fails.
  void append(std::string_view content);

private:
  void open_file(Purpose purpose);
  void keep_others_out() const;
  void find_records();
  std::optional<std::string> record_at(std::uint64_t offset, std::uint64_t end) const;
  void write_at_end(std::string_view bytes);
  [[noreturn]] void fail(char const* what, int error) const;

  std::filesystem::path path_;
  Descriptor file_{-1};
  bool is_temporary_ = false;
  bool is_durable_ = false;
  std::vector<std::uint64_t> offsets_; ///< of the records in the file, in bytes
  std::uint64_t end_ = 0;              ///< end of the last complete record, in bytes
  std::uint64_t num_discarded_ = 0;
};

/// Keeps what a rank has finished until all ranks are done: in memory, in a temporary file, or in a journal, so that a
/// killed run can continue. A record holds the results of a range of samples, or of a task of a product (a range of
/// one). JOURNAL.md describes the files of a journal.
class RecordStore {
public:
  /// The range of a record. Throws InputError, naming `place`, if the record is none of this run.
  using RangeOf = std::function<SampleRange(std::string_view record, std::string const& place)>;

  /// Keeps records in memory.
  RecordStore() = default;

  /// Keeps records in a nameless temporary file in this folder (of the process if the name is empty), for outputs
  /// larger than memory. Throws ResourceError if it cannot be created.
  explicit RecordStore(std::filesystem::path const& folder);

  /// Opens or creates this rank's file of a journal: rank 0 writes FILE, rank r writes FILE.r. Opens, too, the files
  /// left by ranks with higher numbers than this job has that are this rank's to read, so that a job can continue with
  /// any number of ranks. Throws InputError if a file is not a journal, ResourceError if it cannot be created.
  RecordStore(std::filesystem::path const& journal, int rank, int num_ranks);

  /// The description of a journal's run as its first file gives it; null if there is none.
  nlohmann::ordered_json found_run() const;

  /// Takes the records of a journal that was opened. `run` holds, by name, everything that outputs depend on. Throws
  /// InputError if a file belongs to another run or range_of() throws.
  void resume(nlohmann::ordered_json const& run, RangeOf const& range_of);

  /// The description of the network that earlier runs stored with begin(); null if there is none.
  nlohmann::ordered_json network() const;

  /// Writes the descriptions of the run and, unless null, of the network at the start of a new file; does nothing if
  /// the file has them already. Call it between resume() and the first add().
  void begin(nlohmann::ordered_json const& network = nullptr);

  /// Stores a record; in a journal it is on the disk then. Throws ResourceError if there is no room, InputError if a
  /// journal's input has changed since it was opened.
  void add(SampleRange range, std::string record);

  /// Record `number`, counted from 0 in the order of ranges().
  std::string read(std::size_t number) const;

  /// The range of each record: those that were found, then those of add().
  std::vector<SampleRange> const& ranges() const { return ranges_; }

  /// Bytes after the last complete record of a journal's files, left by a killed process.
  std::uint64_t num_discarded_bytes() const;

private:
  struct Place {
    std::size_t file = 0;
    std::size_t record = 0;
  };

  std::vector<nlohmann::ordered_json> heads_; ///< of the files, null for a new one; empty unless this is a journal
  nlohmann::ordered_json run_;
  std::vector<RecordFile> files_; ///< this rank's own file first; none for records in memory
  std::vector<std::string> in_memory_;
  std::vector<Place> places_; ///< of each record in the files
  std::vector<SampleRange> ranges_;
};

/// Collective. Rank 0 calls consume with the records of all ranks in the order of their ranges, one in memory at a
/// time; the other ranks send theirs. An exception from a store or from consume is rethrown on its rank after all
/// records have been sent.
void for_each_in_order(Communicator const& communicator, RecordStore const& store,
                       std::function<void(std::string const& record)> const& consume);

} // namespace varve
