#include "apps/subprocess.hpp"

#include "io/matrix_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using varve::testing::read_bytes;
using varve::testing::TemporaryFolder;

/// A product of hundreds of tiles with a journal, which is killed again and again.
class KilledProduct : public ::testing::Test {
protected:
  KilledProduct() {
    for (char const* const name : {"a.h5", "b.h5"}) write_matrix(name);
  }

  std::string file(std::string const& name) const { return (folder_ / name).string(); }

  void write_matrix(std::string const& name) const {
    constexpr std::uint64_t size = 512;
    std::vector<float> values(size * size);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.001F * static_cast<float>(i % 997) - 0.4F;
    MatrixWriter writer(file(name), size, size, Precision::single_precision);
    writer.write({0, size, 0, size}, values.data());
    writer.commit();
  }

  std::vector<std::string> words(bool has_journal) const {
    std::vector<std::string> words = {"env",
                                      "OMPI_MCA_pml=ob1",
                                      "OMPI_MCA_btl=self",
                                      "OMPI_MCA_ess_singleton_isolated=1",
                                      VARVE_COMMAND,
                                      "multiply",
                                      file("a.h5"),
                                      file("b.h5"),
                                      "--output",
                                      file("c.h5"),
                                      "--tile",
                                      "32",
                                      "--report",
                                      file("report.json")};
    if (has_journal) words.insert(words.end(), {"--journal", file("journal")});
    return words;
  }

  std::uint64_t size_of_journal() const {
    std::error_code error;
    auto const size = fs::file_size(file("journal"), error);
    return error ? 0 : size;
  }

  /// Starts the product and sends it a signal once its journal has grown to this size; returns its exit code (-1 if the
  /// signal ended it).
  int run_until(std::uint64_t journal_size, int signal) const {
    auto const process = test::start(words(true), file("out"), file("err"));
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (size_of_journal() < journal_size && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    kill(process, signal);
    return test::wait_for(process);
  }

  TemporaryFolder const folder_;
};

TEST_F(KilledProduct, GoesOnAndGivesTheSameBits) {
  EXPECT_EQ(test::run(words(false)).exit_code, 0);
  auto const expected = read_bytes(file("c.h5"));
  auto const hash = nlohmann::json::parse(read_bytes(file("report.json")))["hash"];
  fs::remove(file("c.h5"));
  constexpr std::uint64_t tile_bytes = 32 * 32 * 4;
  for (std::uint64_t const num_tiles : {3U, 40U, 90U}) {
    EXPECT_EQ(run_until(num_tiles * tile_bytes, SIGKILL), -1);
    EXPECT_FALSE(fs::exists(file("c.h5")));
  }
  EXPECT_EQ(run_until(140 * tile_bytes, SIGTERM), 5);
  EXPECT_THAT(read_bytes(file("err")), ::testing::HasSubstr("the same command goes on from"));
  EXPECT_EQ(test::run(words(true)).exit_code, 0);
  auto const report = nlohmann::json::parse(read_bytes(file("report.json")));
  EXPECT_GE(report["journal"]["found_tiles"], 130);
  EXPECT_EQ(report["hash"], hash);
  EXPECT_EQ(read_bytes(file("c.h5")).size(), expected.size());
}

} // namespace
} // namespace varve
