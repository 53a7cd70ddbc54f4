#include "io/text_file.hpp"

#include "io/files.hpp"

#include <algorithm>
#include <string>

namespace varve {
namespace {

using test::expect_holds;
using test::read_bytes;
using test::sentence_of;
using test::TemporaryFolder;
using test::write_bytes;

std::string const endings[] = {"", ".gz", ".xz", ".zst"};

std::string many_lines() {
  std::string text;
  for (int line = 1; line <= 50000; ++line)
    text += std::to_string(line) + "\t" + std::to_string(line * 7919 % 1021) + "\n";
  return text;
}

void write_text(std::filesystem::path const& path, std::string const& text) {
  TextWriter writer(path);
  writer.write(text.substr(0, text.size() / 3));
  writer.write(text.substr(text.size() / 3));
  writer.commit();
}

TEST(TextFile, WhatIsWrittenComesBackFromEveryCompression) {
  TemporaryFolder const folder;
  for (auto const& text : {std::string(), std::string("a"), many_lines()}) {
    for (auto const& ending : endings) {
      auto const path = folder / ("text" + ending);
      write_text(path, text);
      EXPECT_EQ(read_text(path), text) << ending;
    }
  }
}

TEST(TextFile, CompressionIsToldByTheFirstBytesNotTheName) {
  TemporaryFolder const folder;
  auto const text = many_lines();
  for (auto const& ending : endings) {
    write_text(folder / ("text" + ending), text);
    auto const path = folder / "named_otherwise.dat";
    std::filesystem::rename(folder / ("text" + ending), path);
    EXPECT_EQ(read_text(path), text) << ending;
  }
  EXPECT_EQ(read_text(write_bytes(folder / "plain.gz", "1\t2\n")), "1\t2\n");
}

TEST(TextFile, CompressedFilesShrink) {
  TemporaryFolder const folder;
  auto const text = many_lines();
  for (auto const& ending : {".gz", ".xz", ".zst"}) {
    write_text(folder / (std::string("text") + ending), text);
    EXPECT_LT(std::filesystem::file_size(folder / (std::string("text") + ending)), text.size() / 2) << ending;
  }
}

TEST(TextFile, SeveralMembersAreReadAsOneText) {
  TemporaryFolder const folder;
  for (auto const& ending : {".gz", ".xz", ".zst"}) {
    auto const one = folder / (std::string("one") + ending);
    auto const other = folder / (std::string("other") + ending);
    write_text(one, "first\n");
    write_text(other, "second\n");
    EXPECT_EQ(read_text(write_bytes(folder / "both", read_bytes(one) + read_bytes(other))), "first\nsecond\n")
        << ending;
  }
}

TEST(TextFile, BlocksEndAtLineEndsAndKnowTheirFirstLine) {
  TemporaryFolder const folder;
  auto const text = many_lines() + "no end";
  for (auto const& ending : endings) {
    auto const path = folder / ("text" + ending);
    write_text(path, text);
    for (std::size_t const block_size : {16U, 1000U, 4096U, 1U << 20U}) {
      TextReader reader(path, block_size);
      TextBlock block;
      std::string all;
      std::size_t line = 1;
      while (reader.next(block)) {
        ASSERT_LE(block.text.size(), block_size);
        ASSERT_EQ(block.first_line, line);
        line += static_cast<std::size_t>(std::ranges::count(block.text, '\n'));
        all += block.text;
        ASSERT_TRUE(all.ends_with("\n") || all.size() == text.size());
      }
      EXPECT_EQ(all, text);
    }
  }
}

TEST(TextFile, LineLongerThanABlockIsAnError) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "long.tsv", "short\n" + std::string(100, 'x'));
  TextReader reader(path, 50);
  TextBlock block;
  auto const sentence = sentence_of<InputError>([&] {
    while (reader.next(block)) {
    }
  });
  expect_holds(sentence, path.string() + ":2: found a line of more than 50 bytes");
}

TEST(TextFile, MissingFilesAndFoldersAreNamed) {
  TemporaryFolder const folder;
  auto const missing = folder / "missing.tsv";
  EXPECT_EQ(sentence_of<InputError>([&] { read_text(missing); }),
            missing.string() + " cannot be read: No such file or directory");
  EXPECT_EQ(sentence_of<InputError>([&] { read_text(folder.path()); }),
            folder.path().string() + " is a folder, expected a file");
}

TEST(TextFile, TruncationIsSeenAtEveryLength) {
  TemporaryFolder const folder;
  for (auto const& ending : {".gz", ".xz", ".zst"}) {
    auto const whole = folder / (std::string("whole") + ending);
    write_text(whole, many_lines().substr(0, 500));
    auto const bytes = read_bytes(whole);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      auto const path = write_bytes(folder / (std::string("cut") + ending), bytes.substr(0, length));
      auto const sentence = sentence_of<InputError>([&] { read_text(path); });
      ASSERT_EQ(sentence.find(path.string() + " is truncated"), 0U) << sentence << ", length " << length;
    }
  }
}

TEST(TextFile, DamageIsSeen) {
  TemporaryFolder const folder;
  for (auto const& ending : {".gz", ".xz", ".zst"}) {
    auto const path = folder / (std::string("text") + ending);
    write_text(path, many_lines());
    auto bytes = read_bytes(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
    write_bytes(path, bytes);
    expect_holds(sentence_of<InputError>([&] { read_text(path); }), path.string() + " is corrupt");
  }
}

TEST(TextFile, WithoutCommitNothingAppears) {
  TemporaryFolder const folder;
  for (auto const& ending : endings) {
    TextWriter writer(folder / ("text" + ending));
    writer.write(many_lines());
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

} // namespace
} // namespace varve
