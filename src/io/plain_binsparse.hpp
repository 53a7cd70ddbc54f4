#pragma once

#include "network/sparse_matrix.hpp"

#include <filesystem>
#include <string>
#include <vector>

/// HDF5 files of the binsparse specification as other programs write them: one matrix in the root group, or one matrix
/// per group of the root group, in the formats CSR, CSC and COO. Unlike Varve's own files they have no attribute
/// `format`.
namespace varve {

/// True for such files, false for other HDF5 files and all others. Throws InputError if an HDF5 file is broken.
bool is_plain_binsparse(std::filesystem::path const& path);

/// Reads all metadata of such a file that the functions below read (see structure_walk). Throws InputError.
void walk_plain_binsparse(std::filesystem::path const& path);

/// The groups with a matrix, in the order of their names, where runs of digits count as numbers; one empty name if the
/// root group itself is a matrix. Throws InputError.
std::vector<std::string> plain_matrix_names(std::filesystem::path const& path);

/// Reads the matrix of a group, or of the root group if the name is empty. Throws InputError, naming file and group, if
/// it is broken, or if no name is given for a file of several matrices.
SparseMatrix read_plain_matrix(std::filesystem::path const& path, std::string const& name = "");

/// Reads a list of numbers: a dataset of one dimension. Throws InputError, naming file and dataset.
std::vector<double> read_plain_list(std::filesystem::path const& path, std::string const& name);

} // namespace varve
