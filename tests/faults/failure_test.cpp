#include "apps/subprocess.hpp"
#include "io/container_edit.hpp"

#include "io/sample_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using varve::test::TemporaryFolder;

#if defined(VARVE_MPIRUN)
constexpr int several = 3;
#else
constexpr int several = 1;
#endif

/// What is wrong ends a run with one sentence, and leaves nothing behind but the journal.
class Failures : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    files_ = std::make_unique<TemporaryFolder>();
    test::succeed({"generate", "radixnet", "--neurons", "1024", "--layers", "4", "--seed", "3", "--bias", "-0.2",
                   "--output", file("net.safetensors")});
    test::succeed({"generate", "images", "--neurons", "1024", "--samples", "300", "--seed", "5", "--output",
                   file("img.safetensors")});
    auto const samples = read_sample_file(file("img.safetensors"));
    auto columns = samples.matrix.column_indices;
    columns[samples.matrix.row_pointers[200]] = 1024; // sample 200 has a pixel too many
    test::ContainerEdit edit(file("img.safetensors"));
    edit.set("samples.indices", columns);
    edit.write(file("bad.safetensors"));
  }
  static void TearDownTestSuite() { files_.reset(); }

  static std::string file(std::string const& name) { return (*files_ / name).string(); }
  std::string out(std::string const& name) const { return (out_ / name).string(); }

  std::vector<std::string> infer(int ranks, std::vector<std::string> const& options) const {
    std::vector<std::string> words = {"env", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self"}; // one rank starts faster so
#if defined(VARVE_MPIRUN)
    if (ranks > 1) words = {VARVE_MPIRUN, VARVE_MPIRUN_RANKS, std::to_string(ranks)};
#endif
    words.insert(words.end(),
                 {VARVE_COMMAND, "infer", "--tuning=share-devices=on", "--network", file("net.safetensors")});
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }

  /// The one sentence of the command; mpirun adds words of its own.
  static std::string sentence(test::Ended const& ended) {
    std::vector<std::string> ours;
    for (auto const& line : ended.complaints())
      if (line.starts_with("varve: ")) ours.push_back(line);
    EXPECT_EQ(ours.size(), 1U) << ended.err;
    return ours.empty() ? "" : ours.front();
  }

  TemporaryFolder out_;
  static inline std::unique_ptr<TemporaryFolder> files_;
};

TEST_F(Failures, OfOneRankWithinTheQueueEndTheJobSoon) {
  using Option = std::pair<std::string, std::string>;
  for (auto const& [option, value] :
       {Option("--tuning", "schedule=dynamic"), Option("--tuning", "schedule=static"), Option("--split", "neurons")}) {
    auto const begin = std::chrono::steady_clock::now();
    auto const ended =
        test::run(infer(several, {"--input", file("bad.safetensors"), "--batch", "10", option, value, "--categories",
                                  out("alive.tsv"), "--activations", out("last.safetensors")}));
    EXPECT_EQ(ended.exit_code, 3) << ended.err;
    EXPECT_THAT(sentence(ended), StartsWith("varve: " + file("bad.safetensors") + ": samples"));
    EXPECT_THAT(ended.out, Not(HasSubstr("survivors")));
    EXPECT_EQ(out_.num_entries(), 0) << "something was written";
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  }
}

TEST_F(Failures, LeaveTheJournalOfWhatWasFinished) {
  std::vector<std::string> const options = {"--input",   file("bad.safetensors"), "--batch",      "10",
                                            "--journal", out("journal"),          "--categories", out("alive.tsv")};
  auto const ended = test::run(infer(1, options));
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_EQ(out_.num_entries(), 1);
  auto const again = test::run(infer(1, options));
  EXPECT_EQ(again.exit_code, 3);
  EXPECT_THAT(again.out, HasSubstr("200 samples found finished"));
}

TEST_F(Failures, ToWriteAreFoundBeforeTheWork) {
  for (std::string const option : {"--categories", "--predictions", "--activations", "--report"}) {
    auto const ended = test::run(infer(1, {"--input", file("img.safetensors"), option, out("no/such/file")}));
    EXPECT_EQ(ended.exit_code, 4) << ended.err;
    EXPECT_THAT(sentence(ended), HasSubstr("no/such/file cannot be written: No such file or directory"));
    EXPECT_EQ(ended.out, "") << "the work had begun";
  }
}

TEST_F(Failures, OfAFullDiskAreSentences) {
  auto const full = test::run(infer(1, {"--input", file("img.safetensors"), "--categories", "/dev/full"}));
  EXPECT_EQ(full.exit_code, 4) << full.err;
  EXPECT_EQ(sentence(full), "varve: /dev/full cannot be written: No space left on device");

  // A limit to the size of files, in KiB, stands for a full disk.
  for (auto const& [option, name] :
       {std::pair("--journal", out("journal")), std::pair("--activations", out("last.safetensors")),
        std::pair("--predictions", out("best.tsv"))}) {
    std::string command = "ulimit -f 1; exec";
    for (auto const& word : infer(1, {"--input", file("img.safetensors"), "--batch", "50", option, name}))
      command += " " + test::quoted(word);
    auto const ended = test::run({"bash", "-c", command});
    EXPECT_EQ(ended.exit_code, 4) << ended.err;
    EXPECT_THAT(sentence(ended), HasSubstr("cannot be written")) << option;
    EXPECT_THAT(sentence(ended), HasSubstr("File too large")) << option;
    auto const what = std::string(option) == "--activations"
                          ? "varve: a temporary file for finished batches in the folder " + out_.path().string() + " "
                          : "varve: " + name + " ";
    EXPECT_THAT(sentence(ended), StartsWith(what)) << option;
    EXPECT_EQ(out_.num_entries(), std::string(option) == "--journal" ? 1 : 0) << option;
    for (auto const& entry : std::filesystem::directory_iterator(out_.path())) std::filesystem::remove(entry.path());
  }
}

} // namespace
} // namespace varve
