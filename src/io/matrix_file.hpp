#pragma once

#include "io/sample_range.hpp"
#include "io/sample_reader.hpp"
#include "network/sparse_matrix.hpp"

#include <filesystem>
#include <memory>
#include <optional>

namespace varve {

/// The formats of other programs whose files hold one matrix, or one per group, and say nothing of its purpose.
enum class MatrixFormat { npy, npz, matrix_market, binsparse };

/// The format of a file, by its content; nullopt for folders, files of other formats and files that do not exist.
/// Throws InputError if the file cannot be read.
std::optional<MatrixFormat> matrix_format(std::filesystem::path const& path);

/// Reads the matrix of a file. Throws InputError, naming the file, if it is broken or holds several matrices.
SparseMatrix read_matrix(std::filesystem::path const& path, MatrixFormat format);

/// Opens the rows of a matrix, or a range of them, as samples; entries of value 0 are not kept. NumPy's arrays are read
/// part by part, other formats into memory. Throws as read_matrix does; UsageError if the file does not contain the
/// range.
std::unique_ptr<SampleReader> open_matrix_samples(std::filesystem::path const& path, MatrixFormat format,
                                                  OptionalSampleRange const& range = std::nullopt);

} // namespace varve
