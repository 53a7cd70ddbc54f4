#include "core/error.hpp"
#include "io/compressed_source.hpp"
#include "io/compressions.hpp"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace varve {
namespace {

constexpr int gzip_level = 6;

/// Converts sizes and pointers to the parameter types of zlib, whose sizes have 32 bits; larger sizes are cut to 1 GiB.
unsigned zlib_size(std::size_t size) { return static_cast<unsigned>(std::min(size, std::size_t{1} << 30)); }
Bytef* zlib_bytes(char const* bytes) { return reinterpret_cast<Bytef*>(const_cast<char*>(bytes)); }

class GzipSource final : public CompressedSource {
public:
  explicit GzipSource(std::unique_ptr<StoredBytes> stored) : CompressedSource(std::move(stored), "gzip") {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw ResourceError("zlib cannot be started: not enough memory");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

private:
  void begin_member() override { inflateReset(&stream_); }

  Step advance(std::string_view in, std::span<char> out) override {
    stream_.next_in = zlib_bytes(in.data());
    stream_.avail_in = zlib_size(in.size());
    stream_.next_out = zlib_bytes(out.data());
    stream_.avail_out = zlib_size(out.size());
    auto const status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      fail_corrupt(stream_.msg != nullptr ? stream_.msg : "unexpected bytes");
    }
    return {zlib_size(in.size()) - stream_.avail_in, zlib_size(out.size()) - stream_.avail_out, status == Z_STREAM_END};
  }

  z_stream stream_{};
};

class GzipSink final : public ByteSink {
public:
  explicit GzipSink(OutputFile& file) : file_(file), buffer_(stream_buffer_size) {
    if (deflateInit2(&stream_, gzip_level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      throw ResourceError("zlib cannot be started: not enough memory");
    }
  }
  ~GzipSink() override { deflateEnd(&stream_); }

  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      auto const part = bytes.substr(0, zlib_size(bytes.size()));
      stream_.next_in = zlib_bytes(part.data());
      stream_.avail_in = zlib_size(part.size());
      while (stream_.avail_in > 0) compress(Z_NO_FLUSH);
      bytes.remove_prefix(part.size());
    }
  }
  void finish() override {
    while (compress(Z_FINISH) != Z_STREAM_END) {
    }
  }

private:
  int compress(int flush) {
    stream_.next_out = zlib_bytes(buffer_.data());
    stream_.avail_out = zlib_size(buffer_.size());
    auto const status = deflate(&stream_, flush);
    VARVE_REQUIRE(status != Z_STREAM_ERROR, "zlib was called in a wrong state");
    file_.write({buffer_.data(), buffer_.size() - stream_.avail_out});
    return status;
  }

  OutputFile& file_;
  std::vector<char> buffer_;
  z_stream stream_{};
};

} // namespace

std::unique_ptr<ByteSource> make_gzip_source(std::unique_ptr<StoredBytes> stored) {
  return std::make_unique<GzipSource>(std::move(stored));
}

std::unique_ptr<ByteSink> make_gzip_sink(OutputFile& file) { return std::make_unique<GzipSink>(file); }

} // namespace varve
