#pragma once

#include "io/hdf5.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

/// Checks of how the numbers of an HDF5 file are stored. HDF5 trusts what a file says of that: reading a dataset that
/// fails one of these checks can overwrite memory, take gigabytes, or read another file.
namespace varve::hdf5 {

inline bool is_number(H5T_class_t type) { return type == H5T_INTEGER || type == H5T_FLOAT; }

/// Throws InputError "PLACE: ..." unless a type of numbers is one that computers use: integers of 1 to 8 bytes, IEEE
/// numbers of 2, 4 or 8 bytes in either byte order, or this machine's long double.
void require_standard(Datatype const& type, std::string const& place);

/// Throws InputError if a dataset takes its data from other files: they may change while this file does not.
/// what: the dataset in the message.
void require_own_storage(Properties const& properties, std::string const& what, std::string const& place);

/// Throws InputError "PLACE: ..." if a dataset lies within its header (compact storage), and the header holds another
/// number of bytes than the dataset has; or if it lies in one piece that goes beyond the end that the file states: HDF5
/// 1.10 reads such a dataset as a whole without an error, and with other numbers than column by column.
void require_whole(Dataset const& dataset, Properties const& properties, std::string const& place);

/// Throws InputError "PLACE: ..." if reading any part of a list takes far more memory than the list holds: its chunks
/// are much larger than the list, or most of its elements or of very many chunks were never written. `properties` is
/// the creation property list of the dataset, whose chunks must have `num_dimensions` dimensions.
void require_modest(Dataset const& dataset, Properties const& properties, std::string const& place,
                    int num_dimensions = 1);

/// The chunks of a dataset as HDF5 reads them: it keeps hundreds of bytes for each chunk of a selection, and makes room
/// for as many bytes as the index says of a chunk that passed through filters, before it looks whether the file has
/// them.
class StoredChunks {
public:
  /// dataset: of 1 or 2 dimensions; it must outlive this object.
  StoredChunks(Dataset const& dataset, std::string const& place);

  /// Throws InputError "PLACE: ..." if a chunk that holds one of the elements [first, first + count) of a list, or of a
  /// block of a matrix, takes more bytes than the file has. Costs a lookup in HDF5's index per chunk.
  void require_within_file(std::array<std::uint64_t, 2> first, std::array<std::uint64_t, 2> count);
  void require_within_file(std::uint64_t first, std::uint64_t count) { require_within_file({first, 0}, {count, 1}); }

  /// The elements of a list that are to be read at once: those of so many chunks that HDF5 needs 32 MiB for them.
  std::uint64_t elements_at_once() const;

  /// The same for a block of a matrix of two dimensions: rows of so many columns.
  std::uint64_t rows_at_once(std::uint64_t num_columns) const;

  /// The same for a matrix that is stored as a list: rows, of each of which so many columns are read.
  std::uint64_t list_rows_at_once(std::uint64_t num_columns) const;

private:
  void require_within_file(std::array<hsize_t, 2> const& begin) const;

  Dataset const& dataset_;
  std::string place_;
  std::array<hsize_t, 2> chunk_ = {0, 1};      // elements in each dimension; {0, 1} if there are no chunks
  bool has_filters_ = false;                   // then each chunk has a size of its own
  hsize_t file_size_ = 0;                      // in bytes
  std::optional<std::array<hsize_t, 2>> last_; // begin of the chunk checked last
};

} // namespace varve::hdf5
