#pragma once

#include "io/byte_stream.hpp"
#include "io/stored_bytes.hpp"

#include <memory>

/// The source and the sink of each compression; open_bytes and make_byte_sink choose among them. Each is implemented in
/// a file of its own, the only one that sees its library.
namespace varve {

// Sources throw ResourceError if memory lacks for the decompressor.

std::unique_ptr<ByteSource> make_gzip_source(std::unique_ptr<StoredBytes> stored);
/// Throws InputError, naming the file, in a build without liblzma.
std::unique_ptr<ByteSource> make_xz_source(std::unique_ptr<StoredBytes> stored);
std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredBytes> stored);

// Sinks write to `file`, which must outlive them, and throw ResourceError if memory lacks for the compressor.

std::unique_ptr<ByteSink> make_gzip_sink(OutputFile& file);
/// Throws UsageError in a build without liblzma.
std::unique_ptr<ByteSink> make_xz_sink(OutputFile& file);
std::unique_ptr<ByteSink> make_zstd_sink(OutputFile& file);

} // namespace varve
