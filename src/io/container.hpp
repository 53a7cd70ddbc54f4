#pragma once

#include "io/checksum.hpp"
#include "io/input_files.hpp"
#include "io/output_file.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// The container of Varve's files: safetensors with a description and hashes (FORMAT.md).
namespace varve::container {

/// Bytes of an array that have a hash of their own.
inline constexpr std::size_t piece_size = std::size_t{1} << 16U;

inline constexpr std::size_t longest_header = 100'000'000; ///< in bytes, that of the package safetensors

enum class NumberType { u8, u16, u32, u64, f32, f64 };

std::size_t size_of(NumberType type); ///< in bytes

char const* name_of(NumberType type); ///< in the header: "U8"

/// The type of the numbers of C++.
template <class Number>
constexpr NumberType type_of() {
  if constexpr (std::is_floating_point_v<Number>) {
    return sizeof(Number) == 4 ? NumberType::f32 : NumberType::f64;
  } else {
    static_assert(std::is_unsigned_v<Number> || std::is_same_v<Number, char>);
    return sizeof(Number) == 1   ? NumberType::u8
           : sizeof(Number) == 2 ? NumberType::u16
           : sizeof(Number) == 4 ? NumberType::u32
                                 : NumberType::u64;
  }
}

/// An array as the header tells of it.
struct Array {
  std::string name;
  NumberType type = NumberType::u8;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;       ///< of its bytes in the file
  std::uint64_t end = 0;         ///< after its last byte
  std::uint64_t first_piece = 0; ///< whose hash is that of its first bytes
  bool is_known = false;         ///< File::array() or list() was called for it

  std::uint64_t count() const { return (end - begin) / size_of(type); } ///< of numbers
};

inline std::uint64_t pieces_of(std::uint64_t num_bytes) { return (num_bytes + piece_size - 1) / piece_size; }

/// True if a file begins like a container: with a length within the file, and a brace. Throws InputError if it cannot
/// be read.
bool is_container(std::filesystem::path const& path);

/// An open container. Its functions that are const may be called by several threads at a time.
class File {
public:
  /// Reads the header and the hashes. Throws InputError, naming the file, if it is missing, no such file, or broken.
  explicit File(std::filesystem::path const& path);

  std::filesystem::path const& path() const { return path_; }
  nlohmann::ordered_json const& description() const { return description_; }
  /// The hash over description and hashes, which identifies the content: the hexadecimal digits of `varve.sha256`.
  std::string const& identity() const { return identity_; }

  /// Throws InputError unless the description says this kind, in the version that is known, and has no keys but these,
  /// "kind" and "version".
  void require_kind(std::string_view kind, std::initializer_list<std::string_view> keys) const;

  bool has(std::string const& name) const { return arrays_.contains(name); }
  Array const& at(std::string const& name) const { return arrays_.at(name); } ///< one that is there

  /// An array that must be there. Throws InputError if it is not, or has another type than these. The caller checks its
  /// shape.
  Array const& array(std::string const& name, std::initializer_list<NumberType> types);
  /// The same for an array of one dimension with `count` numbers or, if `may_be_one`, a single one.
  Array const& list(std::string const& name, std::initializer_list<NumberType> types, std::uint64_t count,
                    bool may_be_one = false);
  /// Throws InputError if there are arrays for which neither of these functions was called.
  void require_no_others() const;

  /// Reads numbers [first, first + numbers.size()) of an array, which a Number can hold, on all host threads, and calls
  /// visit(part) for each part, on the thread that has read it, whose caches still hold it. Throws InputError if the
  /// file cannot be read, or if a piece has another hash than it should.
  template <class Number>
  void read(
      Array const& array, std::uint64_t first, std::span<Number> numbers,
      std::type_identity_t<std::function<void(std::span<Number>)>> const& visit = [](std::span<Number>) {}) const;

  template <class Number>
  std::vector<Number> read_all(Array const& array) const {
    std::vector<Number> numbers(array.count());
    read(array, 0, std::span(numbers));
    return numbers;
  }

  /// Reads the bytes [first, first + bytes.size()) of an array, all in whole pieces that are checked.
  void read_bytes(Array const& array, std::uint64_t first, std::span<char> bytes) const;

  /// Reads all arrays. Throws InputError if a piece has another hash than it should.
  void check_all() const;

private:
  void place_arrays(std::uint64_t begin, std::uint64_t size);
  void read_hashes(std::string const& text, std::string const& expected);
  void read_at(std::uint64_t first, std::span<char> bytes) const;
  void check_piece(Array const& array, std::uint64_t piece, std::string_view bytes) const;
  void read_piece(Array const& array, std::uint64_t piece, std::uint64_t first, std::span<char> bytes) const;

