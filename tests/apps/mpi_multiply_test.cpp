#include "apps/shared_folder.hpp"

#include "io/dense_file.hpp"
#include "products/plain_product.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::Dense;
using test::Ended;
using test::hash_in;
using test::joined;
using test::random_dense;
using test::read_json;

class MultiplyOnRanks : public test::SharedFolder<MultiplyOnRanks> {
public:
  static void make_files() {
    write("a.safetensors", random_dense<float>(300, 200, 1));
    write("b.safetensors", random_dense<float>(200, 260, 2));
    expected_ = test::plain_product(random_dense<float>(300, 200, 1), random_dense<float>(200, 260, 2));
  }

protected:
  static void write(std::string const& name, Dense<float> const& matrix) {
    DenseFileWriter writer(path(name), matrix.num_rows, matrix.num_columns, Precision::single_precision);
    writer.write({0, matrix.num_rows, 0, matrix.num_columns}, matrix.values.data());
    writer.commit();
  }

  static std::vector<std::string> words(std::vector<std::string> const& more) {
    return joined({VARVE_COMMAND, "multiply", path("a.safetensors"), path("b.safetensors"), "--output",
                   path("c.safetensors"), "--tile", "32", "--tuning=share-devices=on"},
                  more);
  }
  static std::vector<std::string> on(int ranks, std::vector<std::string> const& command) {
    return joined({VARVE_MPIRUN, VARVE_MPIRUN_RANKS, std::to_string(ranks)}, command);
  }

  static void expect_product() {
    DenseFile const matrix(path("c.safetensors"));
    std::vector<float> values(300 * 260);
    ASSERT_EQ(matrix.num_rows(), 300U);
    matrix.read({0, 300, 0, 260}, values.data());
    EXPECT_EQ(values, expected_.values);
    fs::remove(path("c.safetensors"));
  }

  static bool contains(std::vector<std::string> const& words, std::string const& word) {
    return std::ranges::find(words, word) != words.end();
  }

  static std::uint64_t num_tasks(nlohmann::json const& report) {
    std::uint64_t sum = 0;
    for (auto const& rank : report["ranks"]) sum += rank["tasks"].get<std::uint64_t>();
    return sum;
  }

  static inline Dense<float> expected_;
};

TEST_F(MultiplyOnRanks, GiveTheBitsOfOne) {
  for (int const ranks : {1, 2, 3, 4}) {
    for (auto const& more : {std::vector<std::string>{}, {"--tuning", "peer-tiles=off"}}) {
      auto const ended = test::run(on(ranks, words(joined({"--report", path("report.json")}, more))));
      ASSERT_EQ(ended.exit_code, 0) << ended.err;
      expect_product();
      auto const report = read_json(path("report.json"));
      EXPECT_EQ(report["ranks"].size(), static_cast<std::size_t>(ranks));
      EXPECT_EQ(report["tiles"]["tiles"], 10U * 9U);
      EXPECT_EQ(num_tasks(report), 10U * 9U);
      EXPECT_EQ(report["peer_tiles"], !contains(more, "peer-tiles=off"));
    }
  }
}

/// Tiles that each rank writes to the output itself.
TEST_F(MultiplyOnRanks, WriteLargeTilesToOneFile) {
  write("long.safetensors", random_dense<float>(1100, 20, 3));
  write("wide.safetensors", random_dense<float>(20, 1300, 4));
  auto const run = [&](int ranks, std::vector<std::string> const& more) {
    auto const ended =
        test::run(on(ranks, joined({VARVE_COMMAND, "multiply", path("long.safetensors"), path("wide.safetensors"),
                                    "--output", path("c.safetensors"), "--tuning=share-devices=on"},
                                   more)));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    auto const hash = ended.out.find("hash ");
    EXPECT_NE(hash, std::string::npos) << ended.out;
    auto result = test::read_bytes(path("c.safetensors")) + ended.out.substr(std::min(hash, ended.out.size()));
    fs::remove(path("c.safetensors"));
    return result;
  };
  auto const expected = run(1, {"--tile", "300"});
  EXPECT_EQ(run(3, {"--tile", "300"}) == expected, true) << "one rank writes all";
  EXPECT_EQ(run(3, {"--tile", "512"}) == expected, true);
  EXPECT_EQ(run(2, {"--tile", "1024"}) == expected, true);
  EXPECT_EQ(run(3, {"--tile", "512", "--journal", path("large.journal")}) == expected, true);
  auto const kept_nowhere = test::run(on(3, {VARVE_COMMAND, "multiply", path("long.safetensors"),
                                             path("wide.safetensors"), "--tile", "512", "--tuning=share-devices=on"}));
  EXPECT_EQ(kept_nowhere.exit_code, 0) << kept_nowhere.err;
  EXPECT_TRUE(kept_nowhere.out.ends_with(expected.substr(expected.rfind("hash ")))) << kept_nowhere.out;
}

