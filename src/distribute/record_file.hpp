#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// A file of records that only grows: each has a length and a checksum, so that what a dying process or a full disk
/// left half written is known for it (the layout is in JOURNAL.md).
class RecordFile {
public:
  enum class Purpose {
    append,   ///< created if it is missing; what is broken at its end is cut off; records reach the disk before
              ///< append() returns
    read,     ///< as it is
    temporary ///< without a name, gone with this object
  };

  /// Opens PATH, or for a temporary file the folder it lies in, and finds its whole records. While it is open, another
  /// process that opens it to append or to read waits, at most ten seconds. Throws InputError if the file does not
  /// begin as a file of records does, or another process keeps it; ResourceError if it cannot be created or read.
  RecordFile(std::filesystem::path path, Purpose purpose);
  ~RecordFile();
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&&) = delete;
  RecordFile(RecordFile const&) = delete;
  RecordFile& operator=(RecordFile const&) = delete;

  std::filesystem::path const& path() const { return path_; }
  std::size_t num_records() const { return places_.size(); }

  /// Bytes behind the last whole record that opening found (and, to append, cut off).
  std::uint64_t num_discarded_bytes() const { return num_discarded_; }

  /// The content of a record. Throws InputError if it has changed since the file was opened.
  std::string read(std::size_t number) const;

  /// Writes a record behind the others. Throws ResourceError if the disk is full or fails.
  void append(std::string_view content);

private:
  struct Place {
    std::uint64_t first = 0; ///< byte of the content within the file
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
  std::uint64_t end_ = 0; ///< of the last whole record
  std::uint64_t num_discarded_ = 0;
};

} // namespace varve
