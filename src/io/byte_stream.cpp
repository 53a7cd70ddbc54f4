#include "io/byte_stream.hpp"

#include "io/decompression.hpp"

#include <algorithm>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

class PlainSource final : public ByteSource {
public:
  explicit PlainSource(std::unique_ptr<StoredBytes> stored) : stored_(std::move(stored)) {}
  std::size_t read(std::span<char> buffer) override { return stored_->read(buffer); }

private:
  std::unique_ptr<StoredBytes> stored_;
};

class PlainSink final : public ByteSink {
public:
  explicit PlainSink(OutputFile& file) : file_(file) {}
  void write(std::string_view bytes) override { file_.write(bytes); }
  void finish() override {}

private:
  OutputFile& file_;
};

/// How files of a compression are named, begin, are read and written.
struct CompressionFormat {
  Compression compression;
  char const* ending;
  std::string_view magic; ///< the first bytes
  std::unique_ptr<ByteSource> (*make_source)(std::unique_ptr<StoredBytes>);
  std::unique_ptr<ByteSink> (*make_sink)(OutputFile&);
};

constexpr CompressionFormat compression_formats[] = {
    {Compression::gzip, ".gz", "\x1f\x8b"sv, make_gzip_source, make_gzip_sink},
    {Compression::xz, ".xz", "\xfd\x37zXZ\0"sv, make_xz_source, make_xz_sink},
    {Compression::zstd, ".zst", "\x28\xb5\x2f\xfd"sv, make_zstd_source, make_zstd_sink},
};
constexpr std::size_t longest_magic = 6;

/// Null for no compression.
CompressionFormat const* format_of(Compression compression) {
  auto const* const found = std::ranges::find(compression_formats, compression, &CompressionFormat::compression);
  return found == std::end(compression_formats) ? nullptr : found;
}

} // namespace

Compression compression_of_name(fs::path const& path) {
  auto const ending = path.extension().string();
  auto const* const found = std::ranges::find(compression_formats, ending, &CompressionFormat::ending);
  return found == std::end(compression_formats) ? Compression::none : found->compression;
}

char const* ending_of(Compression compression) {
  auto const* const format = format_of(compression);
  return format == nullptr ? "" : format->ending;
}

std::unique_ptr<ByteSource> open_bytes(fs::path const& path) {
  auto stored = std::make_unique<StoredBytes>(path);
  stored->hold(longest_magic);
  for (auto const& format : compression_formats)
    if (stored->held().starts_with(format.magic)) return format.make_source(std::move(stored));
  // A file whose name announces compression but that ends within its first bytes is truncated, not plain.
  auto const* const promised = format_of(compression_of_name(path));
  if (promised != nullptr && promised->magic.starts_with(stored->held())) fail_truncated(path, promised->ending + 1);
  return std::make_unique<PlainSource>(std::move(stored));
}

std::unique_ptr<ByteSink> make_byte_sink(OutputFile& file, Compression compression) {
  auto const* const format = format_of(compression);
  if (format != nullptr) return format->make_sink(file);
  return std::make_unique<PlainSink>(file);
}

} // namespace varve
