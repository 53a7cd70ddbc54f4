#pragma once

#include "io/hdf5.hpp"
#include "io/inflater.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace varve::hdf5 {

/// The chunks of a dataset as HDF5 reads them. HDF5 1.10 believes what a file says of them: it keeps hundreds of bytes
/// for each chunk of a selection, makes room for as many bytes as the index says of a chunk that passed through
/// filters, and takes the numbers of a chunk from what its filters give, or from as many bytes as the layout says, even
/// if these are fewer. So each chunk is checked here before HDF5 reads of it. Hold hdf5::lock() during every call.
class StoredChunks {
public:
  using Place = std::array<std::uint64_t, 2>; ///< of an element, or a number of them, in each dimension

  /// dataset: of 1 or 2 dimensions; it must outlive this object.
  StoredChunks(Dataset const& dataset, std::string const& place);

  /// visit(first, count, is_written) with parts of a block of count[0] x count[1] elements from `first` on (of a list:
  /// {first, 0}, {count, 1}), which together are the block: the whole block if all its chunks were written, else its
  /// part of each chunk. Parts that were never written are zeros, which HDF5 must not be asked for.
  /// Throws InputError "PLACE: ..." if a chunk of the block takes more bytes than the file has; does not hold its
  /// elements, once its filters are undone; was never written, while the dataset says other than 0 for that; or passed
  /// through filters other than shuffle, deflate and Fletcher-32. Each chunk is checked once; the check costs a lookup
  /// in HDF5's index and, for chunks with filters, reading and inflating it.
  template <class Visit>
  void for_each_part(Place const& first, Place const& count, Visit const& visit);

  /// The elements of a list that are to be read at once: those of so many chunks that HDF5 needs 32 MiB for them.
  std::uint64_t elements_at_once() const;

  /// The same for a block of a matrix of two dimensions: rows of so many columns.
  std::uint64_t rows_at_once(std::uint64_t num_columns) const;

  /// The same for a matrix that is stored as a list: rows, of each of which so many columns are read.
  std::uint64_t list_rows_at_once(std::uint64_t num_columns) const;

private:
  bool has_chunks() const { return chunk_[0] != 0; }
  bool is_written(Place const& chunk_number);
  bool check(std::array<hsize_t, 2> const& begin);
  void check_filtered(std::array<hsize_t, 2> const& begin, std::uint64_t size);
  void require_zeros_elsewhere();
  bool is_of_varve() const;
  void require_bytes(std::uint64_t bytes) const;
  std::uint64_t bytes_before(std::size_t filter, std::uint32_t skipped) const;

  Dataset const& dataset_;
  std::string place_;
  std::array<hsize_t, 2> chunk_ = {0, 1};   // elements in each dimension; {0, 1} if there are no chunks
  std::array<hsize_t, 2> lengths_ = {0, 1}; // of the dataset
  std::vector<H5Z_filter_t> filters_;       // in the order in which they were applied
  bool skips_filters_at_edges_ = false;
  bool are_others_zeros_ = false; // chunks that were never written, and the index was found sound
  std::uint64_t chunk_bytes_ = 0; // of its elements
  hsize_t file_size_ = 0;         // in bytes
  Inflater inflater_;
  std::unordered_map<std::uint64_t, bool> was_written_; // of the chunks that were checked, by their numbers
};

template <class Visit>
void StoredChunks::for_each_part(Place const& first, Place const& count, Visit const& visit) {
  if (count[0] == 0 || count[1] == 0) return;
  if (!has_chunks()) return visit(first, count, true);
  auto const for_each_chunk = [&](auto const& take) {
    for (auto row = first[0] / chunk_[0]; row <= (first[0] + count[0] - 1) / chunk_[0]; ++row)
      for (auto column = first[1] / chunk_[1]; column <= (first[1] + count[1] - 1) / chunk_[1]; ++column)
        take(Place{row, column});
  };
  bool all_were_written = true;
  for_each_chunk([&](Place const& number) { all_were_written = is_written(number) && all_were_written; });
  if (all_were_written) return visit(first, count, true);
  for_each_chunk([&](Place const& number) {
    Place begin{};
    Place length{};
    for (std::size_t dimension = 0; dimension < 2; ++dimension) {
      begin[dimension] = std::max<std::uint64_t>(first[dimension], number[dimension] * chunk_[dimension]);
      auto const end =
          std::min<std::uint64_t>(first[dimension] + count[dimension], (number[dimension] + 1) * chunk_[dimension]);
      length[dimension] = end - begin[dimension];
    }
    visit(begin, length, is_written(number));
  });
}

} // namespace varve::hdf5
