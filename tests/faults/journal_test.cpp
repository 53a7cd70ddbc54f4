#include "apps/subprocess.hpp"
#include "faults/children.hpp"
#include "faults/gate.hpp"
#include "io/whole_bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/file.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::children_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;
using varve::test::write_bytes;

/// What an inference leaves behind.
struct Outputs {
  std::string categories, predictions, activations, hash; ///< bytes of the files, and of the report the hash

  bool operator==(Outputs const&) const = default;
};

/// A run of some forty batches, and what it gives when nothing happens to it.
class Faults : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    files_ = std::make_unique<TemporaryFolder>();
    test::succeed({"generate", "radixnet", "--neurons", "1024", "--layers", "24", "--seed", "3", "--bias", "-0.2",
                   "--output", file("net.safetensors")});
    test::succeed({"generate", "images", "--neurons", "1024", "--samples", "400", "--seed", "5", "--output",
                   file("img.safetensors")});
    Faults undisturbed;
    EXPECT_EQ(undisturbed.run_to_end(1).exit_code, 0);
    expected_ = undisturbed.outputs();
    EXPECT_FALSE(expected_.categories.empty());
    journal_size_ = undisturbed.size_of_journal();
  }
  static void TearDownTestSuite() { files_.reset(); }

  void TestBody() override {}

  static std::string file(std::string const& name) { return (*files_ / name).string(); }
  std::string out(std::string const& name) const { return (out_ / name).string(); }

  std::vector<std::string> words(int ranks) const {
    std::vector<std::string> words = {"env", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self"}; // one rank starts faster so
#if defined(VARVE_MPIRUN)
    if (ranks > 1) words = {VARVE_MPIRUN, VARVE_MPIRUN_RANKS, std::to_string(ranks)};
#endif
    words.insert(words.end(), {VARVE_COMMAND,   "infer",
                               "--network",     file("net.safetensors"),
                               "--input",       file("img.safetensors"),
                               "--reductions",  "none",
                               "--batch",       "10",
                               "--journal",     out("journal"),
                               "--categories",  out("alive.tsv"),
                               "--predictions", out("best.tsv"),
                               "--activations", out("last.safetensors"),
                               "--report",      out("report.json")});
    words.insert(words.end(), {"--tuning=share-devices=on", "--split", split_});
    return words;
  }

  test::Ended run_to_end(int ranks) const { return test::run(words(ranks)); }

  Outputs outputs() const {
    auto const report = nlohmann::json::parse(read_bytes(out("report.json")));
    return {read_bytes(out("alive.tsv")), read_bytes(out("best.tsv")), read_bytes(out("last.safetensors")),
            report["activation_hash"]};
  }

  /// Bytes in all files of the journal.
  std::uintmax_t size_of_journal() const {
    std::uintmax_t size = 0;
    for (auto const& entry : fs::directory_iterator(out_.path())) {
      std::error_code gone;
      if (entry.path().filename().string().starts_with("journal")) size += fs::file_size(entry.path(), gone);
    }
    return size;
  }

  /// Starts a run, which waits when this part of the journal is written, sends a signal to what `choose` picks, and
  /// lets the run go on to its end; with part 0 the signal comes at once. Returns nothing if the run ended without
  /// waiting.
  template <class Choose>
  std::optional<test::Ended> disturb(int ranks, int signal, double part, Choose const& choose) {
    auto const bytes = static_cast<std::uintmax_t>(std::ceil(part * static_cast<double>(journal_size_)));
    auto& gate = gates_.emplace_back(out("journal"), bytes);
    auto const process = test::start(gate.before(words(ranks)), out("out"), out("err"));
    bool const is_disturbed = part == 0.0 || gate.await(process);
    if (is_disturbed) kill(choose(process), signal);
    gate.open_for_all();
    test::Ended ended;
    ended.exit_code = test::wait_for(process);
    ended.out = read_bytes(out("out"));
    ended.err = read_bytes(out("err"));
    return is_disturbed ? std::optional(ended) : std::nullopt;
  }

  /// Returns once no rank holds the journal. Those whose starter was killed end as slowly as the machine is busy, on a
  /// GPU in more than the ten seconds that another run waits for them.
  void await_ranks_left_behind() const {
    for (auto const& entry : fs::directory_iterator(out_.path())) {
      if (!entry.path().filename().string().starts_with("journal")) continue;
      Descriptor const file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      EXPECT_EQ(flock(file.number(), LOCK_EX), 0) << entry.path();
    }
  }

  void expect_no_outputs() const {
    for (char const* const name : {"alive.tsv", "best.tsv", "last.safetensors", "report.json"}) {
      EXPECT_FALSE(fs::exists(out(name))) << name;
    }
  }

  /// The same command finishes the run and gives what the undisturbed run gave.
  void expect_resumed(int ranks) const {
    auto const ended = run_to_end(ranks);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("samples found finished"));
    EXPECT_EQ(outputs(), expected_) << "with " << ranks << " ranks";
  }

  std::string split_ = "auto"; ///< what the ranks share
  TemporaryFolder out_;
  std::deque<test::Gate> gates_; ///< open until the end: ranks that lost their starter may come there later
  static inline std::unique_ptr<TemporaryFolder> files_;
  static inline Outputs expected_;
  static inline std::uintmax_t journal_size_ = 0;
};

