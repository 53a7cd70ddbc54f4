#pragma once

#include "network/sparse_matrix.hpp"

#include <filesystem>

namespace varve {

/// Reads a matrix that `scipy.sparse.save_npz` wrote: a ZIP archive of the arrays of a matrix in the format csr, csc or
/// coo. Throws InputError, naming file and member, if it is broken or holds anything else, or if this build of Varve
/// lacks libzip.
SparseMatrix read_npz(std::filesystem::path const& path);

} // namespace varve
