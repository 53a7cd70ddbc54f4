#include "io/matrix_chunks.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/chunk_decoder.hpp"
#include "io/partial_output.hpp"
#include "io/whole_bytes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace varve {
namespace {

constexpr std::size_t most_waiting_bytes = std::size_t{64} << 20U;

/// The part of a block that lies in another one; of size 0 if there is none.
MatrixBlock common_part(MatrixBlock const& a, MatrixBlock const& b) {
  MatrixBlock part;
  part.first_row = std::max(a.first_row, b.first_row);
  part.first_column = std::max(a.first_column, b.first_column);
  auto const end_row = std::min(a.first_row + a.num_rows, b.first_row + b.num_rows);
  auto const end_column = std::min(a.first_column + a.num_columns, b.first_column + b.num_columns);
  if (end_row <= part.first_row || end_column <= part.first_column) return {};
  part.num_rows = end_row - part.first_row;
  part.num_columns = end_column - part.first_column;
  return part;
}

/// Numbers that stand before a string of bytes in MatrixPlaces::to_bytes().
struct Head {
  std::uint64_t file_length, name_length, num_chunks, rows, columns, chunk_rows, chunk_columns, element_size;
};

} // namespace

MatrixBlock MatrixPlaces::block_of(std::uint64_t number) const {
  MatrixBlock block;
  block.first_row = number / chunks_across() * chunk[0];
  block.first_column = number % chunks_across() * chunk[1];
  block.num_rows = std::min(chunk[0], sizes[0] - block.first_row);
  block.num_columns = std::min(chunk[1], sizes[1] - block.first_column);
  return block;
}

bool MatrixPlaces::has_whole_chunks(MatrixBlock const& block) const {
  auto const is_edge = [](std::uint64_t place, std::uint64_t size, std::uint64_t step) {
    return place == size || place % step == 0;
  };
  return is_edge(block.first_row, sizes[0], chunk[0]) && is_edge(block.first_column, sizes[1], chunk[1]) &&
         is_edge(block.first_row + block.num_rows, sizes[0], chunk[0]) &&
         is_edge(block.first_column + block.num_columns, sizes[1], chunk[1]);
}

std::string MatrixPlaces::to_bytes() const {
  Head const head{file.string().size(), name.string().size(), addresses.size(), sizes[0], sizes[1], chunk[0], chunk[1],
                  element_size};
  std::string bytes(reinterpret_cast<char const*>(&head), sizeof(head));
  bytes += file.string();
  bytes += name.string();
  bytes.append(reinterpret_cast<char const*>(addresses.data()), addresses.size() * sizeof(addresses[0]));
  return bytes;
}

MatrixPlaces MatrixPlaces::from_bytes(std::string_view bytes) {
  Head head{};
  if (bytes.size() < sizeof(head)) throw InputError("the places of a matrix are incomplete");
  std::memcpy(&head, bytes.data(), sizeof(head));
  bytes.remove_prefix(sizeof(head));
  if (bytes.size() != head.file_length + head.name_length + head.num_chunks * sizeof(std::uint64_t))
    throw InputError("the places of a matrix are incomplete");
  MatrixPlaces places;
  places.file = std::string(bytes.substr(0, head.file_length));
  places.name = std::string(bytes.substr(head.file_length, head.name_length));
  places.sizes = {head.rows, head.columns};
  places.chunk = {head.chunk_rows, head.chunk_columns};
  places.element_size = head.element_size;
  places.addresses.resize(head.num_chunks);
  auto const rest = bytes.substr(head.file_length + head.name_length);
  if (!rest.empty()) std::memcpy(places.addresses.data(), rest.data(), rest.size());
  return places;
}

MatrixChunks::MatrixChunks(MatrixPlaces places) : places_(std::move(places)) {
  descriptor_ = open(places_.file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) fail_to_write(places_.name, errno);
}

MatrixChunks::~MatrixChunks() { close(descriptor_); }

