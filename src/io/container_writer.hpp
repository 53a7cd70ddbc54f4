#pragma once

#include "core/types.hpp"
#include "io/checksum.hpp"
#include "io/container.hpp"
#include "io/output_file.hpp"
#include "io/whole_bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varve::container {

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
  void align(std::size_t size);
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
