#include "apps/shared_folder.hpp"

#include "io/sample_files.hpp"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::expect_sentence;
using test::joined;
using test::read_json;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;
using varve::test::write_bytes;

/// A network and samples, of which no command may lose a byte.
class NothingLost : public test::SharedFolder<NothingLost> {
public:
  static void make_files() {
    test::generate_small(file("net.safetensors"), file("img.safetensors"), 3, 2000);
    succeed({"convert", file("net.safetensors"), file("net")});
    for (std::string const ending : {".tsv", ".tsv.gz", ".tsv.zst"})
      succeed({"convert", file("img.safetensors"), file("img" + ending)});
    write_bytes(file("truth.tsv"), "1\n");
    auto const ended = succeed({"infer", "--network", file("net.safetensors"), "--input", file("img.safetensors")});
    expected_ = survivors(ended);
  }

protected:
  static std::string file(std::string const& name) { return path(name); }
  std::string out(std::string const& name) const { return (out_ / name).string(); }

  /// The line with survivors and hash.
  static std::string survivors(test::Ended const& ended) {
    auto const begin = ended.out.find("survivors ");
    if (begin == std::string::npos) return "no survivors in: " + ended.out + ended.err;
    return ended.out.substr(begin, ended.out.find('\n', begin) - begin);
  }

  static std::vector<std::string> infer(std::vector<std::string> const& options) {
    std::vector<std::string> words = {"infer", "--network", file("net.safetensors"), "--input",
                                      file("img.safetensors")};
    return joined(words, options);
  }

  /// Runs a line of the shell in which VARVE is the command.
  static test::Ended shell(std::string const& line) {
    return test::run(
        {"bash", "-c", "run_varve() { " + test::quoted(VARVE_COMMAND) + " \"$@\"; }; VARVE=run_varve; " + line});
  }

  static std::string infer_line(std::string const& input, std::string const& options = "") {
    return "$VARVE infer --network " + file("net.safetensors") + " --input " + input + " " + options;
  }

  /// Expects exit code 2, one sentence, and all files as they were.
  static void expect_refused(std::vector<std::string> const& words, std::string const& part) {
    auto const contents = [] {
      std::vector<std::pair<std::string, std::string>> all;
      for (auto const& entry : fs::recursive_directory_iterator(folder().path()))
        all.emplace_back(entry.path().string(), entry.is_regular_file() ? read_bytes(entry.path()) : "");
      std::ranges::sort(all);
      return all;
    };
    auto const before = contents();
    auto const ended = run_varve(words);
    auto const where = ::testing::PrintToString(words);
    expect_sentence(ended, 2, {part}, where);
    EXPECT_EQ(ended.out, "") << where;
    EXPECT_TRUE(contents() == before) << where << ": something was written";
  }

  TemporaryFolder out_;
  static inline std::string expected_;
};

TEST_F(NothingLost, OutputsThatAreInputsAreRefusedByEverySubcommand) {
  fs::create_hard_link(file("net.safetensors"), file("hard.safetensors"));
  fs::create_symlink("img.safetensors", file("link.safetensors"));
  auto const lost = "would replace what";
  expect_refused(infer({"--activations", file("net.safetensors")}), lost);
  expect_refused(infer({"--activations", file("hard.safetensors")}), lost);
  expect_refused(infer({"--activations", file("link.safetensors")}), lost);
  expect_refused(infer({"--activations", file("./img.safetensors")}), lost);
  expect_refused(infer({"--truth", file("truth.tsv"), "--categories", file("truth.tsv")}), lost);
  expect_refused(infer({"--truth", file("truth.tsv"), "--journal", file("truth.tsv")}), "");
  expect_refused({"infer", "--network", file("net"), "--text", "bias=-0.2", "--input", file("img.safetensors"),
                  "--categories", file("net/n32-l2.tsv")},
                 lost);
  expect_refused(
      {"infer", "--network", file("net.safetensors"), "--input", file("img.tsv"), "--predictions", file("img.tsv")},
      lost);
  expect_refused({"convert", file("net.safetensors"), file("hard.safetensors")}, lost);
  expect_refused({"convert", file("img.tsv"), file("img.tsv")}, lost);
  expect_refused({"convert", file("net"), file("net"), "--text", "bias=-0.2"}, lost);
  expect_refused({"benchmark", "--network", file("net.safetensors"), "--input", file("img.safetensors"), "--output",
                  file("net.safetensors")},
                 "");
  fs::create_hard_link(file("net.safetensors"), file("tuned"));
  expect_refused({"benchmark", "--network", file("net.safetensors"), "--input", file("img.safetensors"), "--output",
                  file("tuned")},
                 lost);
  for (std::string const name : {"hard.safetensors", "link.safetensors", "tuned"}) fs::remove(file(name));
}

