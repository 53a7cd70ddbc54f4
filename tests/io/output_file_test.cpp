#include "io/output_file.hpp"

#include "io/files.hpp"
#include "io/text_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::expect_holds;
using test::read_bytes;
using test::sentence_of;
using test::TemporaryFolder;
using test::write_bytes;

TEST(OutputFile, AppearsWithCommitOnly) {
  TemporaryFolder const folder;
  auto const path = folder / "out.txt";
  {
    OutputFile file(path);
    expect_holds(file.partial_path().string(), path.string() + ".partial-");
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

TEST(OutputFile, OthersThanThoseWrittenAreNoticedBeforeItAppears) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "out.txt", "older");
  auto const sentence_for = [&](auto const& are_in) {
    OutputFile file(path);
    write_bytes(file.partial_path(), "newer");
    return sentence_of<ResourceError>([&] { file.commit(are_in); });
  };
  expect_holds(sentence_for([](fs::path const&) { return false; }),
               path.string() + " cannot be written: it holds other numbers than were written");
  expect_holds(sentence_for([](fs::path const&) -> bool { throw InputError("broken"); }),
               path.string() + " cannot be written: what was written cannot be read back (broken)");
  {
    OutputFile file(path);
    file.write("newer");
    fs::resize_file(file.partial_path(), 4);
    expect_holds(sentence_of<ResourceError>([&] { file.commit(); }), "it has 4 bytes after 5 were written");
  }
  EXPECT_EQ(read_bytes(path), "older");
  EXPECT_EQ(folder.num_entries(), 1);
  OutputFile file(path);
  write_bytes(file.partial_path(), "newer");
  file.commit([](fs::path const& partial) { return read_bytes(partial) == "newer"; });
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

TEST(OutputFile, NobodyCanForeseeThePartialName) {
  TemporaryFolder const folder;
  std::set<std::string> names;
  for (int round = 0; round < 20; ++round) names.insert(OutputFile(folder / "out.txt").partial_path().string());
  EXPECT_EQ(names.size(), 20U);
  for (auto const& name : names) EXPECT_EQ(name.size(), (folder / "out.txt.partial-0123456789abcdef").string().size());
}

TEST(OutputFile, LinksThatLeadNowhereAreFollowedOrRefusedAndNeverReplaced) {
  TemporaryFolder const folder;
  fs::create_directory(folder / "below");
  fs::create_symlink("below/new.txt", folder / "link.txt");
  OutputFile file(folder / "link.txt");
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_bytes(folder / "below/new.txt"), "new");

  fs::create_symlink("there", folder / "here");
  fs::create_symlink("here", folder / "there");
  EXPECT_EQ(sentence_of<ResourceError>([&] { OutputFile looping(folder / "here"); }),
            (folder / "here").string() + " cannot be written: Too many levels of symbolic links");
  EXPECT_THROW(OutputFolder(folder / "there"), ResourceError);
  EXPECT_THROW(require_writable(folder / "there"), ResourceError);
  EXPECT_TRUE(fs::is_symlink(folder / "here"));
  EXPECT_TRUE(fs::is_symlink(folder / "there"));
}

TEST(Leftovers, OfKilledRunsAreRemovedAndOthersStay) {
  TemporaryFolder const folder;
  auto const path = folder / "out.txt";
  write_bytes(folder / "out.txt.partial-0123456789abcdef", "half");
  fs::create_directory(folder / "out.txt.partial-00112233445566ff");
  fs::create_directory(folder / "out.txt.partial-ff00112233445566");
  for (std::string const name : {"n32-l1.tsv", "n32-l2.tsv.gz"})
    write_bytes(folder / "out.txt.partial-ff00112233445566" / name, "half");
  for (std::string const name : {"out.txt", "out.txt.partial-12", "out.txt.partial-0123456789abcdeg",
                                 "other.txt.partial-0123456789abcdef", "out.txt.partial-0123456789abcdef0"})
    write_bytes(folder / name, "kept");
  OutputFile alive(path);
  EXPECT_TRUE(remove_leftovers(path).empty());
  EXPECT_FALSE(fs::exists(folder / "out.txt.partial-0123456789abcdef"));
  EXPECT_FALSE(fs::exists(folder / "out.txt.partial-00112233445566ff"));
  EXPECT_FALSE(fs::exists(folder / "out.txt.partial-ff00112233445566"));
  EXPECT_TRUE(fs::exists(alive.partial_path())) << "somebody writes it";
  EXPECT_EQ(folder.num_entries(), 6);
}

TEST(Leftovers, AreNothingThatAUserMayHaveMade) {
  TemporaryFolder const folder;
  auto const mark = [&](char digit) { return folder / ("out.partial-000000000000000" + std::string(1, digit)); };
  fs::create_directories(mark('1') / "below"); // a folder in the folder
  fs::create_directory(mark('2'));             // a file of another name
  write_bytes(mark('2') / "n32-l1.tsv", "1");
  write_bytes(mark('2') / "notes.txt", "kept");
  fs::create_directory(mark('3')); // a link with the name of a layer file
  fs::create_symlink(mark('2') / "n32-l1.tsv", mark('3') / "n32-l1.tsv");
  fs::create_symlink("nowhere", mark('4'));
  ASSERT_EQ(mkfifo(mark('5').c_str(), 0600), 0);
  auto const before = folder.num_entries();
  EXPECT_TRUE(remove_leftovers(folder / "out").empty());
  EXPECT_EQ(folder.num_entries(), before);
}

TEST(Leftovers, ThatAreNeededStay) {
  TemporaryFolder const folder;
  auto const needed = write_bytes(folder / "out.partial-0123456789abcdef", "kept");
  auto const other = write_bytes(folder / "out.partial-0123456789abcdee", "half");
  EXPECT_TRUE(remove_leftovers(folder / "out", [&](fs::path const& name) { return name == needed; }).empty());
  EXPECT_EQ(read_bytes(needed), "kept");
  EXPECT_FALSE(fs::exists(other));
}

TEST(Leftovers, ThatMayBeInUseAreNamed) {
  TemporaryFolder const folder;
  auto const left = write_bytes(folder / "out.txt.partial-0123456789abcdef", "half");
  int const reader = open(left.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(reader, LOCK_SH), 0); // neither free nor locked as its writer would
  EXPECT_EQ(remove_leftovers(folder / "out.txt"), std::vector<fs::path>{left});
  EXPECT_TRUE(fs::exists(left));
  close(reader);
  EXPECT_TRUE(remove_leftovers(folder / "out.txt").empty());
  EXPECT_FALSE(fs::exists(left));
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
