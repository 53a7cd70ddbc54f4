#include "apps/shared_folder.hpp"
#include "io/dense_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;

/// A call of the operating system about a file, as failing_calls.cpp tells of it.
struct Call {
  std::string function;
  std::string path;
  bool has_failed = false;

  bool writes() const { return function.find("write") != std::string::npos; }
  bool reads() const { return function.find("read") != std::string::npos; }
};

std::vector<Call> calls_in(fs::path const& log) {
  std::vector<Call> calls;
  std::istringstream lines(read_bytes(log));
  for (std::string line; std::getline(lines, line);) {
    Call call;
    call.has_failed = line.starts_with("! ");
    if (call.has_failed) line.erase(0, 2);
    call.function = line.substr(0, line.find(' '));
    call.path = line.substr(std::min(line.size(), call.function.size() + 1));
    calls.push_back(call);
  }
  return calls;
}

/// The ways in which a call may fail. What is lost is noticed in containers, which are read back.
std::vector<std::string> ways_of(Call const& call) {
  std::vector<std::string> ways = {"ENOSPC", "EIO", "EINTR"};
  if (call.writes()) ways.push_back("full");
  if (call.writes() || call.reads()) ways.push_back("short");
  if (call.writes() && call.path.find(".safetensors.partial-") != std::string::npos) ways.push_back("lost");
  return ways;
}

