#include "io/text_file.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/input_files.hpp"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#if VARVE_HAVE_XZ
#include <lzma.h>
#endif

namespace varve {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::size_t stream_buffer_size = std::size_t{1} << 18; ///< between a file and its compression, in bytes

} // namespace

namespace compression {

/// Which way a Coder works.
enum class Direction { compress, decompress };

/// Compresses or decompresses a stream of bytes.
class Coder {
public:
  /// The result of one step.
  struct Step {
    std::size_t consumed = 0;
    std::size_t produced = 0;
    bool member_ended = false;
    char const* fault = nullptr; ///< why the library refuses; null if it does not
  };

  virtual ~Coder() = default;
  /// Called before each member that is decompressed.
  virtual void begin_member() {}
  /// Transforms a part of `in` into `out`; `in` is empty at the end of the stream. Throws std::bad_alloc.
  virtual Step advance(std::string_view in, std::span<char> out) = 0;

protected:
  [[noreturn]] static void fail_to_start(char const* library) {
    fail<ResourceError>("{} cannot be started: not enough memory", library);
  }
};

} // namespace compression

namespace {

using namespace compression;

/// How files of a compression are named and begin.
struct CompressionFormat {
  Compression compression;
  char const* ending;
  char const* name;       ///< in messages
  std::string_view magic; ///< the first bytes
};

constexpr CompressionFormat compression_formats[] = {
    {Compression::gzip, ".gz", "gzip", "\x1f\x8b"sv},
    {Compression::xz, ".xz", "xz", "\xfd\x37zXZ\0"sv},
    {Compression::zstd, ".zst", "zstd", "\x28\xb5\x2f\xfd"sv},
};
constexpr std::size_t longest_magic = 6;

/// Null for no compression.
CompressionFormat const* format_of(Compression compression) {
  auto const* const found = std::ranges::find(compression_formats, compression, &CompressionFormat::compression);
  return found == std::end(compression_formats) ? nullptr : found;
}

class GzipCoder final : public Coder {
public:
  explicit GzipCoder(Direction direction) : compresses_(direction == Direction::compress) {
    constexpr int level = 6;
    constexpr int gzip_window = 15 + 16;
    auto const status = compresses_ ? deflateInit2(&stream_, level, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY)
                                    : inflateInit2(&stream_, gzip_window);
    if (status != Z_OK) fail_to_start("zlib");
  }
  ~GzipCoder() override { compresses_ ? deflateEnd(&stream_) : inflateEnd(&stream_); }

  void begin_member() override { inflateReset(&stream_); }

  Step advance(std::string_view in, std::span<char> out) override {
    stream_.next_in = zlib_bytes(in.data());
    stream_.avail_in = zlib_size(in.size());
    stream_.next_out = zlib_bytes(out.data());
    stream_.avail_out = zlib_size(out.size());
    auto const status =
        compresses_ ? deflate(&stream_, in.empty() ? Z_FINISH : Z_NO_FLUSH) : inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    bool const is_right = status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR;
    return {zlib_size(in.size()) - stream_.avail_in, zlib_size(out.size()) - stream_.avail_out, status == Z_STREAM_END,
            is_right                 ? nullptr
            : stream_.msg != nullptr ? stream_.msg
                                     : "unexpected bytes"};
  }

private:
  /// Sizes and pointers in the parameter types of zlib, whose sizes have 32 bits; larger sizes are cut to 1 GiB.
  static unsigned zlib_size(std::size_t size) { return static_cast<unsigned>(std::min(size, std::size_t{1} << 30)); }
  static Bytef* zlib_bytes(char const* bytes) { return reinterpret_cast<Bytef*>(const_cast<char*>(bytes)); }

  bool compresses_;
  z_stream stream_{};
};

class ZstdDecoder final : public Coder {
public:
  ZstdDecoder() : stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) fail_to_start("zstd");
  }
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }

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
    if (ZSTD_isError(status)) return {0, 0, false, ZSTD_getErrorName(status)};
    header_ += in.substr(0, std::min(input.pos, max_header - header_.size()));
    num_bytes_ += output.pos;
    bool const is_wrong = status == 0 && !has_announced_size();
    return {input.pos, output.pos, status == 0,
            is_wrong ? "a frame holds another number of bytes than it announces" : nullptr};
  }

private:
  /// Compares the size of a frame with the size that its header announces. The library does the same, except when the
  /// last block of a streamed frame is empty.
  bool has_announced_size() const {
    auto const announced = ZSTD_getFrameContentSize(header_.data(), header_.size());
    return announced == ZSTD_CONTENTSIZE_UNKNOWN || announced == ZSTD_CONTENTSIZE_ERROR || announced == num_bytes_;
  }

  static constexpr std::size_t max_header = 18; ///< largest size of a frame header, in bytes

  ZSTD_DStream* stream_;
  std::string header_;          ///< the first bytes of the frame
  std::uint64_t num_bytes_ = 0; ///< bytes decompressed from the frame so far
};

