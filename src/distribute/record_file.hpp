#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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
  ~RecordFile();
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&&) = delete;
  RecordFile(RecordFile const&) = delete;
  RecordFile& operator=(RecordFile const&) = delete;

  std::filesystem::path const& path() const { return path_; }
  std::size_t num_records() const { return places_.size(); }

  /// Bytes after the last complete record that were found on opening (and cut off by Purpose::append).
  std::uint64_t num_discarded_bytes() const { return num_discarded_; }

  /// The content of a record. Throws InputError if it has changed since the file was opened.
  std::string read(std::size_t number) const;

  /// Appends a record. Throws ResourceError if the disk is full or fails.
  void append(std::string_view content);

private:
  struct Place {
    std::uint64_t first = 0; ///< offset of the content in the file, in bytes
    std::uint64_t length = 0;
  };

  void open_file(Purpose purpose);
  void keep_others_out() const;
  void find_records();
  void write_at_end(std::string_view bytes);
  [[noreturn]] void fail(char const* what, int error) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool is_temporary_ = false;
  bool is_durable_ = false;
  std::vector<Place> places_;
  std::uint64_t end_ = 0; ///< end of the last complete record, in bytes
  std::uint64_t num_discarded_ = 0;
};

} // namespace varve
