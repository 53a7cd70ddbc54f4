#include "io/file_roles.hpp"

#include "io/files.hpp"

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::expect_holds;
using test::sentence_of;
using test::TemporaryFolder;
using test::write_bytes;

std::string refusal(std::string const& input, std::string const& output, Content content = Content::lines) {
  FileRoles files;
  files.reads("--input", input);
  files.writes("--categories", output, content);
  return sentence_of<UsageError>([&] { files.require_sound(); });
}

void expect_taken(std::string const& input, std::string const& output, Content content = Content::lines) {
  FileRoles files;
  files.reads("--input", input);
  files.writes("--categories", output, content);
  EXPECT_NO_THROW(files.require_sound()) << input << " and " << output;
}

TEST(FileRoles, AnOutputIsNoInputByWhateverName) {
  TemporaryFolder const folder;
  auto const name = [&](std::string const& file) { return (folder / file).string(); };
  write_bytes(name("in"), "text");
  fs::create_directory(name("below"));
  fs::create_symlink("in", name("link"));
  fs::create_symlink("../in", name("below/link"));
  fs::create_symlink(".", name("same"));
  fs::create_hard_link(name("in"), name("hard"));
  for (std::string const other : {"in", "./in", "below/../in", "link", "below/link", "same/in", "hard"}) {
    EXPECT_EQ(refusal(name("in"), name(other)), "--categories " + name(other) + " would replace what --input " +
                                                    name("in") + " reads; give it another name");
    refusal(name(other), name("in"));
  }
  expect_taken(name("in"), name("out"));
  expect_taken(name("in"), name("below/in"));
  expect_taken("/dev/null", "/dev/null");
}

TEST(FileRoles, TwoOutputsAreTwoFiles) {
  TemporaryFolder const folder;
  fs::create_directory(folder / "below");
  fs::create_symlink("out", folder / "link"); // a link to a file that does not exist yet
  std::string const out = folder / "out";
  for (std::string const other : {folder / "out", folder / "below/../out", folder / "link"}) {
    FileRoles files;
    files.writes("--categories", out, Content::lines);
    files.writes("--predictions", other, Content::lines);
    EXPECT_EQ(sentence_of<UsageError>([&] { files.require_sound(); }),
              "--categories " + out + " and --predictions " + other + " are one file; give each its own");
  }
  FileRoles nowhere;
  nowhere.writes("--categories", "/dev/null", Content::lines);
  nowhere.writes("--predictions", "/dev/null", Content::lines);
  EXPECT_NO_THROW(nowhere.require_sound());
}

TEST(FileRoles, AJournalHasAFileForEachRank) {
  TemporaryFolder const folder;
  std::string const journal = folder / "journal";
  for (auto const& [other, is_taken] :
       {std::pair("journal", false), std::pair("journal.1", false), std::pair("journal.17", false),
        std::pair("journal.tsv", true), std::pair("journal.", true), std::pair("journal2", true)}) {
    FileRoles first;
    first.writes("--journal", journal, Content::journal);
    first.writes("--categories", folder / other, Content::lines);
    FileRoles last;
    last.writes("--categories", folder / other, Content::lines);
    last.writes("--journal", journal, Content::journal);
    FileRoles input;
    input.reads("--input", folder / other);
    input.writes("--journal", journal, Content::journal);
    for (auto const* const files : {&first, &last, &input}) {
      bool is_refused = false;
      try {
        files->require_sound();
      } catch (UsageError const&) {
        is_refused = true;
      }
      EXPECT_EQ(is_refused, !is_taken) << other;
    }
  }
}

