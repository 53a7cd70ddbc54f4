#pragma once

#include "io/sample_reader.hpp"
#include "network/loss.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

/// IDX files of unsigned bytes, the format of MNIST and Fashion-MNIST: two zero bytes, the type of the elements (8),
/// the number of dimensions, each dimension as 4 bytes with the highest first, then the elements, the last dimension
/// fastest. Files of images have two dimensions or more, files of labels one; the first dimension counts the items.
/// Files may be compressed (gzip, xz, zstd). Items are numbered from 0.
namespace varve {

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

} // namespace varve