/// Every file in a folder, by its name within it.
std::map<std::string, std::string> files_in(fs::path const& folder) {
  std::map<std::string, std::string> files;
  for (auto const& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_bytes(entry.path());
  return files;
}

/// Whether a file of a run that failed may differ from that of one that did not: state- (journals and checkpoints,
/// which also differ between runs) and kept- (what is written again in the course of a run).
bool is_state(std::string const& name) { return name.starts_with("state-"); }
bool is_kept(std::string const& name) { return name.starts_with("kept-") || is_state(name); }

/// Reports and records hold times: only their end can be compared. A receipt says when it was made.
std::string comparable(std::string const& name, std::string const& bytes) {
  auto const made = bytes.find("\"made_by\"");
  auto const leaves = bytes.find("\"input_leaves\"");
  if (leaves != std::string::npos && made < leaves) return bytes.substr(0, made) + bytes.substr(leaves);
  bool const has_times = name.ends_with(".json") || name.ends_with(".jsonl");
  return has_times ? bytes.substr(bytes.size() - std::min<std::size_t>(bytes.size(), 2)) : bytes;
}

/// What became of the runs.
struct Outcomes {
  std::size_t num_calls = 0;
  std::size_t num_right = 0;     ///< exit code 0 and the right bytes
  std::size_t num_outputs = 0;   ///< exit code 4 and no wrong file
  std::size_t num_inputs = 0;    ///< exit code 3, where an input could not be read
  std::size_t num_continued = 0; ///< right bytes when run again, after exit code 4
};

/// Every call about a file fails in turn, for each command that writes. The run ends with the right bytes or with exit
/// code 4 and a sentence, and in no case with a wrong file. Each command gets so many failures, evenly drawn from all;
/// VARVE_FAULT_CALLS=100000 in the environment takes all of them.
class FailingCalls : public test::SharedFolder<FailingCalls> {
public:
  static void make_files() {
    fs::create_directory(path("in"));
    test::succeed({"generate", "random", "--widths", "64,96,10", "--density", "0.3", "--init", "he", "--seed", "7",
                   "--output", path("in/net.safetensors")});
    test::succeed(
        {"generate", "samples", "--neurons", "64", "--samples", "60", "--output", path("in/bare.safetensors")});
    std::string labels;
    for (int sample = 0; sample < 60; ++sample) labels += std::to_string(sample * 7 % 10) + "\n";
    varve::test::write_bytes(path("in/labels.tsv"), labels);
    test::succeed(
        {"convert", path("in/bare.safetensors"), path("in/samples.safetensors"), "--labels", path("in/labels.tsv")});
  }

protected:
  using Failure = std::pair<std::size_t, std::string>; ///< the number of a call, and the way in which it fails

  std::string out(std::string const& name) const { return (folder() / "out" / name).string(); }

  void empty_out() const {
    fs::remove_all(folder() / "out");
    fs::create_directory(folder() / "out");
  }

  /// Runs the command; its call number `at` fails in this way.
  test::Ended run(std::size_t at, std::string const& way) {
    fs::remove(log_.path() / "calls");
    return test::run(test::joined(
        {"env", test::preloading(VARVE_FAILING_CALLS), "OMP_NUM_THREADS=1", "OMPI_MCA_ess_singleton_isolated=1",
         "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self", "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0",
         "VARVE_CALLS_FOLDER=" + folder().path().string(), "VARVE_CALLS_LOG=" + (log_ / "calls").string(),
         "VARVE_CALLS_AT=" + std::to_string(at), "VARVE_CALLS_HOW=" + way, VARVE_COMMAND},
        words_));
  }

  /// Lets calls of a command fail. continues: a second run of it goes on where the first one failed.
  Outcomes fail_in_turn(std::vector<std::string> const& words, bool continues = false, double share = 1.0) {
    words_ = words;
    continues_ = continues;
    empty_out();
    auto const whole = run(0, "none");
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    right_ = files_in(folder() / "out");
    if (right_.empty()) printed_ = said_by(whole);
    EXPECT_FALSE(right_.empty() && printed_.empty());
    auto const calls = calls_in(log_ / "calls");
    // Most calls read; three quarters of the failures are those of calls that change an output.
    std::vector<Failure> changes, others;
    for (std::size_t call = 0; call < calls.size(); ++call)
      for (auto const& way : ways_of(calls[call]))
        (calls[call].reads() || calls[call].path.starts_with(path("in")) ? others : changes)
            .emplace_back(call + 1, way);
    outcomes_ = {};
    outcomes_.num_calls = calls.size();
    auto const wanted = static_cast<std::size_t>(share * static_cast<double>(num_failures()));
    auto const num_runs = fail_evenly(changes, 3 * wanted / 4) + fail_evenly(others, wanted / 4);
    std::printf(
        "%-28s %4zu calls, %5zu of %5zu failures: %zu right bytes, %zu exit code 4 (%zu continued), %zu exit code 3\n",
        (words[0] + " " + words[1]).substr(0, 28).c_str(), outcomes_.num_calls, num_runs,
        changes.size() + others.size(), outcomes_.num_right, outcomes_.num_outputs, outcomes_.num_continued,
        outcomes_.num_inputs);
    return outcomes_;
  }

  TemporaryFolder log_;
  std::vector<std::string> words_; ///< of the command

private:
  static std::size_t num_failures() {
    char const* const wanted = std::getenv("VARVE_FAULT_CALLS");
    return wanted == nullptr ? 10 : static_cast<std::size_t>(std::atol(wanted));
  }

  /// Lets so many of these failures happen, or all if there are fewer; returns how many.
  std::size_t fail_evenly(std::vector<Failure> const& failures, std::size_t wanted) {
    auto const count = std::min(failures.size(), wanted);
    for (std::size_t number = 0; number < count; ++number) {
      auto const& [call, way] = failures[number * failures.size() / count];
      fail_once(call, way);
    }
    return count;
  }

  void fail_once(std::size_t at, std::string const& way) {
    empty_out();
    auto const ended = run(at, way);
    auto const calls = calls_in(log_ / "calls");
    auto const failed = std::ranges::find(calls, true, &Call::has_failed);
    bool const is_there = failed != calls.end(); // threads may come to another number of calls
    SCOPED_TRACE((is_there ? failed->function + " " + failed->path : std::string("no call")) + ", call " +
                 std::to_string(at) + ": " + way + "; exit code " + std::to_string(ended.exit_code) + ", " + ended.err);
    if (ended.exit_code == 0) {
      ++outcomes_.num_right;
      expect_right();
      EXPECT_TRUE(!right_.empty() || said_by(ended) == printed_) << ended.out;
      return;
    }
    bool const is_input = is_there && failed->path.starts_with(path("in"));
    EXPECT_TRUE(ended.exit_code == 4 || (ended.exit_code == 3 && is_input));
    ++(ended.exit_code == 4 ? outcomes_.num_outputs : outcomes_.num_inputs);
    EXPECT_EQ(ended.complaints().size(), 1U);
    EXPECT_THAT(ended.err, ::testing::StartsWith("varve: "));
    expect_nothing_wrong();
    if (!continues_) return;
    auto const again = run(0, "none");
    EXPECT_EQ(again.exit_code, 0) << again.err;
    expect_right();
    ++outcomes_.num_continued;
  }

  /// What a command prints that writes no file, without its times.
  static std::string said_by(test::Ended const& ended) {
    std::string said;
    std::istringstream lines(ended.out);
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("time")) said += line + "\n";
    return said;
  }

  /// The files of a run that says that it succeeded.
  void expect_right() const {
    auto const found = files_in(folder() / "out");
    for (auto const& [name, bytes] : right_) {
      EXPECT_TRUE(found.contains(name)) << name << " is missing";
      if (!found.contains(name) || is_state(name)) continue;
      EXPECT_TRUE(comparable(name, found.at(name)) == comparable(name, bytes)) << name << " has other bytes";
    }
    for (auto const& [name, bytes] : found) EXPECT_TRUE(right_.contains(name) || is_state(name)) << name << " was left";
  }

  /// The files of a run that says that it failed.
  void expect_nothing_wrong() const {
    for (auto const& [name, bytes] : files_in(folder() / "out")) {
      if (is_kept(name) && name.find(".partial-") == std::string::npos) continue;
      EXPECT_TRUE(right_.contains(name)) << name << " was left";
      if (!right_.contains(name)) continue;
      EXPECT_TRUE(comparable(name, bytes) == comparable(name, right_.at(name))) << name << " has other bytes";
    }
  }

  bool continues_ = false;
  std::map<std::string, std::string> right_;
  std::string printed_; ///< by a command that writes no file
  Outcomes outcomes_;
};