TEST(FileRoles, AnOutputIsNoLayerFileOfANetworkThatIsRead) {
  TemporaryFolder const folder;
  for (std::string const network : {"net", "all/neuron32"}) {
    fs::create_directories(folder / network);
    write_bytes(folder / (network + "/n32-l1.tsv"), "1\t1\t1\n");
    write_bytes(folder / (network + "/notes.tsv"), "");
  }
  write_bytes(folder / "elsewhere.tsv", "1\t1\t1\n");
  fs::create_symlink(folder / "elsewhere.tsv", folder / "net/n32-l2.tsv.gz");
  fs::create_hard_link(folder / "net/n32-l1.tsv", folder / "hard.tsv");
  for (auto const& [network, output] :
       {std::pair("net", "net/n32-l1.tsv"), std::pair("net", "net/n32-l2.tsv.gz"), std::pair("net", "elsewhere.tsv"),
        std::pair("net", "hard.tsv"), std::pair("net", "net"), std::pair("all", "all/neuron32/n32-l1.tsv")}) {
    expect_holds(refusal(folder / network, folder / output), "would replace what --input");
  }
  for (auto const& [network, output] :
       {std::pair("net", "net/n32-l3.tsv.xz"), std::pair("all/neuron32", "all/neuron32/n32-l9.tsv"),
        std::pair("all", "all/neuron32/n32-l9.tsv")}) {
    expect_holds(refusal(folder / network, folder / output), "would become a part of the folder that --input");
  }
  expect_taken(folder / "net", folder / "all/neuron32/n32-l1.tsv");
  expect_taken(folder / "net/notes.tsv", folder / "net/alive.tsv");
}

TEST(FileRoles, AnOutputDoesNotChangeWhatNetworkAFolderIs) {
  TemporaryFolder const folder;
  fs::create_directories(folder / "net/below");
  fs::create_symlink("net", folder / "link");
  write_bytes(folder / "net/n32-l1.tsv", "1\t1\t1\n");
  std::string const net = folder / "net";
  EXPECT_EQ(refusal(net, folder / "net/network.json", Content::json),
            "--categories " + (folder / "net/network.json").string() +
                " would become a part of the folder that --input " + net + " reads; give it another folder");
  for (std::string const name : {"net/last.safetensors", "net/notes.tsv", "link/alive.tsv", "net/below/../alive.tsv"}) {
    expect_holds(refusal(net, folder / name, Content::network_or_samples), "would become a part of the folder");
    expect_holds(refusal(folder / "link", folder / name, Content::network_or_samples), "would become a part of");
  }
  expect_taken(net, folder / "net/below/alive.tsv");
  expect_taken(net, folder / "alive.tsv");
}

TEST(FileRoles, LeftoversAreNeverFilesOfThisRun) {
  TemporaryFolder const folder;
  auto const mark = [&](std::string const& target, char digit) {
    return (folder / (target + ".partial-000000000000000" + std::string(1, digit))).string();
  };
  FileRoles files;
  files.reads("--input", write_bytes(mark("out.safetensors", '0'), "input"));
  fs::create_symlink(write_bytes(mark("out.safetensors", '1'), "input"),
                     folder / "link"); // an input under another name
  files.reads("--truth", folder / "link");
  fs::create_directory(mark("out.safetensors", '3')); // the folder of an input
  files.reads("--labels", write_bytes(mark("out.safetensors", '3') + "/n32-l1.tsv", "labels"));
  files.writes("--output", folder / "out.safetensors", Content::container);
  files.writes("--journal", write_bytes(mark("out.safetensors", '4'), "journal"), Content::journal);
  auto const left = write_bytes(mark("out.safetensors", '5'), "half");
  EXPECT_TRUE(files.remove_leftovers().empty());
  for (char const digit : {'0', '1', '4'}) EXPECT_TRUE(fs::is_regular_file(mark("out.safetensors", digit))) << digit;
  EXPECT_TRUE(fs::exists(mark("out.safetensors", '3') + "/n32-l1.tsv"));
  EXPECT_FALSE(fs::exists(left));
}

