#include "apps/shared_folder.hpp"
#include "io/container.hpp"
#include "io/text_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::succeed;
using ::testing::HasSubstr;
using varve::test::TemporaryFolder;
using varve::test::write_bytes;

/// A run of the command that has ended, and the most memory that it or a child of it had at a time.
struct Measured {
  int exit_code = -1;
  std::string err;
  std::uint64_t bytes = 0;
};

Measured measure(std::vector<std::string> words) {
  TemporaryFolder const folder;
  auto const err = (folder / "err").string();
  words.insert(words.begin(), VARVE_COMMAND);
  pid_t const process = test::start(words, (folder / "out").string(), err);
  int status = 0;
  rusage usage{};
  wait4(process, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, varve::test::read_bytes(err),
          static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

/// Small files that say that they are large. None may cost more than 64 MiB, or 8 times its uncompressed content.
class SmallFiles : public test::SharedFolder<SmallFiles> {
public:
  static void make_files() {
    test::generate_small(good("net.safetensors"), good("img.safetensors"), 2, 20);
    succeed({"convert", good("img.safetensors"), good("img.tsv")});
    usual_ = std::max(measure({"infer", "--network", good("net.safetensors"), "--input", good("img.tsv")}).bytes,
                      measure({"info", good("net.safetensors")}).bytes);
  }

protected:
  static std::string good(std::string const& name) { return path(name); }
  std::string bad(std::string const& name) const { return (bad_ / name).string(); }

  /// The same few bytes many times over, compressed.
  std::string repeated(std::string const& name, std::string const& text, std::size_t bytes) const {
    TextWriter file(bad(name) + ".zst");
    std::string block;
    while (block.size() < (std::size_t{1} << 20)) block += text;
    for (std::size_t written = 0; written < bytes; written += block.size()) file.write(block);
    file.commit();
    std::filesystem::rename(bad(name) + ".zst", bad(name));
    return bad(name);
  }

  static void expect_refused(std::vector<std::string> const& words, std::string const& part) {
    auto const ended = measure(words);
    EXPECT_EQ(ended.exit_code, 3) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(part));
#if !defined(VARVE_ADDRESS_SANITIZER)
    EXPECT_LT(ended.bytes, usual_ + (std::uint64_t{64} << 20)) << "usually " << usual_;
#endif
  }

private:
  static inline std::uint64_t usual_ = 0;
  TemporaryFolder bad_;
};

TEST_F(SmallFiles, OneImageOfALargeNumber) {
  auto const images = write_bytes(bad("big.tsv"), "100000000\t1\t1\n").string();
  expect_refused({"infer", "--network", good("net.safetensors"), "--input", images},
                 "a text of 14 bytes for 100000000 rows");
  expect_refused({"info", images, "--text", "neurons=32"}, "a text of 14 bytes for 100000000 rows");
  expect_refused({"convert", images, bad("x.safetensors"), "--text", "neurons=32"},
                 "a text of 14 bytes for 100000000 rows");
}

TEST_F(SmallFiles, OneEdgeAgainAndAgain) {
  std::filesystem::create_directory(bad("net"));
  repeated("net/n32-l1.tsv.zst", "1\t1\t1\n", std::size_t{200} << 20);
  expect_refused({"info", bad("net"), "--text", "bias=-0.2"},
                 "n32-l1.tsv.zst:2: found input 1, output 1 a second time");
  auto const images = repeated("img.tsv.zst", "1\t1\t1\n", std::size_t{200} << 20);
  expect_refused({"infer", "--network", good("net.safetensors"), "--input", images},
                 "img.tsv.zst:2: found image 1, pixel 1 a second");
}

TEST_F(SmallFiles, OneCategoryAgainAndAgain) {
  auto const truth = repeated("truth.tsv.zst", "1\n", std::size_t{100} << 20);
  expect_refused({"infer", "--network", good("net.safetensors"), "--input", good("img.safetensors"), "--truth", truth},
                 "truth.tsv.zst:2: found sample 1 a second time");
}

TEST_F(SmallFiles, AnEmptyLayerOfManyNeurons) {
  std::filesystem::create_directory(bad("net"));
  write_bytes(bad("net/n200000000-l1.tsv"), "");
  expect_refused({"info", bad("net"), "--text", "bias=-0.2"}, "a text of 0 bytes for 200000000 rows");
}

TEST_F(SmallFiles, AHeaderThatTheFileDoesNotHold) {
  std::uint64_t const length = 99'999'999;
  auto const network =
      write_bytes(bad("net.safetensors"), std::string(reinterpret_cast<char const*>(&length), sizeof(length)) + "{}");
  expect_refused({"info", network.string()}, "found no header of 99999999 bytes in a file of 10");
}

TEST_F(SmallFiles, ArraysThatTheFileDoesNotHold) {
  auto const bytes = varve::test::read_bytes(good("net.safetensors"));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  auto const whole = container::parse_header(bytes.substr(sizeof(length), length), "net");
  for (auto const& [name, part] :
       {std::pair("layers.0.bias", "where the one before ends"), std::pair("sha256", "by the header")}) {
    auto header = whole;
    auto& array = header.arrays.at(name);
    array.type = container::NumberType::u8;
    array.shape = {std::uint64_t{1} << 28U, 32};
    array.end = array.begin + (std::uint64_t{1} << 33U);
    auto text = container::header_text(header);
    ASSERT_LE(text.size(), length);
    text.resize(length, ' ');
    auto const network = write_bytes(bad("net.safetensors"),
                                     bytes.substr(0, sizeof(length)) + text + bytes.substr(sizeof(length) + length));
    expect_refused({"info", network.string()}, part);
  }
}

} // namespace
} // namespace varve