TEST_F(MultiplyOnRanks, CopyTilesFromEachOther) {
  for (bool const is_shared : {true, false}) {
    std::vector<std::string> more = {"--report", path("report.json")};
    if (!is_shared) more.insert(more.end(), {"--tuning", "peer-tiles=off"});
    auto const ended = test::run(on(3, words(more)));
    ASSERT_EQ(ended.exit_code, 0) << ended.err;
    expect_product();
    auto const report = read_json(path("report.json"));
    double copied = 0.0;
    double read = 0.0;
    for (auto const& rank : report["ranks"]) {
      auto const& cache = rank["tile_cache"];
      EXPECT_EQ(cache["tiles"]["own"], rank["hits"]);
      EXPECT_EQ(cache["tiles"]["peers"].get<int>() + cache["tiles"]["host"].get<int>(), rank["misses"]);
      EXPECT_EQ(cache["peers"].size(), is_shared ? 2U : 0U);
      for (auto const& peer : cache["peers"]) EXPECT_TRUE(peer["used"]) << peer;
      copied += cache["bytes"]["peers"].get<double>();
      read += cache["bytes"]["host"].get<double>();
    }
    double const once = (300 + 260) * 200 * 4;
    EXPECT_GE(read, once);
    // How many tiles a rank finds with the others depends on who is faster; distribute_tile_sharing lets them wait.
    if (!is_shared) {
      EXPECT_EQ(copied, 0.0);
    }
    EXPECT_EQ(ended.out.find("copied from devices of other ranks") != std::string::npos, is_shared) << ended.out;
  }
}

TEST_F(MultiplyOnRanks, OfDifferentBackendsAndMemoryShareTheWork) {
  auto const command = joined(joined(on(1, words({"--backend", "serial", "--memory", "device=0.0001"})), {":"}),
                              joined({VARVE_MPIRUN_RANKS, "2"}, words({})));
  auto const ended = test::run(command);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  expect_product();
}

TEST_F(MultiplyOnRanks, WriteAFileWhoseNameIsNoUtf8) {
  auto const name = path("c\xff.safetensors");
  auto const ended = test::run(on(2, {VARVE_COMMAND, "multiply", path("a.safetensors"), path("b.safetensors"),
                                      "--output", name, "--tile", "32", "--tuning=share-devices=on"}));
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  fs::rename(name, path("c.safetensors"));
  expect_product();
}

TEST_F(MultiplyOnRanks, RefuseDifferentOptions) {
  auto const command =
      joined(joined(on(1, words({})), {":"}), joined({VARVE_MPIRUN_RANKS, "1"}, words({"--alpha", "2"})));
  auto const ended = test::run(command);
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_THAT(ended.err, ::testing::HasSubstr("--alpha is 2 here and 1 on rank 0"));
  EXPECT_FALSE(fs::exists(path("c.safetensors")));
}

TEST_F(MultiplyOnRanks, ContinueWithAnyNumberOfRanks) {
  auto const journal = path("ranks.journal");
  auto const first = test::run(on(3, words({"--journal", journal})));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  expect_product();
  for (auto const& name : {journal, journal + ".1", journal + ".2"})
    fs::resize_file(name, fs::file_size(name) * 2 / 3); // as if killed
  auto const second = test::run(on(2, words({"--journal", journal, "--report", path("report.json")})));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(hash_in(second.out), hash_in(first.out));
  expect_product();
  auto const report = read_json(path("report.json"));
  EXPECT_EQ(num_tasks(report) + report["journal"]["found_tiles"].get<std::uint64_t>(), report["tiles"]["tasks"]);
}

} // namespace
} // namespace varve