#if defined(VARVE_MPIRUN)
constexpr int max_ranks = 3;
#else
constexpr int max_ranks = 1;
#endif

TEST_F(Faults, KilledRunsGoOn) {
  char const* const wanted = std::getenv("VARVE_FAULT_KILLS");
  int const num_wanted = wanted == nullptr ? 4 : std::atoi(wanted);
  std::mt19937 random(20240601); // NOLINT: the same moments every time
  int num_kills = 0;
  while (num_kills < num_wanted) {
    // Killed again and again, each time with another number of ranks, until one comes through.
    for (int kills_of_run = 0; kills_of_run < 3 && num_kills < num_wanted; ++kills_of_run) {
      int const ranks = 1 + static_cast<int>(random() % max_ranks);
      auto const part = static_cast<double>(size_of_journal()) / static_cast<double>(journal_size_);
      auto const later = part + (1.0 - part) * std::uniform_real_distribution<>(0.0, 0.6)(random);
      bool const is_at_once = ranks == 1 && random() % 4 == 0;
      auto const ended = disturb(ranks, SIGKILL, is_at_once ? 0.0 : later, [&](pid_t process) {
        auto const ranks_of_job = children_of(process);
        return ranks_of_job.empty() ? process : ranks_of_job[random() % ranks_of_job.size()];
      });
      if (!ended) break; // all that was left was in the hands of another rank
      ++num_kills;
      EXPECT_NE(ended->exit_code, 0);
      expect_no_outputs();
    }
    expect_resumed(1 + static_cast<int>(random() % max_ranks));
    for (auto const& entry : fs::directory_iterator(out_.path())) fs::remove(entry.path());
  }
}

TEST_F(Faults, AKilledStarterLeavesAJournalAsWell) {
  if (max_ranks == 1) return;
  auto const ended = disturb(2, SIGKILL, 0.3, [](pid_t process) { return process; });
  ASSERT_TRUE(ended);
  await_ranks_left_behind();
  expect_resumed(1);
}

TEST_F(Faults, ASignalLetsTheBatchFinishAndTheRunGoOn) {
  for (int const signal : {SIGTERM, SIGUSR1}) {
    auto const stopped = disturb(1, signal, 0.2, [](pid_t process) { return process; });
    ASSERT_TRUE(stopped);
    EXPECT_EQ(stopped->exit_code, 5);
    ASSERT_EQ(stopped->complaints().size(), 1U) << stopped->err;
    EXPECT_THAT(stopped->err, StartsWith("varve: a signal stopped the run after "));
    EXPECT_THAT(stopped->err, HasSubstr(" of 400 samples; the same command continues from " + out("journal")));
    expect_no_outputs();
    EXPECT_LT(size_of_journal(), journal_size_);
    expect_resumed(1);
    for (auto const& entry : fs::directory_iterator(out_.path())) fs::remove(entry.path());
  }
}

TEST_F(Faults, ASignalToOneRankStopsAll) {
  if (max_ranks == 1) return;
  auto const stopped = disturb(3, SIGUSR1, 0.2, [](pid_t process) { return children_of(process).back(); });
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->exit_code, 5);
  EXPECT_THAT(stopped->err, HasSubstr("varve: a signal stopped the run after "));
  expect_no_outputs();
  expect_resumed(2);
}

