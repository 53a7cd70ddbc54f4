#include "io/decompression.hpp"

#include "core/config.hpp"
#include "core/error.hpp"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#if VARVE_HAVE_XZ
#include <lzma.h>
#endif

namespace varve {
namespace {

constexpr std::size_t stream_buffer_size = std::size_t{1} << 18; ///< between a file and its compression, in bytes

/// Runs a decompressor over all members of a file; a derived class implements one decompression step.
class CompressedSource : public ByteSource {
public:
  /// `format` names the compression in messages.
  CompressedSource(std::unique_ptr<StoredBytes> stored, char const* format)
      : stored_(std::move(stored)), format_(format) {}

  std::size_t read(std::span<char> buffer) final {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      stored_->hold(1);
      if (stored_->held().empty() && !in_member_) break;
      if (!in_member_) begin_member();
      in_member_ = true;
      Step const step = advance(stored_->held(), buffer.subspan(filled));
      if (step.consumed == 0 && step.produced == 0 && !step.member_ended) fail_truncated(stored_->path(), format_);
      stored_->drop(step.consumed);
      filled += step.produced;
      in_member_ = !step.member_ended;
    }
    return filled;
  }

protected:
  /// The result of one call to a decompressor.
  struct Step {
    std::size_t consumed = 0;
    std::size_t produced = 0;
    bool member_ended = false;
  };

  [[noreturn]] void fail_corrupt(char const* reason) const {
    throw InputError(fmt::format("{} is corrupt: its {} data cannot be decompressed ({})", stored_->path().string(),
                                 format_, reason));
  }
  virtual void begin_member() = 0;
  /// Decompresses a part of `in` into `out`; `in` is empty at the end of the file.
  virtual Step advance(std::string_view in, std::span<char> out) = 0;

private:
  std::unique_ptr<StoredBytes> stored_;
  char const* format_;
  bool in_member_ = false;
};

/// Writes what a compressor has left at the start of a buffer.
class BufferedSink : public ByteSink {
protected:
  explicit BufferedSink(OutputFile& file) : buffer_(stream_buffer_size), file_(file) {}
  void put(std::size_t count) { file_.write({buffer_.data(), count}); }

  std::vector<char> buffer_;

private:
  OutputFile& file_;
};

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

class GzipSink final : public BufferedSink {
public:
  explicit GzipSink(OutputFile& file) : BufferedSink(file) {
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
    put(buffer_.size() - stream_.avail_out);
    return status;
  }

  z_stream stream_{};
};

constexpr int zstd_level = 3;

class ZstdSource final : public CompressedSource {
public:
  explicit ZstdSource(std::unique_ptr<StoredBytes> stored)
      : CompressedSource(std::move(stored), "zstd"), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw ResourceError("zstd cannot be started: not enough memory");
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

private:
  void begin_member() override {
    ZSTD_initDStream(stream_);
    header_.clear();
    num_bytes_ = 0;
  }

  Step advance(std::string_view in, std::span<char> out) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    auto const status = ZSTD_decompressStream(stream_, &output, &input);
    if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (ZSTD_isError(status)) fail_corrupt(ZSTD_getErrorName(status));
    header_ += in.substr(0, std::min(input.pos, max_header - header_.size()));
    num_bytes_ += output.pos;
    if (status == 0) require_announced_size();
    return {input.pos, output.pos, status == 0};
  }

  /// Compares the size of a frame with the size that its header announces. The library does the same, except when the
  /// last block of a streamed frame is empty.
  void require_announced_size() const {
    auto const announced = ZSTD_getFrameContentSize(header_.data(), header_.size());
    if (announced == ZSTD_CONTENTSIZE_UNKNOWN || announced == ZSTD_CONTENTSIZE_ERROR) return;
    if (announced != num_bytes_) fail_corrupt("a frame holds another number of bytes than it announces");
  }

  static constexpr std::size_t max_header = 18; ///< largest size of a frame header, in bytes

  ZSTD_DStream* stream_;
  std::string header_;          ///< the first bytes of the frame
  std::uint64_t num_bytes_ = 0; ///< bytes decompressed from the frame so far
};

class ZstdSink final : public BufferedSink {
public:
  explicit ZstdSink(OutputFile& file) : BufferedSink(file), stream_(ZSTD_createCStream()) {
    if (stream_ == nullptr) throw ResourceError("zstd cannot be started: not enough memory");
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_compressionLevel, zstd_level);
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_checksumFlag, 1);
  }
  ~ZstdSink() override { ZSTD_freeCStream(stream_); }

  void write(std::string_view bytes) override {
    ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
    while (input.pos < input.size) compress(input, ZSTD_e_continue);
  }
  void finish() override {
    ZSTD_inBuffer nothing{nullptr, 0, 0};
    while (compress(nothing, ZSTD_e_end) != 0) {
    }
  }

private:
  std::size_t compress(ZSTD_inBuffer& input, ZSTD_EndDirective directive) {
    ZSTD_outBuffer output{buffer_.data(), buffer_.size(), 0};
    auto const status = ZSTD_compressStream2(stream_, &output, &input, directive);
    if (ZSTD_isError(status)) throw ResourceError(fmt::format("zstd cannot compress: {}", ZSTD_getErrorName(status)));
    put(output.pos);
    return status;
  }

  ZSTD_CStream* stream_;
};