TEST_F(NothingLost, AnInputWithTheNameOfALeftoverStays) {
  auto const input = out("res.safetensors.partial-0123456789abcdef");
  fs::copy_file(file("img.safetensors"), input);
  succeed({"convert", input, out("res.safetensors")});
  EXPECT_EQ(read_bytes(input), read_bytes(file("img.safetensors")));
  auto const network = out("last.safetensors.partial-0123456789abcdef");
  fs::copy_file(file("net.safetensors"), network);
  auto const ended = succeed(
      {"infer", "--network", network, "--input", file("img.safetensors"), "--activations", out("last.safetensors")});
  EXPECT_EQ(survivors(ended), expected_);
  EXPECT_EQ(read_bytes(network), read_bytes(file("net.safetensors")));
  fs::create_directory(out("res.safetensors.partial-00112233445566ff")); // the user's
  write_bytes(out("res.safetensors.partial-00112233445566ff/notes.txt"), "kept");
  EXPECT_EQ(succeed({"convert", input, out("res.safetensors")}).err, "");
  EXPECT_EQ(read_bytes(out("res.safetensors.partial-00112233445566ff/notes.txt")), "kept");
}

TEST_F(NothingLost, OutputsInTheFolderOfANetworkAreRefused) {
  auto const part = "would become a part of the folder that --network";
  expect_refused({"infer", "--network", file("net"), "--text", "bias=-0.2", "--input", file("img.safetensors"),
                  "--report", file("net/network.json")},
                 part);
  expect_refused({"infer", "--network", file("net"), "--text", "bias=-0.2", "--input", file("img.safetensors"),
                  "--activations", file("net/last.safetensors")},
                 part);
}

TEST_F(NothingLost, OutputsThatAreOneFileAreRefused) {
  auto const one = "are one file";
  fs::create_symlink(out("x"), out("y"));
  expect_refused(infer({"--categories", out("x"), "--predictions", out("x")}), one);
  expect_refused(infer({"--categories", out("x"), "--predictions", out("y")}), one);
  expect_refused(infer({"--journal", out("x"), "--categories", out("x")}), one);
  expect_refused(infer({"--journal", out("x"), "--report", out("x.1")}), one);
  expect_refused(infer({"--activations", out("x"), "--report", out("x")}), one);
  EXPECT_EQ(out_.num_entries(), 1);
  succeed(infer({"--categories", "/dev/null", "--predictions", "/dev/null"}));
}

TEST_F(NothingLost, EndingsOfAnotherFormatAreRefused) {
  auto const other = "has an ending of another format";
  expect_refused(infer({"--activations", out("a.tsv")}), other);
  expect_refused(infer({"--categories", out("a.safetensors")}), other);
  expect_refused(infer({"--predictions", out("a.json")}), other);
  expect_refused(infer({"--report", out("a.json.gz")}), other);
  expect_refused(infer({"--journal", out("a.safetensors")}), other);
  expect_refused(infer({"--activations", out("a.npy")}), other);
  expect_refused(infer({"--categories", out("a.H5")}), other);
  expect_refused(infer({"--categories", out("a.tsv.bz2")}), other);
  expect_refused(infer({"--categories", out("a.tsv.GZ")}), other);
  expect_refused(infer({"--report", out("a.md")}), other);
  for (std::string const ending : {".tsv.gz", ".tsv.zst"}) // the history is not compressed
    expect_refused({"train", "--network", file("net.safetensors"), "--input", file("img.safetensors"), "--output",
                    out("b.safetensors"), "--history", out("a" + ending)},
                   other);
  expect_refused({"benchmark", "--network", file("net.safetensors"), "--input", file("img.safetensors"), "--output",
                  out("a.safetensors")},
                 other);
  EXPECT_EQ(out_.num_entries(), 0);
}

