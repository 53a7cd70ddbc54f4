#include "io/checksum.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/input_files.hpp"
#include "io/whole_bytes.hpp"

#include <sys/stat.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace varve {
namespace {

constexpr std::uint64_t odd_factor = 0x9e3779b97f4a7c15U; // 2^64 divided by the golden ratio

std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) {
  return std::rotl((sum ^ word) * odd_factor, 29) + 0x165667b19e3779f9U;
}

/// Final mixing step of splitmix64: every bit of the sum affects every bit of the result.
std::uint64_t finished(std::uint64_t sum) {
  sum = (sum ^ (sum >> 30U)) * 0xbf58476d1ce4e5b9U;
  sum = (sum ^ (sum >> 27U)) * 0x94d049bb133111ebU;
  return sum ^ (sum >> 31U);
}

std::uint64_t checksum_of_piece(std::filesystem::path const& path, int descriptor, std::uint64_t first,
                                std::uint64_t length) {
  std::string block(std::min<std::uint64_t>(length, std::uint64_t{1} << 20), '\0');
  std::uint64_t sum = 0;
  for (std::uint64_t done = 0; done < length;) {
    auto const wanted = std::min<std::uint64_t>(block.size(), length - done);
    auto const count = read_at(descriptor, first + done, block.data(), wanted);
    if (count < 0) fail_to_read(path, errno);
    if (count == 0) throw InputError(fmt::format("{} became shorter while it was read", path.string()));
    sum = checksum({block.data(), static_cast<std::size_t>(count)}, sum);
    done += static_cast<std::uint64_t>(count);
  }
  return sum;
}

} // namespace

std::uint64_t checksum(std::string_view bytes, std::uint64_t before) {
  std::uint64_t sum = mixed(before, bytes.size());
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    auto const size = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), size);
    sum = mixed(sum, word);
    bytes.remove_prefix(size);
  }
  return finished(sum);
}

std::uint64_t file_checksum(std::filesystem::path const& path) {
  auto const file = open_input(path);
  struct stat status {};
  if (fstat(file.number(), &status) != 0) fail_to_read(path, errno);
  auto const length = static_cast<std::uint64_t>(status.st_size);

  constexpr std::uint64_t piece = std::uint64_t{1} << 24;
  std::vector<std::uint64_t> sums((length + piece - 1) / piece);
  for_each_on_host_threads(sums.size(), [&](std::size_t number) {
    auto const first = number * piece;
    sums[number] = checksum_of_piece(path, file.number(), first, std::min(piece, length - first));
  });
  std::uint64_t sum = length;
  for (auto const next : sums) sum = mixed(sum, next);
  return finished(sum);
}

std::uint64_t files_checksum(std::vector<std::filesystem::path> const& files) {
  std::uint64_t sum = 0;
  for (auto const& file : files) {
    auto const next = file_checksum(file);
    sum = checksum({reinterpret_cast<char const*>(&next), sizeof(next)}, sum);
  }
  return sum;
}

} // namespace varve
