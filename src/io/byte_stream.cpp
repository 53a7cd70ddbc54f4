#include "io/byte_stream.hpp"

#include "io/compressed_source.hpp"
#include "io/compressions.hpp"
#include "io/stored_bytes.hpp"

#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view gzip_magic = "\x1f\x8b"sv;
constexpr std::string_view xz_magic = "\xfd"
                                      "7zXZ\0"sv;
constexpr std::string_view zstd_magic = "\x28\xb5\x2f\xfd"sv;

std::string_view magic_of(Compression compression) {
  switch (compression) {
  case Compression::gzip:
    return gzip_magic;
  case Compression::xz:
    return xz_magic;
  case Compression::zstd:
    return zstd_magic;
  case Compression::none:
    break;
  }
  return "";
}

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

constexpr Compression compressions[] = {Compression::gzip, Compression::xz, Compression::zstd};

/// The compression indicated by the first bytes of a file.
Compression compression_of_bytes(StoredBytes& stored) {
  stored.hold(xz_magic.size());
  for (auto const compression : compressions) {
    if (stored.held().starts_with(magic_of(compression))) return compression;
  }
  return Compression::none;
}

} // namespace

Compression compression_of_name(fs::path const& path) {
  auto const ending = path.extension().string();
  for (auto const compression : compressions) {
    if (ending == ending_of(compression)) return compression;
  }
  return Compression::none;
}

char const* ending_of(Compression compression) {
  switch (compression) {
  case Compression::gzip:
    return ".gz";
  case Compression::xz:
    return ".xz";
  case Compression::zstd:
    return ".zst";
  case Compression::none:
    break;
  }
  return "";
}

std::unique_ptr<ByteSource> open_bytes(fs::path const& path) {
  auto stored = std::make_unique<StoredBytes>(path);
  switch (compression_of_bytes(*stored)) {
  case Compression::gzip:
    return make_gzip_source(std::move(stored));
  case Compression::xz:
    return make_xz_source(std::move(stored));
  case Compression::zstd:
    return make_zstd_source(std::move(stored));
  case Compression::none:
    break;
  }
  // A file whose name announces compression but that ends within its first bytes is truncated, not plain.
  auto const promised = compression_of_name(path);
  if (promised != Compression::none && magic_of(promised).starts_with(stored->held())) {
    fail_truncated(path, ending_of(promised) + 1);
  }
  return std::make_unique<PlainSource>(std::move(stored));
}

std::unique_ptr<ByteSink> make_byte_sink(OutputFile& file, Compression compression) {
  switch (compression) {
  case Compression::gzip:
    return make_gzip_sink(file);
  case Compression::xz:
    return make_xz_sink(file);
  case Compression::zstd:
    return make_zstd_sink(file);
  case Compression::none:
    break;
  }
  return std::make_unique<PlainSink>(file);
}

} // namespace varve
