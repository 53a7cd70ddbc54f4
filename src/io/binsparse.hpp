#pragma once

#include "io/hdf5.hpp"
#include "network/sparse_matrix.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// Sparse matrices in HDF5 groups after the binsparse specification, format CSR; see FORMAT.md.
namespace varve::binsparse {

/// What the descriptor of a group says, and its values.
struct Descriptor {
  std::uint64_t num_rows = 0;
  std::uint64_t num_columns = 0;
  std::uint64_t num_entries = 0;
  bool is_iso = false; ///< one stored value, shared by all entries
};

/// Reads and checks the descriptor. Whether one value is shared is what the dataset says, whatever the descriptor says.
/// Throws InputError "PLACE: ...".
Descriptor read_descriptor(hdf5::Group const& group, std::string const& place);

/// Opens the three arrays and checks their sizes. Throws InputError "PLACE: ...".
void require_arrays(hdf5::Group const& group, Descriptor const& descriptor, std::string const& place);

/// Reads the rows [first, last), and nothing else. Throws InputError unless the arrays have the sizes that the
/// descriptor says and the row pointers ascend; the caller checks the matrix with require_valid.
SparseMatrix read_rows(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first, std::uint64_t last,
                       std::string const& place);

/// Number of entries of the rows [first, last) of a group. Throws as read_rows.
EdgeOffset count_entries(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first,
                         std::uint64_t last, std::string const& place);

/// Writes a descriptor that fits the stored types of the three arrays, already in the group.
void write_descriptor(hdf5::Group const& group, Descriptor const& descriptor, std::filesystem::path const& path);

/// Writes a matrix into an empty group. `path` is what messages name.
void write_matrix(hdf5::Group const& group, SparseMatrix const& matrix, std::filesystem::path const& path);

/// The smallest unsigned type that holds numbers up to `largest`.
hid_t index_type(std::uint64_t largest);

/// True if float holds each of these exactly.
bool fit_float(std::vector<double> const& values);

} // namespace varve::binsparse
