#include "io/files.hpp"
#include "io/text_file.hpp"

#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace varve {
namespace {

using test::sentence_of;
using test::TemporaryFolder;

/// This program is built with a text_file.cpp that lacks liblzma, as on a machine that has none.
TEST(WithoutXz, ReadingIsRefusedWithTheNameOfTheFile) {
  TemporaryFolder const folder;
  auto const path = test::write_bytes(folder / "img.tsv.xz", std::string("\xfd"
                                                                         "7zXZ\0 and more",
                                                                         15));
  EXPECT_EQ(sentence_of<InputError>([&] { open_bytes(path); }),
            path.string() + " is compressed by xz, which this build of Varve lacks; unpack it, or build with liblzma");
}

TEST(WithoutXz, WritingIsRefused) {
  TemporaryFolder const folder;
  EXPECT_EQ(sentence_of<UsageError>([&] { TextWriter(folder / "img.tsv.xz"); }),
            "this build of Varve lacks xz; write .gz or .zst, or build with liblzma");
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(WithoutXz, OtherCompressionsRemain) {
  for (auto const compression : {Compression::none, Compression::gzip, Compression::zstd}) {
    TemporaryFolder const folder;
    auto const path = folder / (std::string("text") + ending_of(compression));
    TextWriter file(path);
    file.write("1\t2\t3\n");
    file.commit();
    std::string bytes(16, ' ');
    bytes.resize(open_bytes(path)->read(bytes));
    EXPECT_EQ(bytes, "1\t2\t3\n");
  }
}

} // namespace
} // namespace varve
