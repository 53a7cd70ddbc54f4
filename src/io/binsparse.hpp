#pragma once

#include "io/hdf5.hpp"
#include "io/matrix_parts.hpp"
#include "network/ready_samples.hpp"
#include "network/sample_memory.hpp"
#include "network/sparse_matrix.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Sparse matrices in HDF5 groups in the layout of the binsparse specification; see FORMAT.md. Varve writes CSR.
namespace varve::binsparse {

/// The binsparse descriptor of a group, and whether its values are shared.
struct Descriptor {
  std::uint64_t num_rows = 0;
  std::uint64_t num_columns = 0;
  std::uint64_t num_entries = 0;
  bool is_iso = false; ///< true if one stored value is shared by all entries
  MatrixParts::Layout layout = MatrixParts::Layout::by_rows;
};

/// The formats that a reader takes: CSR alone, as in Varve's own files, or CSR, CSC and COO.
enum class Formats { rows_only, all };

/// Reads and checks the descriptor. is_iso follows the length of the dataset `values`, whatever the descriptor says.
/// Throws InputError "PLACE: ...".
Descriptor read_descriptor(hdf5::Group const& group, std::string const& place, Formats formats = Formats::rows_only);

/// Opens the three lists and checks that their lengths match the descriptor. Throws InputError "PLACE: ...".
void require_arrays(hdf5::Group const& group, Descriptor const& descriptor, std::string const& place);

/// Reads all lists of a matrix of any format; the caller checks them with to_matrix. Throws InputError unless their
/// lengths match the descriptor.
MatrixParts read_parts(hdf5::Group const& group, Descriptor const& descriptor, std::string const& place);

/// Reads the rows [first, last) of a matrix in CSR and nothing else from the disk. Throws InputError unless the lengths
/// of the arrays match the descriptor and the row pointers ascend; the caller checks the matrix with require_valid.
SparseMatrix read_rows(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first, std::uint64_t last,
                       std::string const& place);

/// The same rows in this memory, checked; nullopt if that memory has no room, or if read_rows or the check that follows
/// it has to read them: their columns are not stored in chunks of the wanted width, or not all is right.
std::optional<ReadySamples> read_ready_rows(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first,
                                            std::uint64_t last, std::string const& place, SampleMemory& memory);

/// Number of entries in the rows [first, last). Throws as read_rows does.
EdgeOffset count_entries(hdf5::Group const& group, Descriptor const& descriptor, std::uint64_t first,
                         std::uint64_t last, std::string const& place);

/// Writes the descriptor of a group that already contains the three arrays; the data types are those of the stored
/// arrays. Throws ResourceError, naming `path`.
void write_descriptor(hdf5::Group const& group, Descriptor const& descriptor, std::filesystem::path const& path);

/// Writes a matrix into an empty group. Throws ResourceError, naming `path`.
void write_matrix(hdf5::Group const& group, SparseMatrix const& matrix, std::filesystem::path const& path);

/// The smallest unsigned HDF5 type that holds numbers up to `largest`.
hid_t index_type(std::uint64_t largest);

/// True if every value is exactly representable as float.
bool fit_float(std::vector<double> const& values);

} // namespace varve::binsparse
