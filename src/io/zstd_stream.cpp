#include "core/error.hpp"
#include "io/compressed_source.hpp"
#include "io/compressions.hpp"

#include <zstd.h>
#include <zstd_errors.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

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

class ZstdSink final : public ByteSink {
public:
  explicit ZstdSink(OutputFile& file) : file_(file), buffer_(stream_buffer_size), stream_(ZSTD_createCStream()) {
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
    file_.write({buffer_.data(), output.pos});
    return status;
  }

  OutputFile& file_;
  std::vector<char> buffer_;
  ZSTD_CStream* stream_;
};

} // namespace

std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredBytes> stored) {
  return std::make_unique<ZstdSource>(std::move(stored));
}

std::unique_ptr<ByteSink> make_zstd_sink(OutputFile& file) { return std::make_unique<ZstdSink>(file); }

} // namespace varve