class ZstdEncoder final : public Coder {
public:
  ZstdEncoder() : stream_(ZSTD_createCStream()) {
    constexpr int level = 3;
    if (stream_ == nullptr) fail_to_start("zstd");
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(stream_, ZSTD_c_checksumFlag, 1);
  }
  ~ZstdEncoder() override { ZSTD_freeCStream(stream_); }

  Step advance(std::string_view in, std::span<char> out) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    auto const status = ZSTD_compressStream2(stream_, &output, &input, in.empty() ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(status)) return {0, 0, false, ZSTD_getErrorName(status)};
    return {input.pos, output.pos, in.empty() && status == 0};
  }

private:
  ZSTD_CStream* stream_;
};

#if VARVE_HAVE_XZ
/// When it decompresses, liblzma continues from one member to the next by itself, so the whole file is one member.
class XzCoder final : public Coder {
public:
  explicit XzCoder(Direction direction) {
    constexpr std::uint32_t preset = 1; // higher presets take many times as long and save a few per cent
    constexpr std::uint64_t memory_limit = std::uint64_t{1} << 30; // decompressing `xz -9` output needs 65 MiB
    auto const status = direction == Direction::compress
                            ? lzma_easy_encoder(&stream_, preset, LZMA_CHECK_CRC64)
                            : lzma_stream_decoder(&stream_, memory_limit, LZMA_CONCATENATED);
    if (status != LZMA_OK) fail_to_start("liblzma");
  }
  ~XzCoder() override { lzma_end(&stream_); }

  Step advance(std::string_view in, std::span<char> out) override {
    stream_.next_in = reinterpret_cast<std::uint8_t const*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    auto const status = lzma_code(&stream_, in.empty() ? LZMA_FINISH : LZMA_RUN);
    if (status == LZMA_MEM_ERROR) throw std::bad_alloc();
    bool const is_right = status == LZMA_OK || status == LZMA_STREAM_END || status == LZMA_BUF_ERROR;
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out, status == LZMA_STREAM_END,
            is_right                        ? nullptr
            : status == LZMA_MEMLIMIT_ERROR ? "it asks for more than 1 GiB of memory"
                                            : "unexpected bytes"};
  }

private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};
#endif

/// The coder of a compression and direction; null for xz in a build without liblzma.
std::unique_ptr<Coder> make_coder(Compression compression, Direction direction) {
  if (compression == Compression::gzip) return std::make_unique<GzipCoder>(direction);
#if VARVE_HAVE_XZ
  if (compression == Compression::xz) return std::make_unique<XzCoder>(direction);
#endif
  if (compression != Compression::zstd) return nullptr;
  if (direction == Direction::compress) return std::make_unique<ZstdEncoder>();
  return std::make_unique<ZstdDecoder>();
}

[[noreturn]] void fail_truncated(fs::path const& path, CompressionFormat const& format) {
  fail<InputError>("{} is truncated: the file ends before its {} data does", path.string(), format.name);
}

/// Reads a plain file, or runs a decompressor over all members of a file.
class FileSource final : public ByteSource {
public:
  explicit FileSource(fs::path path) : path_(std::move(path)), file_(open_input(path_)), buffer_(stream_buffer_size) {
    hold(longest_magic);
    auto const* const found = std::ranges::find_if(
        compression_formats, [&](CompressionFormat const& format) { return held().starts_with(format.magic); });
    auto const* const promised = format_of(compression_of_name(path_));
    if (found == std::end(compression_formats)) {
      // A file whose name announces compression but that ends within its first bytes is truncated, not plain.
      if (promised != nullptr && promised->magic.starts_with(held())) fail_truncated(path_, *promised);
      return;
    }
    format_ = found;
    coder_ = make_coder(format_->compression, Direction::decompress);
    if (coder_) return;
    fail<InputError>("{} is compressed by {}, which this build of Varve lacks; unpack it, or build with liblzma",
                     path_.string(), format_->name);
  }

  std::size_t read(std::span<char> out) override { return coder_ ? read_decompressed(out) : read_plain(out); }

private:
  std::size_t read_decompressed(std::span<char> out) {
    std::size_t filled = 0;
    while (filled < out.size()) {
      hold(1);
      if (held().empty() && !in_member_) break;
      if (!std::exchange(in_member_, true)) coder_->begin_member();
      auto const step = coder_->advance(held(), out.subspan(filled));
      if (step.fault != nullptr)
        fail<InputError>("{} is corrupt: its {} data cannot be decompressed ({})", path_.string(), format_->name,
                         step.fault);
      if (step.consumed == 0 && step.produced == 0 && !step.member_ended) fail_truncated(path_, *format_);
      begin_ += step.consumed;
      filled += step.produced;
      in_member_ = !step.member_ended;
    }
    return filled;
  }

  /// What is held, then what is read directly into `out`.
  std::size_t read_plain(std::span<char> out) {
    auto filled = std::min(out.size(), held().size());
    std::memcpy(out.data(), held().data(), filled);
    begin_ += filled;
    while (filled < out.size() && !at_end_) filled += read_some(out.subspan(filled));
    return filled;
  }

