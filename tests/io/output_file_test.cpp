#include "io/output_file.hpp"

#include "io/files.hpp"
#include "io/text_file.hpp"

#include <string>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::expect_holds;
using testing::read_bytes;
using testing::sentence_of;
using testing::TemporaryFolder;
using testing::write_bytes;

TEST(OutputFile, AppearsWithCommitOnly) {
  TemporaryFolder const folder;
  auto const path = folder / "out.txt";
  {
    OutputFile file(path);
    EXPECT_EQ(file.partial_path().string(), path.string() + ".partial-" + std::to_string(getpid()));
    file.write("half");
    EXPECT_FALSE(fs::exists(path));
    EXPECT_TRUE(fs::exists(file.partial_path()));
    file.write(" and half");
    file.commit();
  }
  EXPECT_EQ(read_bytes(path), "half and half");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(OutputFile, WithoutCommitTheOlderFileStays) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "out.txt", "older");
  { OutputFile(path).write("newer"); }
  EXPECT_EQ(read_bytes(path), "older");
  EXPECT_EQ(folder.num_entries(), 1);
  OutputFile file(path);
  file.write("newer");
  file.commit();
  EXPECT_EQ(read_bytes(path), "newer");
}

TEST(OutputFile, SymbolicLinkStaysAndItsFileIsReplaced) {
  TemporaryFolder const folder;
  auto const real = write_bytes(folder / "real.txt", "older");
  fs::create_symlink(real, folder / "link.txt");
  OutputFile file(folder / "link.txt");
  file.write("newer");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_bytes(real), "newer");
}

TEST(OutputFile, WhatCannotBeWrittenIsNamed) {
  TemporaryFolder const folder;
  auto const path = folder / "no_such_folder/out.txt";
  EXPECT_EQ(sentence_of<ResourceError>([&] { OutputFile file(path); }),
            path.string() + " cannot be written: No such file or directory");
  expect_holds(sentence_of<UsageError>([&] { OutputFile file(folder.path()); }), "is a folder");
  expect_holds(sentence_of<UsageError>([&] { OutputFile file(folder / "new/"); }), "is a folder");
  expect_holds(sentence_of<UsageError>([&] { OutputFile file(""); }), "is empty");
}

TEST(OutputFile, DevicesAreWrittenDirectlyAndAFullDiskIsAnError) {
  {
    OutputFile file("/dev/null");
    file.write("gone");
    file.commit();
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  OutputFile full("/dev/full");
  EXPECT_EQ(sentence_of<ResourceError>([&] { full.write("too much"); }),
            "/dev/full cannot be written: No space left on device");
  TextWriter text("/dev/full");
  EXPECT_EQ(sentence_of<ResourceError>([&] {
              text.write(std::string(1 << 20, 'x'));
              text.commit();
            }),
            "/dev/full cannot be written: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(OutputFolder, AppearsWithCommitOnly) {
  TemporaryFolder const folder;
  {
    OutputFolder abandoned(folder / "abandoned");
    write_bytes(abandoned.partial_path() / "file", "text");
  }
  EXPECT_EQ(folder.num_entries(), 0);
  OutputFolder kept(folder / "kept/");
  write_bytes(kept.partial_path() / "file", "text");
  EXPECT_FALSE(fs::exists(folder / "kept"));
  kept.commit();
  EXPECT_EQ(read_bytes(folder / "kept/file"), "text");
  EXPECT_EQ(folder.num_entries(), 2);
}

TEST(OutputFolder, ReplacesAnEmptyFolderAndNothingElse) {
  TemporaryFolder const folder;
  fs::create_directory(folder / "empty");
  OutputFolder(folder / "empty").commit();
  write_bytes(folder / "empty/file", "text");
  expect_holds(sentence_of<UsageError>([&] { OutputFolder refused(folder / "empty"); }), "already holds files");
  expect_holds(sentence_of<UsageError>([&] { OutputFolder refused(folder / "empty/file"); }), "is a file");
  expect_holds(sentence_of<ResourceError>([&] { OutputFolder refused(folder / "no/folder"); }), "cannot be written");
  EXPECT_EQ(folder.num_entries(), 2);
}

} // namespace
} // namespace varve
