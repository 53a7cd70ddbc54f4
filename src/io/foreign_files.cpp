#include "io/foreign_files.hpp"

#include "core/error.hpp"
#include "io/text_file.hpp"
#include "io/triple_text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
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
    auto const head = read_four();
    if (head[0] != 0 || head[1] != 0) fail_at(path_.string(), "no IDX file", "two zero bytes at its begin");
    if (head[2] != unsigned_bytes)
      fail_at(path_.string(), fmt::format("elements of the IDX type {:#04x}", head[2]), "0x08, unsigned bytes");
    if (head[3] == 0) fail_at(path_.string(), "an IDX file without dimensions", "1 for labels, 2 or more for images");
    dimensions_.resize(head[3]);
    for (auto& dimension : dimensions_)
      for (auto const digit : read_four()) dimension = dimension << 8U | digit;
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
  /// The next bytes of the header.
  std::array<Byte, 4> read_four() {
    std::array<char, 4> letters{};
    if (source_->read(letters) < letters.size())
      fail_at(path_.string(), "an end within the header of an IDX file", "all of it");
    return std::bit_cast<std::array<Byte, 4>>(letters);
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
  if (stream.num_dimensions() != 1)
    fail_at(path.string(), fmt::format("an IDX file of {} dimensions, which holds images", stream.num_dimensions()),
            "one dimension for labels");
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

namespace {

constexpr std::string_view magic = "%%matrixmarket";

std::string lower(std::string_view text) {
  std::string result(text);
  for (auto& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

/// The banner: %%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric, where
/// SciPy writes unsigned-integer, too
struct Banner {
  bool is_array = false;
  bool is_pattern = false;
  bool is_symmetric = false; ///< entries below the diagonal stand for two
  double mirrored_sign = 1.0;
};

Banner read_banner(fs::path const& path) {
  std::array<char, 256> head{};
  std::string_view const text(head.data(), open_bytes(path)->read(head));
  auto const line = text.substr(0, text.find('\n'));
  auto const small = lower(line);
  auto const words = words_of(small);
  auto const fail = [&](char const* expected) { fail_at_line(path, 1, quote(line), expected); };
  if (words.size() != 5 || words[0] != magic || words[1] != "matrix")
    fail("%%MatrixMarket matrix, and three words more");
  Banner found;
  found.is_array = words[2] == "array";
  found.is_pattern = words[3] == "pattern";
  found.is_symmetric = words[4] != "general";
  found.mirrored_sign = words[4] == "skew-symmetric" ? -1.0 : 1.0;
  if (!found.is_array && words[2] != "coordinate") fail("the format coordinate or array");
  constexpr std::array<std::string_view, 4> kinds_of_numbers = {"real", "integer", "unsigned-integer", "double"};
  bool const has_numbers = std::ranges::find(kinds_of_numbers, words[3]) != kinds_of_numbers.end();
  if (found.is_pattern ? found.is_array : !has_numbers)
    fail("values of the kind real, integer or, with coordinate, pattern");
  if (found.is_symmetric && words[4] != "symmetric" && words[4] != "skew-symmetric")
    fail("the symmetry general, symmetric or skew-symmetric");
  return found;
}

/// Throws InputError "PLACE: ..." if the indices of a matrix of this shape cannot be stored, or if its rows are so many
/// more than its entries that they would fill the memory.
void require_countable(std::uint64_t num_rows, std::uint64_t num_columns, std::uint64_t num_entries,
                       std::string const& place) {
  constexpr std::uint64_t largest = std::numeric_limits<NeuronIndex>::max();
  constexpr std::uint64_t always_countable = std::uint64_t{1} << 21; // rows that need no entries
  if (num_rows > largest || num_columns > largest)
    fail_at(place, fmt::format("a matrix of {} x {}", num_rows, num_columns), fmt::format("no more than {}", largest));
  if (num_rows > always_countable && num_rows > num_entries)
    fail_at(place, fmt::format("{} rows for {} entries", num_rows, num_entries),
            fmt::format("no more than {}, or than there are entries", always_countable));
}

/// Collects the entries of a file, line by line.
class Entries {
public:
  Entries(fs::path const& path, Banner const& banner) : path_(path), banner_(banner) {}

  void take(std::string_view line, std::size_t number) {
    rest_ = line;
    line_ = line;
    number_ = number;
    if (!has_size_) {
      take_size();
    } else if (num_lines_++ == expected_lines_) {
      fail_at_line(path_, number_, "another entry", fmt::format("{} as the line of sizes says", expected_lines_));
    } else if (banner_.is_array) {
      take_element();
    } else {
      take_entry();
    }
    if (!rest_.empty()) fail("no more on this line");
  }

  SparseMatrix finish() {
    if (!has_size_) throw InputError(path_.string() + ": found no line of sizes, expected one behind the banner");
    if (num_lines_ != expected_lines_)
      varve::fail<InputError>("{}: found {} entries, expected {} as the line of sizes says", path_.string(), num_lines_,
                              expected_lines_);
    std::vector<TripleBlock> blocks(1);
    blocks[0] = std::move(entries_);
    auto matrix = gather_rows(std::move(blocks), num_rows_, num_columns_);
    if (auto const row = sort_rows(matrix, false)) {
      auto const column = *std::ranges::adjacent_find(matrix.row_columns(*row));
      fail_at(path_.string(), fmt::format("row {}, column {} (both from 0) a second time", *row, column),
              "each entry once (SciPy: call sum_duplicates())");
    }
    require_valid(matrix, path_.string().c_str());
    return matrix;
  }

private:
  [[noreturn]] void fail(std::string_view expected) { fail_at_line(path_, number_, quote(line_), expected); }

  /// Removes a number and the blanks behind it from the rest of the line.
  template <class Number>
  Number take_number(char const* expected) {
    Number number{};
    if (rest_.starts_with("+-")) fail(expected); // what follows '+' is read without it
    if (rest_.starts_with('+')) rest_.remove_prefix(1);
    auto const* const end = rest_.data() + rest_.size();
    auto const [next, error] = std::from_chars(rest_.data(), end, number);
    bool const is_of_fortran = error == std::errc() && next != end && (*next == 'D' || *next == 'd');
    if (is_of_fortran) fail(fmt::format("{}, with e instead of Fortran's D", expected));
    if (error == std::errc::result_out_of_range) fail(fmt::format("{} within the range of its type", expected));
    if (error != std::errc() || (next != end && *next != ' ' && *next != '\t')) fail(expected);
    rest_.remove_prefix(static_cast<std::size_t>(next - rest_.data()));
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    return number;
  }

  double take_value() {
    auto const value = take_number<double>("a number");
    if (!std::isfinite(value)) fail("a finite number");
    return value;
  }

  void take_size() {
    num_rows_ = take_number<std::uint64_t>("the number of rows");
    num_columns_ = take_number<std::uint64_t>("the number of columns");
    if (banner_.is_symmetric && num_rows_ != num_columns_) fail("as many rows as columns in a symmetric matrix");
    if (banner_.is_array) {
      bool const has_diagonal = banner_.mirrored_sign > 0.0;
      expected_lines_ = !banner_.is_symmetric
                            ? capped_multiply(num_rows_, num_columns_)
                            : capped_multiply(num_rows_, has_diagonal ? num_rows_ + 1 : num_rows_ - 1) / 2;
      column_rows_begin();
    } else {
      expected_lines_ = take_number<std::uint64_t>("the number of entries");
    }
    require_countable(num_rows_, num_columns_, expected_lines_, fmt::format("{}:{}", path_.string(), number_));
    has_size_ = true;
  }

  /// Moves to the first stored element of the present column of an array.
  void column_rows_begin() { row_ = !banner_.is_symmetric ? 0 : column_ + (banner_.mirrored_sign > 0.0 ? 0 : 1); }

  void take_element() {
    auto const value = take_value();
    if (value != 0.0) add(row_, column_, value);
    if (++row_ < num_rows_) return;
    ++column_;
    column_rows_begin();
  }

  void take_entry() {
    auto const row = take_number<std::uint64_t>("a row, a column and a value, separated by blanks");
    auto const column = take_number<std::uint64_t>("a row and a column, separated by blanks");
    if (row < 1 || row > num_rows_) fail(fmt::format("a row from 1 to {}", num_rows_));
    if (column < 1 || column > num_columns_) fail(fmt::format("a column from 1 to {}", num_columns_));
    if (banner_.is_symmetric && column > row) fail("an entry on or below the diagonal of a symmetric matrix");
    double const value = banner_.is_pattern ? 1.0 : take_value();
    if (row == column && banner_.mirrored_sign < 0.0 && value != 0.0)
      fail("nothing but 0 on the diagonal of a skew-symmetric matrix");
    add(row - 1, column - 1, value);
  }

  void add(std::uint64_t row, std::uint64_t column, double value) {
    auto const at_row = static_cast<NeuronIndex>(row);
    auto const at_column = static_cast<NeuronIndex>(column);
    entries_.add(at_row, at_column, value);
    if (banner_.is_symmetric && row != column) entries_.add(at_column, at_row, banner_.mirrored_sign * value);
  }

  fs::path const& path_;
  Banner banner_;
  std::uint64_t num_rows_ = 0;
  std::uint64_t num_columns_ = 0;
  TripleBlock entries_;
  std::string_view line_; ///< the present line, and what of it is not yet parsed
  std::string_view rest_;
  std::size_t number_ = 0;
  bool has_size_ = false;
  std::uint64_t expected_lines_ = 0;
  std::uint64_t num_lines_ = 0;
  std::uint64_t row_ = 0; ///< the next element of an array
  std::uint64_t column_ = 0;
};

} // namespace

bool is_matrix_market(fs::path const& path) {
  std::array<char, magic.size()> head{};
  return open_bytes(path)->read(head) == head.size() && lower({head.data(), head.size()}) == magic;
}

SparseMatrix read_matrix_market(fs::path const& path) {
  Entries entries(path, read_banner(path));
  auto const take = [&](std::string_view line, std::size_t number) {
    entries.take(line, number);
    return true;
  };
  for_each_line(path, take, LastBreak::required);
  return entries.finish();
}

std::unique_ptr<SampleReader> open_matrix_market_samples(fs::path const& path, OptionalSampleRange const& range) {
  auto matrix = read_matrix_market(path);
  drop_zeros(matrix);
  auto const rows = rows_within(path, 0, matrix.num_rows, range);
  bool const is_whole = rows.first == 0 && rows.second == matrix.num_rows;
  auto part = is_whole ? std::move(matrix) : rows_of(matrix, rows.first, rows.second);
  make_iso_if_equal(part);
  return std::make_unique<SamplesInMemory>(SampleSet{std::move(part), rows.first});
}

} // namespace varve
