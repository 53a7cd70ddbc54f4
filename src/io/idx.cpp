#include "io/foreign_files.hpp"

#include "core/error.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using Byte = unsigned char;

constexpr std::size_t idx_buffer_size = std::size_t{1} << 18;
constexpr Byte unsigned_bytes = 0x08;

/// The items of an IDX file, from the first to the last.
class IdxStream {
public:
  /// Reads the header.
  explicit IdxStream(fs::path path) : path_(std::move(path)), source_(open_bytes(path_)), buffer_(idx_buffer_size) {
    std::array<Byte, 4> head{};
    read_header(head);
    if (head[0] != 0 || head[1] != 0) fail_at(path_.string(), "no IDX file", "two zero bytes at its begin");
    if (head[2] != unsigned_bytes)
      fail_at(path_.string(), fmt::format("elements of the IDX type {:#04x}", head[2]), "0x08, unsigned bytes");
    if (head[3] == 0) fail_at(path_.string(), "an IDX file without dimensions", "1 for labels, 2 or more for images");
    dimensions_.resize(head[3]);
    for (auto& dimension : dimensions_) {
      std::array<Byte, 4> digits{};
      read_header(digits);
      for (auto const digit : digits) dimension = dimension << 8U | digit;
    }
    for (std::size_t number = 1; number < dimensions_.size(); ++number)
      item_size_ = capped_multiply(item_size_, dimensions_[number]);
    constexpr std::uint64_t most = std::numeric_limits<NeuronIndex>::max();
    if (item_size_ < 1 || item_size_ > most)
      fail_at(path_.string(), fmt::format("items of {} bytes", shape()), fmt::format("1 to {} bytes", most));
  }

  std::size_t num_dimensions() const { return dimensions_.size(); }
  std::uint64_t num_items() const { return dimensions_.front(); }
  std::uint64_t item_size() const { return item_size_; } ///< in bytes

  /// Calls visit(span of bytes) for the next `count` bytes, in pieces. Throws InputError if the file ends before.
  template <class Visit>
  void read(std::uint64_t count, Visit const& visit) {
    while (count > 0) {
      auto const length = static_cast<std::size_t>(std::min<std::uint64_t>(count, buffer_.size()));
      auto const held = source_->read(std::span(buffer_).first(length));
      num_read_ += held;
      if (held < length)
        fail_at(path_.string(), fmt::format("an end after {} items", num_read_ / item_size_), description());
      visit(std::span(buffer_).first(length));
      count -= length;
    }
  }

  void skip_items(std::uint64_t count) {
    read(count * item_size_, [](std::span<char>) {});
  }

  /// Throws InputError unless the file ends here.
  void require_end() {
    char letter = 0;
    if (source_->read({&letter, 1}) > 0) fail_at(path_.string(), "bytes behind the last item", description());
  }

private:
  void read_header(std::span<Byte> bytes) {
    std::array<char, 4> letters{};
    if (source_->read(letters) < letters.size())
      fail_at(path_.string(), "an end within the header of an IDX file", "all of it");
    std::ranges::transform(letters, bytes.begin(), [](char letter) { return static_cast<Byte>(letter); });
  }

  /// The dimensions as text: "28 x 28".
  std::string shape() const {
    return dimensions_.size() == 1 ? "1" : fmt::format("{}", fmt::join(std::span(dimensions_).subspan(1), " x "));
  }

  std::string description() const {
    return fmt::format("{} items of {} bytes as its header says", num_items(), shape());
  }

  fs::path path_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::vector<std::uint64_t> dimensions_;
  std::uint64_t item_size_ = 1;
  std::uint64_t num_read_ = 0; ///< bytes of items read so far
};

IdxStream open_images(fs::path const& path) {
  IdxStream stream(path);
  if (stream.num_dimensions() < 2)
    fail_at(path.string(), "an IDX file of one dimension, which holds labels", "two or more dimensions for images");
  return stream;
}

IdxStream open_idx_labels(fs::path const& path) {
  IdxStream stream(path);
  if (stream.num_dimensions() != 1) {
    fail_at(path.string(), fmt::format("an IDX file of {} dimensions, which holds images", stream.num_dimensions()),
            "one dimension for labels");
  }
  return stream;
}

