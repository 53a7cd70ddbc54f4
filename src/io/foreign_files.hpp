#pragma once

#include "io/sample_reader.hpp"
#include "network/loss.hpp"
#include "network/sparse_matrix.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace varve {

// IDX files of unsigned bytes, the format of MNIST and Fashion-MNIST: two zero bytes, the type of the elements (8),
// the number of dimensions, each dimension as 4 bytes with the highest first, then the elements, the last dimension
// fastest. Files of images have two dimensions or more, files of labels one; the first dimension counts the items.
// Files may be compressed (gzip, xz, zstd). Items are numbered from 0.

/// The conversion of a byte of an image to a value. unit: byte / 255, rounded to float; raw: the byte itself. Zeros are
/// not stored.
enum class PixelScale { unit, raw };

/// True if a file begins like an IDX file, which no text does. Throws InputError, naming the file, if it cannot be
/// read.
bool is_idx(std::filesystem::path const& path);

/// Opens the images of an IDX file, or a range of them, as samples whose neurons are the pixels of an image, row by
/// row. Reads the file once now, to check and count it, and then part by part. Throws InputError, naming the file, if
/// it is broken, longer or shorter than its header says, or holds labels; UsageError if it does not contain the range.
std::unique_ptr<SampleReader> open_idx_images(std::filesystem::path const& path,
                                              OptionalSampleRange const& range = std::nullopt,
                                              PixelScale scale = PixelScale::unit);

/// The number of labels that the header of an IDX file promises. Throws InputError as read_idx_labels does.
std::uint64_t num_idx_labels(std::filesystem::path const& path);

/// Reads the labels of an IDX file, or a range of them. Throws InputError, naming the file, if it is broken, longer or
/// shorter than its header says, or holds images; UsageError if it does not contain the range.
Labels read_idx_labels(std::filesystem::path const& path, OptionalSampleRange const& range = std::nullopt);

// Matrix Market files (Boisvert, Pozo and Remington, "The Matrix Market exchange formats: initial design", 1996),
// plain or compressed (gzip, xz, zstd). Read by 200 lines of Varve's own, not by the library
// fast_matrix_market: one dependency less, errors with line and what was expected, and memory for the entries that are
// there, not for those that a file claims.

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
