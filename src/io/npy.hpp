#pragma once

#include "io/byte_stream.hpp"
#include "io/element_type.hpp"
#include "io/sample_range.hpp"
#include "io/sample_reader.hpp"
#include "network/labels.hpp"
#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Arrays of NumPy (`numpy.save`, format versions 1 to 3): a header, then all elements. Files may also be compressed
/// (gzip, xz, zstd).
namespace varve {

/// The header of an array.
struct NpyHeader {
  std::string type;                 ///< NumPy's text for the type of the elements, such as "<f4"
  bool is_fortran = false;          ///< true if the first index runs fastest, else the last one does
  std::vector<std::uint64_t> shape; ///< empty for a single number

  std::uint64_t num_elements() const; ///< the largest 64-bit number if there are more
};

/// Reads an array from its first element to its last.
class NpyStream {
public:
  /// Reads the header. Throws InputError "PLACE: ..." if there is none.
  NpyStream(std::unique_ptr<ByteSource> source, std::string place);

  NpyHeader const& header() const { return header_; }

  /// The type of the elements. Throws InputError unless they are real numbers, lowest byte first.
  ElementType type() const;

  /// Reads the next `count` numbers. Throws InputError if the file ends before, or as type() does. Memory grows with
  /// what the file holds, whatever its header says.
  std::vector<double> read_reals(std::uint64_t count);

  /// Reads the next `count` indices. Throws as read_reals() does, and if the type is no integer or one is negative.
  std::vector<std::uint64_t> read_indices(std::uint64_t count);

  /// Skips `count` numbers. Throws as read_reals() does.
  void skip(std::uint64_t count);

  /// Reads an array of one text of up to 16 letters. Throws InputError if it holds anything else.
  std::string read_text();

  /// Throws InputError unless the array ends here.
  void require_end();

private:
  std::span<char const> read_bytes(std::uint64_t count, std::size_t element_size);

  std::unique_ptr<ByteSource> source_;
  std::string place_;
  NpyHeader header_;
  std::vector<char> buffer_;
  std::uint64_t num_read_ = 0; ///< elements read so far
};

/// True if a file begins like an array of NumPy. Throws InputError, naming the file, if it cannot be read.
bool is_npy(std::filesystem::path const& path);

/// Reads an array of two dimensions; zeros are not stored. Throws InputError, naming the file, if it is broken, has
/// another number of dimensions, elements that are no finite real numbers, or another length than its header says.
SparseMatrix read_npy_matrix(std::filesystem::path const& path);

/// Reads a list: an array of one dimension, or of several of which all but one are 1. Throws as read_npy_matrix does.
std::vector<double> read_npy_list(std::filesystem::path const& path);

/// Opens an array of two dimensions, or a range of its rows, as samples; zeros are not stored. If its last index runs
/// fastest, it is read part by part, else into memory. Throws as read_npy_matrix does; UsageError if it does not
/// contain the range.
std::unique_ptr<SampleReader> open_npy_samples(std::filesystem::path const& path, OptionalSampleRange const& range);

/// Reads an array of one dimension, of integers from 0, as the labels of the samples from 0. Throws InputError, naming
/// the file, if it holds anything else.
Labels read_npy_labels(std::filesystem::path const& path);

} // namespace varve