/// The value of each byte of an image; entry 0 is not used.
std::array<double, 256> values_of(PixelScale scale) {
  std::array<double, 256> values{};
  for (std::size_t byte = 0; byte < values.size(); ++byte) {
    auto const raw = static_cast<float>(byte);
    values[byte] = static_cast<double>(scale == PixelScale::unit ? raw / 255.0F : raw);
  }
  return values;
}

class IdxReader final : public SampleReader {
public:
  IdxReader(fs::path const& path, OptionalSampleRange const& range, PixelScale scale)
      : path_(path), values_(values_of(scale)), stream_(open_images(path)) {
    auto const [first, last] = rows_within(path, 0, stream_->num_items(), range);
    facts_ = {last - first, stream_->item_size(), 0, first, false};
    count();
    stream_.emplace(path_);
  }

  SampleBatch read(std::size_t first, std::size_t last) override {
    VARVE_REQUIRE(first <= last && last <= num_samples(), "samples outside the wanted range");
    auto const begin = first_sample() + first;
    if (begin < next_) { // streams cannot go back: read from the start again
      stream_.emplace(path_);
      next_ = 0;
    }
    stream_->skip_items(begin - next_);
    next_ = first_sample() + last;
    SampleSet samples;
    samples.first_sample = begin;
    samples.matrix.num_columns = num_neurons();
    for (auto row = first; row < last; ++row) append_image(samples.matrix);
    make_iso_if_equal(samples.matrix);
    return samples;
  }

private:
  /// Reads the whole file to check its length and to count the nonzero bytes of the wanted images.
  void count() {
    std::array<bool, 256> is_used{};
    auto const tally = [&](std::span<char> bytes) {
      for (char const letter : bytes) {
        is_used[static_cast<Byte>(letter)] = true;
        facts_.num_entries += letter != 0 ? 1 : 0;
      }
    };
    stream_->skip_items(first_sample());
    for (std::size_t row = 0; row < num_samples(); ++row) stream_->read(num_neurons(), tally);
    stream_->skip_items(stream_->num_items() - first_sample() - num_samples());
    stream_->require_end();
    facts_.has_one_value = std::ranges::count(is_used.begin() + 1, is_used.end(), true) == 1;
  }

  void append_image(SparseMatrix& matrix) {
    NeuronIndex pixel = 0;
    stream_->read(num_neurons(), [&](std::span<char> bytes) {
      for (char const letter : bytes) {
        if (letter != 0) {
          matrix.column_indices.push_back(pixel);
          matrix.values.push_back(values_[static_cast<Byte>(letter)]);
        }
        ++pixel;
      }
    });
    matrix.row_pointers.push_back(matrix.num_entries());
    ++matrix.num_rows;
  }

  fs::path path_;
  std::array<double, 256> values_;
  std::optional<IdxStream> stream_;
  std::uint64_t next_ = 0; ///< the next image in the stream
};

} // namespace

bool is_idx(fs::path const& path) {
  std::array<char, 2> head{};
  return open_bytes(path)->read(head) == head.size() && head[0] == 0 && head[1] == 0;
}

std::unique_ptr<SampleReader> open_idx_images(fs::path const& path, OptionalSampleRange const& range,
                                              PixelScale scale) {
  return std::make_unique<IdxReader>(path, range, scale);
}

std::uint64_t num_idx_labels(fs::path const& path) { return open_idx_labels(path).num_items(); }

Labels read_idx_labels(fs::path const& path, OptionalSampleRange const& range) {
  auto stream = open_idx_labels(path);
  auto const [first, last] = rows_within(path, 0, stream.num_items(), range);
  Labels labels{{}, first};
  stream.skip_items(first);
  stream.read(last - first, [&](std::span<char> bytes) {
    for (char const letter : bytes) labels.classes.push_back(static_cast<Byte>(letter));
  });
  stream.skip_items(stream.num_items() - last);
  stream.require_end();
  return labels;
}

} // namespace varve