TEST_F(Faults, RunsWithSplitNeuronsGoOn) {
  if (max_ranks == 1) return;
  for (int const signal : {SIGKILL, SIGUSR1}) {
    split_ = "neurons";
    auto const ended = disturb(2, signal, 0.2, [](pid_t process) { return children_of(process).back(); });
    ASSERT_TRUE(ended);
    if (signal == SIGUSR1) {
      EXPECT_EQ(ended->exit_code, 5) << ended->err;
      EXPECT_THAT(ended->err, HasSubstr("varve: a signal stopped the run after "));
    }
    expect_no_outputs();
    split_ = signal == SIGKILL ? "neurons" : "samples"; // a journal knows of samples only
    expect_resumed(signal == SIGKILL ? 3 : 1);
    for (auto const& entry : fs::directory_iterator(out_.path())) fs::remove(entry.path());
  }
}

TEST_F(Faults, AFinishedJournalGivesTheOutputsAgainAtOnce) {
  EXPECT_EQ(run_to_end(max_ranks).exit_code, 0);
  EXPECT_EQ(outputs(), expected_);
  for (char const* const name : {"alive.tsv", "best.tsv", "last.safetensors", "report.json"}) fs::remove(out(name));
  for (int const ranks : {1, max_ranks}) {
    expect_resumed(ranks);
    auto const report = nlohmann::json::parse(read_bytes(out("report.json")));
    EXPECT_EQ(report["journal"]["samples_found"], 400);
    EXPECT_EQ(report["network"]["layers"], 24);
    EXPECT_FALSE(report["phases"].contains("prepare")) << "nothing is prepared that is not needed";
  }
}

TEST_F(Faults, DamagedJournalsCostOnlyTime) {
  EXPECT_EQ(run_to_end(1).exit_code, 0);
  auto const whole = read_bytes(out("journal"));
  auto const size_of_head = whole.size() / 20;
  std::mt19937 random(7); // NOLINT: the same damage every time
  for (int time = 0; time < 3; ++time) {
    auto bytes = whole;
    auto const place = size_of_head + random() % (whole.size() - size_of_head);
    if (time % 2 == 0) {
      bytes.resize(place); // torn
    } else {
      bytes[place] = static_cast<char>(static_cast<unsigned char>(bytes[place]) ^ (1U << random() % 8U)); // one bit
    }
    write_bytes(out("journal"), bytes);
    expect_resumed(1);
  }
}

TEST_F(Faults, AJournalOfAnotherRunIsRefused) {
  EXPECT_EQ(run_to_end(1).exit_code, 0);
  auto const journal = read_bytes(out("journal"));
  auto const categories = read_bytes(out("alive.tsv"));
  test::succeed({"generate", "images", "--neurons", "1024", "--samples", "400", "--seed", "6", "--output",
                 out("other.safetensors")});
  std::vector<std::pair<std::vector<std::string>, std::string>> const others = {
      {{"--precision", "double"}, "precision is \"float\" there and \"double\" here"},
      {{"--batch", "11"}, "batch is 10 there and 11 here"},
      {{"--samples", "1:399"}, "number of samples is 400 there and 399 here"},
      {{"--samples", "1:200", "--tuning", "repeat-input=2"}, "repetitions of the input is 1 there and 2 here"},
      {{"--reductions", "saturation"}, "saturation is false there and true here"},
      {{"--edge-order", "ascending"}, "edge order is \"balanced\" there and \"ascending\" here"},
      {{"--input", out("other.safetensors")}, "another run: input is "}};
  for (auto const& [options, sentence] : others) {
    auto command = words(1);
    command.insert(command.end(), options.begin(), options.end());
    auto const given = std::find(command.begin(), command.end(), options[0]);
    if (given != command.end() - static_cast<std::ptrdiff_t>(options.size()))
      command.erase(given, given + 2); // an option must not be given twice
    auto const ended = test::run(command);
    EXPECT_EQ(ended.exit_code, 3) << ended.err;
    ASSERT_EQ(ended.complaints().size(), 1U) << ended.err;
    EXPECT_THAT(ended.err, StartsWith("varve: " + out("journal") + " is the journal of another run: "));
    EXPECT_THAT(ended.err, HasSubstr(sentence));
    EXPECT_EQ(read_bytes(out("journal")), journal);
    EXPECT_EQ(read_bytes(out("alive.tsv")), categories);
  }
}

TEST_F(Faults, AJournalWhereNoneCanBeIsFoundBeforeTheWork) {
  auto command = words(1);
  *std::find(command.begin(), command.end(), out("journal")) = out("no/such/journal");
  auto const ended = test::run(command);
  EXPECT_EQ(ended.exit_code, 4);
  ASSERT_EQ(ended.complaints().size(), 1U) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("no/such/journal cannot be written: No such file or directory"));
  EXPECT_EQ(ended.out, "");
  expect_no_outputs();
}

} // namespace
} // namespace varve
