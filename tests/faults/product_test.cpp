#include "apps/subprocess.hpp"
#include "faults/children.hpp"
#include "faults/gate.hpp"
#include "io/dense_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;

/// A product of hundreds of tiles with a journal, which is killed again and again.
class KilledProduct : public ::testing::Test {
protected:
  KilledProduct() {
    for (char const* const name : {"a.safetensors", "b.safetensors"}) write_matrix(name);
  }

  std::string file(std::string const& name) const { return (folder_ / name).string(); }

  void write_matrix(std::string const& name) const {
    constexpr std::uint64_t size = 512;
    std::vector<float> values(size * size);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.001F * static_cast<float>(i % 997) - 0.4F;
    DenseFileWriter writer(file(name), size, size, Precision::single_precision);
    writer.write({0, size, 0, size}, values.data());
    writer.commit();
  }

  std::vector<std::string> words(bool has_journal) const {
    return joined({"env", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self", "OMPI_MCA_ess_singleton_isolated=1"},
                  command(has_journal));
  }

  static std::vector<std::string> joined(std::vector<std::string> words, std::vector<std::string> const& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::vector<std::string> command(bool has_journal, std::string const& tile = "32") const {
    std::vector<std::string> words = {VARVE_COMMAND,
                                      "multiply",
                                      file("a.safetensors"),
                                      file("b.safetensors"),
                                      "--output",
                                      file("c.safetensors"),
                                      "--tile",
                                      tile,
                                      "--report",
                                      file("report.json")};
    if (has_journal) words.insert(words.end(), {"--journal", file("journal")});
    return words;
  }

  nlohmann::json report() const { return nlohmann::json::parse(read_bytes(file("report.json"))); }

#if defined(VARVE_MPIRUN)
  std::vector<std::string> on_three_ranks() const {
    return joined({VARVE_MPIRUN, VARVE_MPIRUN_RANKS, "3"},
                  joined(command(true, "16"), {"--backend", "serial", "--tuning=share-devices=on"}));
  }

  /// Starts three ranks, kills one of them once the journals have so many tiles, and returns the exit code of all.
  int kill_one_of_three(std::uint64_t num_tiles) const {
    test::Gate gate(file("journal"), num_tiles * 16 * 16 * sizeof(float));
    auto const process = test::start(gate.before(on_three_ranks()), file("out"), file("err"));
    EXPECT_TRUE(gate.await(process)) << read_bytes(file("err"));
    auto const ranks = test::children_of(process);
    EXPECT_EQ(ranks.size(), 3U);
    kill(ranks.empty() ? process : std::ranges::max(ranks), SIGKILL);
    gate.open_for_all();
    return test::wait_for(process);
  }
#endif

  /// Starts the product and sends it a signal once its journal has grown to this size; returns its exit code (-1 if the
  /// signal ended it).
  int run_until(std::uint64_t journal_size, int signal) const {
    test::Gate gate(file("journal"), journal_size);
    auto const process = test::start(gate.before(words(true)), file("out"), file("err"));
    EXPECT_TRUE(gate.await(process)) << read_bytes(file("err"));
    kill(process, signal);
    gate.open_for_all();
    return test::wait_for(process);
  }

  TemporaryFolder const folder_;
};

TEST_F(KilledProduct, GoesOnAndGivesTheSameBits) {
  EXPECT_EQ(test::run(words(false)).exit_code, 0);
  auto const expected = read_bytes(file("c.safetensors"));
  auto const hash = nlohmann::json::parse(read_bytes(file("report.json")))["hash"];
  fs::remove(file("c.safetensors"));
  constexpr std::uint64_t tile_bytes = 32 * 32 * 4;
  for (std::uint64_t const num_tiles : {3U, 40U, 90U}) {
    EXPECT_EQ(run_until(num_tiles * tile_bytes, SIGKILL), -1);
    EXPECT_FALSE(fs::exists(file("c.safetensors")));
  }
  EXPECT_EQ(run_until(140 * tile_bytes, SIGTERM), 5);
  EXPECT_THAT(read_bytes(file("err")), ::testing::HasSubstr("the same command continues from"));
  EXPECT_EQ(test::run(words(true)).exit_code, 0);
  auto const report = nlohmann::json::parse(read_bytes(file("report.json")));
  EXPECT_GE(report["journal"]["found_tiles"], 130);
  EXPECT_EQ(report["hash"], hash);
  EXPECT_EQ(read_bytes(file("c.safetensors")).size(), expected.size());
}

#if defined(VARVE_MPIRUN)

TEST_F(KilledProduct, OfRanksGoesOnAfterTheDeathOfOne) {
  ASSERT_EQ(test::run(words(false)).exit_code, 0);
  auto const hash = report()["hash"];
  fs::remove(file("c.safetensors"));
  fs::remove(file("report.json"));
  EXPECT_NE(kill_one_of_three(100), 0);
  EXPECT_FALSE(fs::exists(file("c.safetensors")));
  EXPECT_FALSE(fs::exists(file("report.json")));
  auto const ended = test::run(on_three_ranks());
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(report()["hash"], hash);
  EXPECT_GE(report()["journal"]["found_tiles"], 90);
}

#endif

} // namespace
} // namespace varve