TEST_F(NothingLost, WhatIsPrintedIsNotReplacedByAnOutput) {
  for (std::string const stream : {"/dev/stdout", "/dev/stderr"}) {
    auto const ended = test::run_varve(infer({"--categories", stream})); // both go to files in these tests
    EXPECT_EQ(ended.exit_code, 2);
    EXPECT_THAT(ended.err, HasSubstr("is the file that standard"));
  }
  auto const piped = shell(infer_line(file("img.safetensors"), "--categories /dev/stdout") + " | cat");
  EXPECT_EQ(piped.exit_code, 0);
  EXPECT_THAT(piped.out, HasSubstr("survivors"));
}

TEST_F(NothingLost, StreamsThatCannotBeWrittenAreExitCode4) {
  std::string const info = "$VARVE info " + file("net.safetensors");
  for (auto const& command :
       {std::string("$VARVE --help"), std::string("$VARVE --version"), std::string("$VARVE infer --help"),
        std::string("$VARVE --document man"), std::string("$VARVE --document bash"), info, info + " --json",
        infer_line(file("img.safetensors"))}) {
    for (std::string const redirection : {" >/dev/full", " >&-"}) {
      auto const ended = shell(command + redirection);
      expect_sentence(ended, 4, {}, command + redirection);
      EXPECT_THAT(ended.err, StartsWith("varve: standard output cannot be written")) << command;
    }
  }
  for (std::string const redirection : {" 2>/dev/full", " 2>&-", " >/dev/full 2>/dev/full", " >&- 2>&- <&-"}) {
    EXPECT_EQ(shell("$VARVE info " + file("no.safetensors") + redirection).exit_code, 4) << redirection;
    EXPECT_EQ(shell("$VARVE frobnicate" + redirection).exit_code, 4) << redirection;
  }
}

TEST_F(NothingLost, ClosedStreamsDoNotPrintIntoOutputs) {
  auto const ended = shell(infer_line(file("img.safetensors"), "--categories " + out("alive.tsv") + " 2>&- <&-"));
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(survivors(ended), expected_);
  EXPECT_EQ(shell(infer_line("/dev/stdin", "<&-")).exit_code, 3) << "a closed input is not an empty one";
  auto const silent = "$VARVE generate images --neurons 32 --samples 5 --output " + out("five.tsv") + " >&- 2>&- <&-";
  EXPECT_EQ(shell(silent).exit_code, 0) << "nothing is printed";
  succeed({"generate", "images", "--neurons", "32", "--samples", "5", "--output", out("same.tsv")});
  EXPECT_EQ(read_bytes(out("five.tsv")), read_bytes(out("same.tsv")));
}

TEST_F(NothingLost, PipesGiveWhatTheirFilesGive) {
  for (std::string const ending : {".tsv", ".tsv.gz", ".tsv.zst", ".safetensors"}) {
    auto const input = file("img" + ending);
    EXPECT_EQ(survivors(shell("cat " + input + " | " + infer_line("/dev/stdin"))), expected_) << ending;
    EXPECT_EQ(survivors(shell("cat " + input + " | " + infer_line("/dev/stdin", "--memory input=0.000001"))), expected_)
        << ending;
    EXPECT_EQ(survivors(shell(infer_line("<(cat " + input + ")"))), expected_) << ending;
    EXPECT_EQ(survivors(shell(infer_line("/dev/stdin") + " < " + input)), expected_) << ending;
    auto const fifo = out("pipe" + ending);
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    EXPECT_EQ(survivors(shell("cat " + input + " > " + fifo + " & " + infer_line(fifo))), expected_) << ending;
  }
  EXPECT_EQ(survivors(shell("cat " + file("net.safetensors") + " | $VARVE infer --network /dev/stdin --input " +
                            file("img.safetensors"))),
            expected_);
  auto const info = shell("cat " + file("img.tsv.gz") + " | $VARVE info --text neurons=32 /dev/stdin");
  EXPECT_THAT(info.out, HasSubstr("2000 samples of 32 neurons"));
}

