#include "io/checksum.hpp"

#include "io/files.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace varve {
namespace {

using test::expect_holds;
using test::sentence_of;
using test::TemporaryFolder;
using test::write_bytes;

TEST(Checksum, TellsBytesTheirOrderAndTheirNumberApart) {
  std::set<std::uint64_t> sums;
  for (std::string const text : {"", "a", "b", "ab", "ba", "abcdefgh", "abcdefghi", "abcdefgi"})
    sums.insert(checksum(text));
  for (std::size_t zeros = 1; zeros < 40; ++zeros) sums.insert(checksum(std::string(zeros, '\0')));
  EXPECT_EQ(sums.size(), 8U + 39U);
  EXPECT_NE(checksum("a", 1), checksum("a", 2));
  EXPECT_EQ(checksum("the same", 5), checksum("the same", 5));
}

TEST(Checksum, NoticesEveryTurnedBit) {
  std::string const text(100, 'x');
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    auto changed = text;
    changed[bit / 8] = static_cast<char>(static_cast<unsigned char>(changed[bit / 8]) ^ (1U << bit % 8));
    EXPECT_NE(checksum(changed), checksum(text)) << bit;
  }
}

TEST(FileChecksum, IsOfTheContentAlone) {
  TemporaryFolder const folder;
  std::string bytes((std::size_t{1} << 24) + 12345, 'x'); // more than one piece
  auto const first = file_checksum(write_bytes(folder / "first", bytes));
  EXPECT_EQ(file_checksum(write_bytes(folder / "second", bytes)), first);
  bytes.back() = 'y';
  EXPECT_NE(file_checksum(write_bytes(folder / "second", bytes)), first);
  bytes.pop_back();
  EXPECT_NE(file_checksum(write_bytes(folder / "second", bytes)), first);
  EXPECT_NE(file_checksum(write_bytes(folder / "empty", "")), first);
  expect_holds(sentence_of<InputError>([&] { file_checksum(folder / "missing"); }), "No such file or directory");
}

TEST(NetworkChecksum, IsOfAllLayerFiles) {
  TemporaryFolder const folder;
  auto const options = test::with_bias();
  auto const network = test::random_challenge_network(4, 20, 3, test::Values::floats);
  for (std::string const name : {"net.tsv", "net.safetensors"}) {
    save_network(network, folder / name);
    auto const sum = network_checksum(folder / name, options);
    EXPECT_EQ(network_checksum(folder / name, options), sum);
    if (name == "net.safetensors") continue;
    write_bytes(folder / name / "notes.txt", "no layer");
    EXPECT_EQ(network_checksum(folder / name, options), sum);
    write_bytes(folder / name / "n20-l3.tsv", "1\t1\t0.5\n");
    EXPECT_NE(network_checksum(folder / name, options), sum);
  }
}

} // namespace
} // namespace varve