void MatrixChunks::write(MatrixBlock const& block, char const* values) {
  if (block.size() == 0) return;
  auto const first_row = block.first_row / places_.chunk[0];
  auto const first_column = block.first_column / places_.chunk[1];
  auto const num_across = (block.first_column + block.num_columns - 1) / places_.chunk[1] - first_column + 1;
  auto const num_down = (block.first_row + block.num_rows - 1) / places_.chunk[0] - first_row + 1;
  auto const number_of = [&](std::size_t which) {
    return (first_row + which / num_across) * places_.chunks_across() + first_column + which % num_across;
  };
  auto const is_whole = [&](MatrixBlock const& chunk) { return common_part(chunk, block).size() == chunk.size(); };
  for_each_on_host_threads(num_across * num_down, [&](std::size_t which) {
    auto const chunk = places_.block_of(number_of(which));
    if (!is_whole(chunk)) return;
    thread_local std::vector<char> numbers;
    numbers.assign(places_.chunk_bytes(), '\0');
    copy_into(chunk, numbers.data(), block, values);
    put(number_of(which), numbers);
  });
  for (std::size_t which = 0; which < num_across * num_down; ++which)
    if (!is_whole(places_.block_of(number_of(which)))) write_part(number_of(which), block, values);
}

/// Copies the numbers that a chunk and a block have in common.
void MatrixChunks::copy_into(MatrixBlock const& chunk, char* numbers, MatrixBlock const& block,
                             char const* values) const {
  auto const part = common_part(chunk, block);
  auto const size = places_.element_size;
  for (auto row = part.first_row; row < part.first_row + part.num_rows; ++row) {
    auto const to = (row - chunk.first_row) * places_.chunk[1] + part.first_column - chunk.first_column;
    auto const from = (row - block.first_row) * block.num_columns + part.first_column - block.first_column;
    std::memcpy(numbers + to * size, values + from * size, part.num_columns * size);
  }
}

/// Adds numbers to a chunk of which others are written at other times.
void MatrixChunks::write_part(std::uint64_t number, MatrixBlock const& block, char const* values) {
  auto const chunk = places_.block_of(number);
  auto const [found, is_new] = parts_.try_emplace(number, Part{chunk.size(), {}});
  auto& part = found->second;
  if (part.numbers.empty()) {
    part.numbers.assign(places_.chunk_bytes(), '\0');
    ++num_waiting_;
    if (!is_new && !read_whole(number, part.numbers)) fail_to_write(places_.name, errno);
  }
  copy_into(chunk, part.numbers.data(), block, values);
  part.num_missing -= common_part(chunk, block).size();
  bool const is_complete = part.num_missing == 0;
  if (!is_complete && num_waiting_ * places_.chunk_bytes() <= most_waiting_bytes) return;
  put(number, part.numbers);
  --num_waiting_;
  if (is_complete) {
    parts_.erase(found);
  } else {
    part.numbers = {};
  }
}

/// Reads bytes from the place of a chunk. Returns false if the file has not so many there, and errno says why.
bool MatrixChunks::read_whole(std::uint64_t number, std::vector<char>& bytes) const {
  auto const count = read_at(descriptor_, places_.addresses[number], bytes.data(), bytes.size());
  if (count >= 0 && static_cast<std::size_t>(count) < bytes.size()) errno = EIO;
  return count == static_cast<std::int64_t>(bytes.size());
}

/// Writes a chunk with its checksum, lowest byte first, which is appended to `numbers`, and reads it back: a checksum
/// alone would take a chunk that was lost for one of zeros.
void MatrixChunks::put(std::uint64_t number, std::vector<char>& numbers) const {
  auto const sum = fletcher32(numbers);
  for (std::size_t byte = 0; byte < MatrixPlaces::checksum_bytes; ++byte)
    numbers.push_back(static_cast<char>(sum >> (8 * byte) & 0xffU));
  if (!write_at(descriptor_, places_.addresses[number], {numbers.data(), numbers.size()}))
    fail_to_write(places_.name, errno);
  thread_local std::vector<char> found;
  found.resize(numbers.size());
  if (!read_whole(number, found)) fail_to_write(places_.name, errno);
  if (std::memcmp(found.data(), numbers.data(), found.size()) == 0) return;
  throw ResourceError(fmt::format("{} cannot be written: a block of numbers read back differs from what was written; "
                                  "its disk or file system lost some",
                                  places_.name.string()));
}

void MatrixChunks::finish() {
  for (auto& [number, part] : parts_)
    if (!part.numbers.empty()) put(number, part.numbers);
  parts_.clear();
  num_waiting_ = 0;
  if (fsync(descriptor_) != 0) fail_to_write(places_.name, errno);
}

} // namespace varve