TEST_F(NothingLost, AJournalKnowsAPipeByItsBytes) {
  auto const journal = "--journal " + out("run.journal");
  EXPECT_EQ(survivors(shell("cat " + file("img.tsv") + " | " + infer_line("/dev/stdin", journal))), expected_);
  auto const again = shell(infer_line(file("img.tsv"), journal));
  EXPECT_EQ(survivors(again), expected_) << again.err;
  EXPECT_THAT(again.out, HasSubstr("2000 samples found finished"));
  auto const other = shell("head -n 100 " + file("img.tsv") + " | " + infer_line("/dev/stdin", journal));
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.err, HasSubstr("is the journal of another run"));
}

TEST_F(NothingLost, WhatIsNoFileIsASentence) {
  for (auto const& [words, part] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"infer", "--network", file("net.safetensors"), "--input", "/dev/zero"}, "/dev/zero is a device"},
           {{"infer", "--network", "/dev/zero", "--input", file("img.safetensors")}, "/dev/zero is a device"},
           {{"infer", "--network", file("net.safetensors"), "--input", file("net")}, "is a folder"},
           {{"infer", "--network", file("net.safetensors"), "--input", file("img.safetensors"), "--truth", file("net")},
            "is a folder"},
           {{"infer", "--network", file("net.safetensors"), "--input", file("img.safetensors"), "--truth",
             "/dev/random"},
            "is a device"},
           {{"convert", "/dev/zero", out("x.safetensors")}, "is a device"},
           {{"info", "/dev/zero"}, "is a device"}}) {
    expect_sentence(run_varve(words), 3, {part});
  }
}

TEST_F(NothingLost, LimitsOfTheShellAreSentences) {
  auto const files = shell("ulimit -n 12; " + infer_line(file("img.safetensors")));
  EXPECT_EQ(files.exit_code, 4);
  EXPECT_EQ(files.err, "varve: this process may have 12 files open at a time (ulimit -n), expected at least 64\n");
  auto const pipe = shell("cat " + file("img.tsv") + " | (ulimit -f 1; " + infer_line("/dev/stdin") + ")");
  EXPECT_EQ(pipe.exit_code, 4);
  EXPECT_THAT(pipe.err, StartsWith("varve: /dev/stdin is a pipe, and its bytes cannot be kept in the folder /"));
  EXPECT_THAT(pipe.err, HasSubstr("File too large; set TMPDIR to a folder with more room"));
  for (std::string const& command : {"convert " + file("img.safetensors") + " " + out("x.tsv"),
                                     "generate radixnet --neurons 64 --output " + out("x.safetensors"),
                                     "generate radixnet --neurons 64 --output " + out("x")}) {
    auto const size = shell("ulimit -f 1; $VARVE " + command);
    expect_sentence(size, 4, {"cannot be written", "File too large"}, command);
    EXPECT_EQ(out_.num_entries(), 0) << command;
  }
}

TEST_F(NothingLost, WhoReadsNoFurtherGetsNoSentence) {
  auto const ended = shell("$VARVE info --json " + file("net.safetensors") + " | head -c 1; exit ${PIPESTATUS[0]}");
  EXPECT_THAT(ended.exit_code, ::testing::AnyOf(0, 128 + SIGPIPE)); // 0 if all was written before
  EXPECT_EQ(ended.err, "");
  auto const none =
      shell("(sleep 0.3; $VARVE info --json " + file("net.safetensors") + ") | true; exit ${PIPESTATUS[0]}");
  EXPECT_EQ(none.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(none.err, "");
}

TEST_F(NothingLost, ALoopingLinkIsNoOutput) {
  fs::create_symlink("there", out("here"));
  fs::create_symlink("here", out("there"));
  auto const ended = run_varve(infer({"--categories", out("here")}));
  EXPECT_EQ(ended.exit_code, 4) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("Too many levels of symbolic links"));
  EXPECT_TRUE(fs::is_symlink(out("here")));
}

} // namespace
} // namespace varve