TEST_F(FailingCalls, OfGenerateNeverLeaveAWrongFile) {
  fail_in_turn(
      {"generate", "random", "--neurons", "64", "--layers", "3", "--degree", "16", "--output", out("net.safetensors")},
      false, 3.0);
  fail_in_turn({"generate", "radixnet", "--neurons", "32", "--layers", "2", "--output", out("net.tsv.gz")});
  fail_in_turn({"generate", "weights", "--network", path("in/net.safetensors"), "--init", "he", "--output",
                out("net.safetensors")});
  fail_in_turn({"generate", "radixnet", "--neurons", "32", "--layers", "2", "--output", out("net.safetensors")});
  fail_in_turn({"generate", "images", "--neurons", "64", "--samples", "20", "--output", out("images.safetensors")});
  fail_in_turn({"generate", "samples", "--neurons", "64", "--samples", "20", "--output", out("samples.tsv.zst")});
}

TEST_F(FailingCalls, OfConvertNeverLeaveAWrongFile) {
  fail_in_turn({"convert", path("in/net.safetensors"), out("net.safetensors")});
  fail_in_turn({"convert", path("in/net.safetensors"), out("net.safetensors"), "--prune", "0.2"});
  fail_in_turn({"convert", path("in/net.safetensors"), out("net.safetensors"), "--reduce"});
  fail_in_turn({"convert", path("in/samples.safetensors"), out("samples.tsv.xz"), "--samples-only"});
  fail_in_turn({"convert", path("in/bare.safetensors"), out("samples.safetensors"), "--labels", path("in/labels.tsv"),
                "--targets", path("in/bare.safetensors")});
}

TEST_F(FailingCalls, OfInferNeverLeaveAWrongFile) {
  std::vector<std::string> const words = {"infer",
                                          "--network",
                                          path("in/net.safetensors"),
                                          "--input",
                                          path("in/bare.safetensors"),
                                          "--batch",
                                          "20",
                                          "--categories",
                                          out("alive.tsv"),
                                          "--predictions",
                                          out("best.tsv"),
                                          "--activations",
                                          out("last.safetensors"),
                                          "--report",
                                          out("report.json"),
                                          "--receipt",
                                          out("receipt.json")};
  fail_in_turn(words);
  fail_in_turn(test::joined(words, {"--journal", out("state-journal")}), true);
  fail_in_turn({"evaluate", "--network", path("in/net.safetensors"), "--input", path("in/samples.safetensors"),
                "--report", out("report.json")});
}

