#pragma once

#include "io/sample_reader.hpp"
#include "network/sparse_matrix.hpp"

#include <filesystem>
#include <memory>

/// Matrix Market files (Boisvert, Pozo and Remington, "The Matrix Market exchange formats: initial design", 1996),
/// plain or compressed (gzip, xz, zstd). Read by 200 lines of Varve's own, not by the library
/// fast_matrix_market: one dependency less, errors with line and what was expected, and memory for the entries that are
/// there, not for those that a file claims.
namespace varve {

/// True if a file begins with the banner of Matrix Market. Throws InputError, naming the file, if it cannot be read.
bool is_matrix_market(std::filesystem::path const& path);

/// Reads a matrix: `coordinate` or `array`; `real`, `integer` or, with the value 1 for all, `pattern`; `general`,
/// `symmetric` or `skew-symmetric`, whose entries below the diagonal stand for two. Zeros of an array are not stored.
/// Throws InputError with file and line, what was found and what was expected.
SparseMatrix read_matrix_market(std::filesystem::path const& path);

/// Opens the rows of such a matrix, or a range of them, as samples in memory; entries of value 0 are not kept. Throws
/// as read_matrix_market does; UsageError if the file does not contain the range.
std::unique_ptr<SampleReader> open_matrix_market_samples(std::filesystem::path const& path,
                                                         OptionalSampleRange const& range = std::nullopt);

} // namespace varve