#if VARVE_HAVE_XZ
// higher presets take many times as long and save a few per cent
constexpr std::uint32_t xz_preset = 1;
// decompressing `xz -9` output needs 65 MiB
constexpr std::uint64_t xz_memory_limit = std::uint64_t{1} << 30;

std::uint8_t* lzma_bytes(char const* bytes) { return reinterpret_cast<std::uint8_t*>(const_cast<char*>(bytes)); }

/// Decompresses xz. liblzma continues from one member to the next by itself, so the base class sees the whole file as
/// one member.
class XzSource final : public CompressedSource {
public:
  explicit XzSource(std::unique_ptr<StoredBytes> stored) : CompressedSource(std::move(stored), "xz") {
    if (lzma_stream_decoder(&stream_, xz_memory_limit, LZMA_CONCATENATED) != LZMA_OK) {
      throw ResourceError("liblzma cannot be started: not enough memory");
    }
  }
  ~XzSource() override { lzma_end(&stream_); }

private:
  void begin_member() override {}

  Step advance(std::string_view in, std::span<char> out) override {
    stream_.next_in = lzma_bytes(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = lzma_bytes(out.data());
    stream_.avail_out = out.size();
    auto const status = lzma_code(&stream_, in.empty() ? LZMA_FINISH : LZMA_RUN);
    if (status == LZMA_MEM_ERROR) throw std::bad_alloc();
    if (status == LZMA_MEMLIMIT_ERROR) fail_corrupt("it asks for more than 1 GiB of memory");
    if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR) fail_corrupt("unexpected bytes");
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, status == LZMA_STREAM_END};
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class XzSink final : public BufferedSink {
public:
  explicit XzSink(OutputFile& file) : BufferedSink(file) {
    if (lzma_easy_encoder(&stream_, xz_preset, LZMA_CHECK_CRC64) != LZMA_OK) {
      throw ResourceError("liblzma cannot be started: not enough memory");
    }
  }
  ~XzSink() override { lzma_end(&stream_); }

  void write(std::string_view bytes) override {
    stream_.next_in = lzma_bytes(bytes.data());
    stream_.avail_in = bytes.size();
    while (stream_.avail_in > 0) compress(LZMA_RUN);
  }
  void finish() override {
    while (compress(LZMA_FINISH) != LZMA_STREAM_END) {
    }
  }

private:
  lzma_ret compress(lzma_action action) {
    stream_.next_out = lzma_bytes(buffer_.data());
    stream_.avail_out = buffer_.size();
    auto const status = lzma_code(&stream_, action);
    if (status == LZMA_MEM_ERROR) throw ResourceError("not enough memory to write xz data");
    VARVE_REQUIRE(status == LZMA_OK || status == LZMA_STREAM_END, "liblzma was called in a wrong state");
    put(buffer_.size() - stream_.avail_out);
    return status;
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};
#endif

} // namespace

StoredBytes::StoredBytes(std::filesystem::path path)
    : path_(std::move(path)), file_(open_input(path_)), buffer_(stream_buffer_size) {}

void StoredBytes::hold(std::size_t count) {
  while (held().size() < count && !at_end_) refill();
}

std::size_t StoredBytes::read(std::span<char> out) {
  auto const from_buffer = std::min(out.size(), held().size());
  std::memcpy(out.data(), held().data(), from_buffer);
  drop(from_buffer);
  std::size_t filled = from_buffer;
  while (filled < out.size() && !at_end_) filled += read_some(out.subspan(filled));
  return filled;
}

void StoredBytes::refill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  end_ += read_some(std::span(buffer_).subspan(end_));
}

std::size_t StoredBytes::read_some(std::span<char> out) {
  for (;;) {
    auto const count = ::read(file_.number(), out.data(), out.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_read(path_, errno);
    at_end_ = count == 0;
    return static_cast<std::size_t>(count);
  }
}

void fail_truncated(std::filesystem::path const& path, char const* format) {
  throw InputError(fmt::format("{} is truncated: the file ends before its {} data does", path.string(), format));
}

std::unique_ptr<ByteSource> make_gzip_source(std::unique_ptr<StoredBytes> stored) {
  return std::make_unique<GzipSource>(std::move(stored));
}

std::unique_ptr<ByteSink> make_gzip_sink(OutputFile& file) { return std::make_unique<GzipSink>(file); }

std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredBytes> stored) {
  return std::make_unique<ZstdSource>(std::move(stored));
}

std::unique_ptr<ByteSink> make_zstd_sink(OutputFile& file) { return std::make_unique<ZstdSink>(file); }

#if VARVE_HAVE_XZ
std::unique_ptr<ByteSource> make_xz_source(std::unique_ptr<StoredBytes> stored) {
  return std::make_unique<XzSource>(std::move(stored));
}

std::unique_ptr<ByteSink> make_xz_sink(OutputFile& file) { return std::make_unique<XzSink>(file); }

#else

std::unique_ptr<ByteSource> make_xz_source(std::unique_ptr<StoredBytes> stored) {
  throw InputError(
      fmt::format("{} is compressed by xz, which this build of Varve lacks; unpack it, or build with liblzma",
                  stored->path().string()));
}

std::unique_ptr<ByteSink> make_xz_sink(OutputFile& /*file*/) {
  throw UsageError("this build of Varve lacks xz; write .gz or .zst, or build with liblzma");
}

#endif

} // namespace varve