TEST(FileRoles, EndingsDoNotContradictTheFormat) {
  TemporaryFolder const folder;
  std::string const none = folder / "nothing";
  for (auto const& [name, content] : {std::pair("a.tsv", Content::container),
                                      std::pair("a.tsv.gz", Content::container),
                                      std::pair("a.safetensors.gz", Content::container),
                                      std::pair("a.json", Content::container),
                                      std::pair("a.safetensors", Content::lines),
                                      std::pair("a.json", Content::lines),
                                      std::pair("a.json.gz", Content::json),
                                      std::pair("a.safetensors", Content::json),
                                      std::pair("a.tsv", Content::json),
                                      std::pair("a.safetensors", Content::journal),
                                      std::pair("a.json", Content::journal),
                                      std::pair("a.tsv.zst", Content::journal),
                                      std::pair("a.npy", Content::container),
                                      std::pair("a.h5", Content::container),
                                      std::pair("a.hdf5", Content::lines),
                                      std::pair("a.TSV", Content::container),
                                      std::pair("a.npy", Content::lines),
                                      std::pair("a.Safetensors", Content::lines),
                                      std::pair("a.tsv.bz2", Content::lines),
                                      std::pair("a.tsv.GZ", Content::lines),
                                      std::pair("a.Safetensors.gz", Content::lines),
                                      std::pair("a.md", Content::json),
                                      std::pair("a.journal", Content::lines),
                                      std::pair("a.tsv.gz", Content::plain_lines),
                                      std::pair("a.tsv.Zst", Content::plain_lines),
                                      std::pair("a.safetensors", Content::plain_lines)}) {
    expect_holds(refusal(none, folder / name, content),
                 "--categories " + (folder / name).string() + " has an ending of another format: ");
  }
  for (auto const& [name, content] :
       {std::pair("a.safetensors", Content::container), std::pair("a", Content::container),
        std::pair("a.tsv", Content::lines), std::pair("a.tsv.xz", Content::lines), std::pair("a.alive", Content::lines),
        std::pair("a.json", Content::json), std::pair("a", Content::json), std::pair("a.journal", Content::journal),
        std::pair("a", Content::journal), std::pair("a.tsv", Content::network_or_samples),
        std::pair("a.SAFETENSORS", Content::container), std::pair("a.TSV", Content::lines),
        std::pair("a.alive.gz", Content::lines), std::pair("a.jsonl", Content::json),
        std::pair("a.tsv", Content::plain_lines), std::pair("a.safetensors.previous", Content::container)}) {
    expect_taken(none, folder / name, content);
  }
}

TEST(FileRoles, OnlyOneRankCanReadAPipe) {
  TemporaryFolder const folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  FileRoles files;
  files.reads("--input", folder / "pipe");
  EXPECT_NO_THROW(files.require_readable_by(1));
  EXPECT_EQ(sentence_of<InputError>([&] { files.require_readable_by(3); }),
            "--input " + (folder / "pipe").string() + " is a pipe, which only one of 3 ranks could read; give a file");
}

TEST(FileRoles, OnlyOneRankCanReadAPipeOfANetwork) {
  TemporaryFolder const folder;
  for (std::string const below : {"challenge", "all/neuron32", "other"}) fs::create_directories(folder / below);
  for (auto const& [network, pipe] :
       {std::pair("challenge", "challenge/n32-l2.tsv"), std::pair("all", "all/neuron32/n32-l1.tsv.gz"),
        std::pair("other", "other/pipe")}) {
    std::string const name = folder / pipe;
    FileRoles files;
    files.reads("--network", folder / network);
    EXPECT_NO_THROW(files.require_readable_by(2));
    ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
    EXPECT_NO_THROW(files.require_readable_by(1));
    EXPECT_EQ(sentence_of<InputError>([&] { files.require_readable_by(2); }),
              "--network " + (folder / network).string() + " reads the pipe " + name +
                  ", which only one of 2 ranks could read; give a file");
  }
}

} // namespace
} // namespace varve