  /// The stored bytes that were read from the file and not yet used.
  std::string_view held() const { return {buffer_.data() + begin_, end_ - begin_}; }

  /// Reads until at least `count` bytes are held or the file ends.
  void hold(std::size_t count) {
    while (held().size() < count && !at_end_) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
      end_ += read_some(std::span(buffer_).subspan(end_));
    }
  }

  std::size_t read_some(std::span<char> out) {
    for (;;) {
      auto const count = ::read(file_.number(), out.data(), out.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_to_read(path_, errno);
      at_end_ = count == 0;
      return static_cast<std::size_t>(count);
    }
  }

  fs::path path_;
  Descriptor file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool at_end_ = false;
  CompressionFormat const* format_ = nullptr; ///< null if the file is plain
  std::unique_ptr<Coder> coder_;
  bool in_member_ = false;
};

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

std::unique_ptr<ByteSource> open_bytes(fs::path const& path) { return std::make_unique<FileSource>(path); }

TextWriter::TextWriter(fs::path const& path, Appears appears)
    : file_(path, appears), compression_(compression_of_name(path)) {
  if (compression_ == Compression::none) return;
  buffer_.resize(stream_buffer_size);
  coder_ = make_coder(compression_, Direction::compress);
  if (coder_) return;
  fail<UsageError>("this build of Varve lacks {}; write .gz or .zst, or build with liblzma",
                   format_of(compression_)->name);
}

TextWriter::~TextWriter() = default;

bool TextWriter::compress(std::string_view& text) {
  auto const refuse = [&](char const* why) {
    fail<ResourceError>("{} cannot compress: {}", format_of(compression_)->name, why);
  };
  Coder::Step step;
  try {
    step = coder_->advance(text, buffer_);
  } catch (std::bad_alloc const&) {
    refuse("not enough memory");
  }
  if (step.fault != nullptr) refuse(step.fault);
  file_.write({buffer_.data(), step.produced});
  text.remove_prefix(step.consumed);
  return step.member_ended;
}

void TextWriter::write(std::string_view text) {
  text_.append(text);
  if (text_.size() > longest_buffer) flush();
}

void TextWriter::flush() {
  std::string_view rest(text_.data(), text_.size());
  if (!coder_) file_.write(std::exchange(rest, {}));
  while (!rest.empty()) compress(rest);
  text_.clear();
}

void TextWriter::commit() {
  flush();
  std::string_view end;
  while (coder_ && !compress(end)) {
  }
  file_.commit();
}

std::string quote(std::string_view text) {
  constexpr std::size_t longest = 40;
  return fmt::format("\"{}{}\"", printable(text.substr(0, longest)), text.size() > longest ? "..." : "");
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (auto begin = line.find_first_not_of(" \t\r"); begin != std::string_view::npos;) {
    auto const end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(" \t\r", end);
  }
  return words;
}

void fail_at(std::string_view place, std::string_view found, std::string_view expected) {
  fail<InputError>("{}: found {}, expected {}", place, found, expected);
}

void fail_at_line(std::filesystem::path const& path, std::size_t line, std::string_view found,
                  std::string_view expected) {
  fail_at(fmt::format("{}:{}", path.string(), line), found, expected);
}

TextReader::TextReader(std::filesystem::path path, std::size_t block_size)
    : path_(std::move(path)), block_size_(block_size), source_(open_bytes(path_)) {}

bool TextReader::next(TextBlock& block) {
  constexpr std::size_t smallest_read = std::size_t{1} << 16; // a short file must not pay for a whole block
  block.text.assign(rest_);
  rest_.clear();
  block.first_line = next_line_;
  while (!at_end_ && block.text.size() < block_size_) {
    auto const kept = block.text.size();
    block.text.resize(std::min(block_size_, std::max(smallest_read, 2 * kept)));
    auto const filled = kept + source_->read(std::span(block.text).subspan(kept));
    at_end_ = filled < block.text.size();
    block.text.resize(filled);
  }
  if (!at_end_) {
    auto const last_end = block.text.rfind('\n');
    if (last_end == std::string::npos)
      fail<InputError>("{}:{}: found a line of more than {} bytes, expected lines of numbers", path_.string(),
                       next_line_, block_size_);
    rest_ = block.text.substr(last_end + 1);
    block.text.resize(last_end + 1);
  }
  next_line_ += static_cast<std::size_t>(std::ranges::count(block.text, '\n'));
  return !block.text.empty();
}

std::string read_text(std::filesystem::path const& path) {
  auto const source = open_bytes(path);
  std::string text;
  for (std::size_t filled = 0;;) {
    text.resize(filled + TextReader::default_block_size);
    filled += source->read(std::span(text).subspan(filled));
    if (filled == text.size()) continue;
    text.resize(filled);
    return text;
  }
}

} // namespace varve