TEST_F(FailingCalls, OfCommandsThatWriteNothingNeverGiveAnotherAnswer) {
  auto const result = path("in/alive.tsv");
  auto const receipt = path("in/receipt.json");
  test::succeed({"infer", "--network", path("in/net.safetensors"), "--input", path("in/bare.safetensors"),
                 "--categories", result, "--receipt", receipt});
  fail_in_turn({"audit", receipt, "--network", path("in/net.safetensors"), "--input", path("in/bare.safetensors"),
                "--draw", "seed=1"},
               false, 4.0);
  fail_in_turn({"verify", "--network", path("in/net.safetensors"), "--input", path("in/bare.safetensors"), "--result",
                result, "--exact"},
               false, 4.0);
  fail_in_turn({"info", path("in/net.safetensors"), "--json"}, false, 4.0);
  fail_in_turn({"info", path("in/samples.safetensors")}, false, 4.0);
}

TEST_F(FailingCalls, OfTrainNeverLeaveAWrongFile) {
  std::vector<std::string> const words = {"train",
                                          "--network",
                                          path("in/net.safetensors"),
                                          "--input",
                                          path("in/samples.safetensors"),
                                          "--validation",
                                          path("in/samples.safetensors"),
                                          "--epochs",
                                          "2",
                                          "--optimizer",
                                          "adam",
                                          "--output",
                                          out("net.safetensors"),
                                          "--best",
                                          out("kept-best.safetensors"),
                                          "--history",
                                          out("kept-history.tsv"),
                                          "--report",
                                          out("report.json")};
  fail_in_turn(words);
  fail_in_turn(test::joined(words, {"--checkpoint", out("state-checkpoint.safetensors")}), true, 2.0);
}

TEST_F(FailingCalls, OfMultiplyNeverLeaveAWrongFile) {
  empty_out();
  for (std::string const name : {"a", "b"}) {
    DenseFileWriter writer(path("in/" + name + ".safetensors"), 80, 80, Precision::single_precision);
    std::vector<float> values(80 * 80);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.001F * static_cast<float>(i % 997) - 0.4F;
    writer.write({0, 80, 0, 80}, values.data());
    writer.commit();
  }
  std::vector<std::string> const words = {
      "multiply", path("in/a.safetensors"), path("in/b.safetensors"), "--tile", "32", "--output", out("c.safetensors"),
      "--report", out("report.json")};
  fail_in_turn(words);
  fail_in_turn(test::joined(words, {"--journal", out("state-journal")}), true);
}

TEST_F(FailingCalls, AreNotMoreForADeepNetworkThatIsOpened) {
  empty_out();
  for (std::string const command : {"infer", "info"}) {
    std::vector<std::ptrdiff_t> num_opens;
    for (std::string const layers : {"2", "50"}) {
      auto const network = path("in/deep" + layers + ".safetensors");
      test::succeed({"generate", "radixnet", "--neurons", "32", "--layers", layers, "--output", network});
      words_ = {"info", network};
      if (command == "infer") {
        test::succeed(
            {"generate", "images", "--neurons", "32", "--samples", "5", "--output", path("in/img.safetensors")});
        words_ = {"infer", "--network", network, "--input", path("in/img.safetensors")};
      }
      EXPECT_EQ(run(0, "none").exit_code, 0);
      auto const calls = calls_in(log_ / "calls");
      num_opens.push_back(std::ranges::count_if(
          calls, [&](Call const& call) { return call.function == "open" && call.path == network; }));
    }
    EXPECT_GT(num_opens[0], 0) << command;
    EXPECT_EQ(num_opens[0], num_opens[1]) << command;
  }
}

TEST_F(FailingCalls, OfMeasurementsNeverLeaveAWrongFile) {
  fail_in_turn({"benchmark", "--network", path("in/net.safetensors"), "--input", path("in/bare.safetensors"),
                "--repeats", "1", "--seconds", "0", "--backend", "serial", "--output", out("records.jsonl")},
               false, 0.25);
}

} // namespace
} // namespace varve
