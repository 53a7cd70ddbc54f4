#include "core/config.hpp"
#include "core/error.hpp"
#include "io/compressed_source.hpp"
#include "io/compressions.hpp"

#include <fmt/format.h>

#if VARVE_HAVE_XZ
#include <lzma.h>

#include <cstdint>
#include <new>
#include <utility>
#include <vector>
#endif

namespace varve {

#if VARVE_HAVE_XZ
namespace {

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

class XzSink final : public ByteSink {
public:
  explicit XzSink(OutputFile& file) : file_(file), buffer_(stream_buffer_size) {
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
    file_.write({buffer_.data(), buffer_.size() - stream_.avail_out});
    return status;
  }

  OutputFile& file_;
  std::vector<char> buffer_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

} // namespace

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
