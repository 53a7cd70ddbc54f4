#include "apps/subprocess.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;

/// Commands that write for a long time, and are ended in the midst of it.
class Signals : public ::testing::Test {
protected:
  using Words = std::vector<std::string>;

  static void SetUpTestSuite() {
    files_ = std::make_unique<TemporaryFolder>();
    test::succeed(
        {"generate", "images", "--neurons", "1024", "--samples", "20000", "--output", file("img.safetensors")});
    test::succeed({"generate", "radixnet", "--neurons", "1024", "--layers", "24", "--bias", "-0.2", "--output",
                   file("net.safetensors")});
  }
  static void TearDownTestSuite() { files_.reset(); }

  static std::string file(std::string const& name) { return (*files_ / name).string(); }
  std::string out(std::string const& name) const { return (out_ / name).string(); }

  /// What each subcommand that writes much does here.
  std::vector<Words> commands() const {
    return {{"generate", "images", "--neurons", "1024", "--samples", "10000000", "--output", out("img.tsv")},
            {"generate", "radixnet", "--neurons", "65536", "--layers", "1920", "--output", out("net.safetensors")},
            {"generate", "radixnet", "--neurons", "65536", "--layers", "1920", "--output", out("net")},
            {"convert", file("img.safetensors"), out("img.tsv.xz")}};
  }

  /// The partial outputs that are there.
  std::vector<fs::path> partial() const {
    std::vector<fs::path> found;
    for (auto const& entry : fs::directory_iterator(out_.path()))
      if (entry.path().filename().string().find(".partial-") != std::string::npos) found.push_back(entry.path());
    return found;
  }

  /// True once a partial output has been begun and holds something.
  bool is_writing() const {
    for (auto const& path : partial()) {
      std::error_code gone;
      if (fs::is_directory(path, gone) ? !fs::is_empty(path, gone) : fs::file_size(path, gone) > 0) return !gone;
    }
    return false;
  }

  /// Starts a command, sends it a signal once it writes, and returns the signal that ended it (or 0).
  int signal_that_ends(Words words, int number) const {
    words.insert(words.begin(), {"env", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self", VARVE_COMMAND});
    auto const process = test::start(words, file("out"), file("err"));
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (!is_writing() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(is_writing()) << read_bytes(file("err"));
    kill(process, number);
    int status = 0;
    waitpid(process, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  TemporaryFolder out_;
  static inline std::unique_ptr<TemporaryFolder> files_;
};

TEST_F(Signals, ThatEndACommandLeaveNothingBehind) {
  int const signals[] = {SIGTERM, SIGINT, SIGHUP, SIGXCPU};
  std::size_t next = 0;
  for (auto const& words : commands()) {
    for (int repetition = 0; repetition < 2; ++repetition) {
      int const number = signals[next++ % std::size(signals)];
      EXPECT_EQ(signal_that_ends(words, number), number) << ::testing::PrintToString(words);
      EXPECT_EQ(out_.num_entries(), 0) << ::testing::PrintToString(words);
      EXPECT_EQ(read_bytes(file("err")), "");
    }
  }
}

TEST_F(Signals, LeftoversOfKilledRunsGoWithTheNextRun) {
  auto const all = commands();
  for (auto const& [killed, next] :
       {std::pair(all[0], Words{"generate", "images", "--neurons", "32", "--samples", "5", "--output", out("img.tsv")}),
        std::pair(all[2], Words{"generate", "radixnet", "--neurons", "32", "--layers", "2", "--output", out("net")}),
        std::pair(all[3], Words{"convert", file("img.safetensors"), out("img.tsv.xz"), "--text", "neurons=7"})}) {
    EXPECT_EQ(signal_that_ends(killed, SIGKILL), SIGKILL);
    EXPECT_EQ(partial().size(), 1U);
    test::run_varve(next);
    EXPECT_EQ(partial().size(), 0U) << ::testing::PrintToString(next);
  }
}

TEST_F(Signals, WhatALivingRunWritesIsLeftAlone) {
  auto words = commands()[0];
  words.insert(words.begin(), {"env", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self", VARVE_COMMAND});
  auto const process = test::start(words, file("out"), file("err"));
  while (!is_writing()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto const before = partial();
  auto const beside =
      test::run_varve({"generate", "images", "--neurons", "32", "--samples", "5", "--output", out("img.tsv")});
  EXPECT_EQ(beside.exit_code, 0);
  EXPECT_EQ(beside.err, "");
  EXPECT_EQ(partial(), before);
  kill(process, SIGTERM);
  waitpid(process, nullptr, 0);
  EXPECT_EQ(out_.num_entries(), 1);
}

/// An input that is written while a run reads it.
class Changes : public Signals {
protected:
  Words infer(std::string const& input, Words const& options) const {
    Words words = {"env",
                   "OMPI_MCA_pml=ob1",
                   "OMPI_MCA_btl=self",
                   VARVE_COMMAND,
                   "infer",
                   "--network",
                   file("net.safetensors"),
                   "--input",
                   input,
                   "--batch",
                   "20",
                   "--reductions",
                   "none",
                   "--categories",
                   out("alive.tsv"),
                   "--report",
                   out("report.json")};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }

  test::Ended change_while(Words const& words, std::function<bool()> const& has_begun,
                           std::function<void()> const& change) const {
    auto const process = test::start(words, file("out"), file("err"));
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (!has_begun() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(has_begun()) << read_bytes(file("err"));
    change();
    test::Ended ended;
    ended.exit_code = test::wait_for(process);
    ended.out = read_bytes(file("out"));
    ended.err = read_bytes(file("err"));
    return ended;
  }
};

/// The sentence says by how many bytes the file grew, or, if it was looked at between the change of its time and that
/// of its size, that it was written.
TEST_F(Changes, OfAnInputEndTheRunWithASentence) {
  for (std::string const ending : {".safetensors", ".tsv"}) {
    auto const input = out("img" + ending);
    test::succeed({"convert", file("img.safetensors"), input});
    auto const bytes = read_bytes(input);
    auto const journal = out("journal-of-" + ending.substr(1));
    auto const has_begun = [&] { return fs::exists(journal) && fs::file_size(journal) > 4000; };
    auto const words = infer(input, {"--journal", journal, "--memory", "input=0.0001"});
    auto const ended = change_while(words, has_begun, [&] { std::ofstream(input, std::ios::app) << "\n"; });
    EXPECT_EQ(ended.exit_code, 3) << ended.err;
    ASSERT_EQ(ended.complaints().size(), 1U) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("varve: " + input + " changed while it was read: it "));
    EXPECT_FALSE(fs::exists(out("alive.tsv")));
    EXPECT_FALSE(fs::exists(out("report.json")));
  }
}

TEST_F(Changes, OfTheNetworkAreNoticedAtTheEnd) {
  auto const network = out("net.safetensors");
  fs::copy_file(file("net.safetensors"), network);
  auto words = infer(file("img.safetensors"), {});
  words[6] = network;
  auto const has_begun = [&] { return read_bytes(file("out")).find("plan ") != std::string::npos; };
  auto const ended = change_while(words, has_begun, [&] { std::ofstream(network, std::ios::app) << "\n"; });
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("varve: " + network + " changed while it was read: it "));
  EXPECT_FALSE(fs::exists(out("alive.tsv")));
}

} // namespace
} // namespace varve