  std::filesystem::path path_;
  Descriptor file_;
  nlohmann::ordered_json description_;
  std::string identity_;
  std::map<std::string, Array> arrays_;
  std::vector<Digest> hashes_;
  std::unique_ptr<std::atomic<bool>[]> is_checked_; ///< pieces that were read and had the right hash
};

/// The member of an object as a count. Throws InputError "PLACE: ..." if it is missing or none.
std::uint64_t count_in(nlohmann::ordered_json const& object, std::string_view key, std::string const& place);

/// [rows, columns], the member "shape" of an object. Throws InputError "PLACE: ..." if it is something else, or if a
/// number exceeds what indices can count.
std::array<std::uint64_t, 2> shape_in(nlohmann::ordered_json const& object, std::string const& place);

/// Throws InputError "PLACE: ..." if an object has other keys than these.
void require_keys(nlohmann::ordered_json const& object, std::vector<std::string_view> const& keys,
                  std::string const& place);

/// The header of a safetensors file. Places of arrays count from the end of the header.
struct Header {
  std::map<std::string, Array> arrays;
  std::map<std::string, std::string> metadata;
};

/// Parses a header, in memory for what it says and not for its JSON. Throws InputError "PLACE: ..." if it is none, says
/// something twice, or if the bytes of an array are not those of its type and shape.
Header parse_header(std::string_view text, std::string const& place);

/// The text of a header.
std::string header_text(Header const& header);

/// The hashes of the pieces of an array, by all host threads.
std::vector<Digest> hashes_of(std::string_view bytes);

/// The bytes of numbers in memory.
template <class Number>
std::string_view bytes_of(std::vector<Number> const& numbers) {
  return {reinterpret_cast<char const*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// The bytes of an array that grows: those that do not fit a buffer wait in a file without a name.
class GrowingBytes {
public:
  /// `folder`: where such a file may lie. `path` is for messages.
  GrowingBytes(std::filesystem::path folder, std::filesystem::path path);

  /// Throws ResourceError if the disk is full or fails.
  void append(std::string_view bytes);
  std::uint64_t size() const { return num_stored_ + tail_.size(); }
  std::vector<Digest> hashes() const; ///< hashes_of() all bytes

  /// Calls visit(bytes) for all bytes in order, in whole pieces but for the last. Throws ResourceError if what comes
  /// back has another hash than what was appended.
  void for_each_part(std::function<void(std::string_view)> const& visit);

private:
  static constexpr std::size_t buffer_size = 16 * piece_size;

  std::filesystem::path folder_, path_;
  Descriptor file_{-1};
  std::string tail_; ///< of less than buffer_size bytes between calls
  std::uint64_t num_stored_ = 0;
  std::vector<Digest> hashes_; ///< of the stored bytes
};

/// Where the bytes of an array lie that other threads and processes write.
struct Place {
  std::filesystem::path file; ///< the partial file
  std::filesystem::path name; ///< the final one, for messages
  std::uint64_t begin = 0;
};

/// Writes a container, which appears on commit() or not at all.
class Writer {
public:
  /// The header gets room for so many arrays and a description of so many bytes. Throws as OutputFile does.
  Writer(std::filesystem::path const& path, std::size_t max_arrays, std::size_t description_bytes);

  std::filesystem::path const& path() const { return output_.path(); }
  /// The folder of the partial file.
  std::filesystem::path folder() const { return output_.partial_path().parent_path(); }

  /// Writes an array of this shape; `hashes` are hashes_of() its bytes. Throws ResourceError if the disk is full or
  /// fails.
  void add(std::string const& name, NumberType type, std::vector<std::uint64_t> shape, std::string_view bytes,
           std::vector<Digest> hashes);
  /// A list of numbers.
  template <class Number>
  void add(std::string const& name, std::vector<Number> const& numbers) {
    add(name, type_of<Number>(), {numbers.size()}, bytes_of(numbers), hashes_of(bytes_of(numbers)));
  }
  /// A list whose numbers have been collected.
  void add(std::string const& name, NumberType type, GrowingBytes& bytes);
  /// An array of zeros, over which others may write until commit().
  Place reserve(std::string const& name, NumberType type, std::vector<std::uint64_t> shape);

  /// Writes the hashes and the header, reads everything back, and makes the file appear. holds(partial file), if
  /// there is one, reads all of it, and returns false unless what was written to reserved places is there. Throws as
  /// OutputFile::commit.
  void commit(nlohmann::ordered_json const& description,
              std::function<bool(std::filesystem::path const&)> const& holds = {});

private:
  Array& place(std::string const& name, NumberType type, std::vector<std::uint64_t> shape);
  void write(std::uint64_t first, std::string_view bytes);
  void write_in_parts(std::uint64_t first, std::string_view bytes);
  void hash_reserved();

  OutputFile output_;
  Descriptor file_{-1};
  std::uint64_t begin_ = 0; ///< of the arrays
  std::uint64_t end_ = 0;   ///< of the last array
  Header header_;
  std::map<std::string, std::vector<Digest>> hashes_;
  std::vector<std::string> reserved_;
};

/// Numbers as floats, if these hold them exactly.
bool fit_float(std::span<double const> numbers);

/// A list of doubles in the narrower type that holds all of them.
void add_reals(Writer& writer, std::string const& name, std::vector<double> const& numbers);

} // namespace varve::container
