#include "apps/shared_folder.hpp"

#include "core/backend.hpp"
#include "core/config.hpp"
#include "io/dense_file.hpp"
#include "products/plain_product.hpp"
#include "products/product_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::Dense;
using test::Ended;
using test::expect_sentence;
using test::hash_in;
using test::joined;
using test::random_dense;
using test::read_json;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;

template <class Scalar>
void write_matrix(std::string const& path, Dense<Scalar> const& matrix) {
  auto const precision = sizeof(Scalar) == 4 ? Precision::single_precision : Precision::double_precision;
  DenseFileWriter writer(path, matrix.num_rows, matrix.num_columns, precision);
  writer.write({0, matrix.num_rows, 0, matrix.num_columns}, matrix.values.data());
  writer.commit();
}

template <class Scalar>
Dense<Scalar> read_matrix(std::string const& path) {
  DenseFile const matrix(path);
  Dense<Scalar> read{matrix.num_rows(), matrix.num_columns(), {}};
  read.values.resize(matrix.num_rows() * matrix.num_columns());
  matrix.read({0, matrix.num_rows(), 0, matrix.num_columns()}, read.values.data());
  return read;
}

class Multiply : public test::SharedFolder<Multiply> {
public:
  static void make_files() {
    a_ = random_dense<float>(150, 90, 1);
    b_ = random_dense<float>(90, 210, 2);
    added_ = random_dense<float>(150, 210, 3);
    write_matrix(path("a.safetensors"), a_);
    write_matrix(path("b.safetensors"), b_);
    write_matrix(path("c0.safetensors"), added_);
    write_matrix(path("a-transposed.safetensors"), test::transposed(a_));
    write_matrix(path("b-transposed.safetensors"), test::transposed(b_));
  }

protected:
  static std::vector<std::string> words(std::vector<std::string> const& more = {}) {
    return joined({"multiply", path("a.safetensors"), path("b.safetensors"), "--output", path("c.safetensors")}, more);
  }

  static inline Dense<float> a_, b_, added_;
};

TEST_F(Multiply, GivesTheBitsOfPlainLoopsWithEveryOption) {
  auto const expected = test::plain_product(a_, b_);
  auto const hash = hash_in(succeed(words()).out);
  EXPECT_EQ(read_matrix<float>(path("c.safetensors")).values, expected.values);
  std::vector<std::vector<std::string>> variants = {{"--tile", "5"},
                                                    {"--tile", "37"},
                                                    {"--tile", "64"},
                                                    {"--tile", "4096"},
                                                    {"--memory", "device=0.0001", "--backend", "serial"},
                                                    {"--tuning", "peer-tiles=off"}};
  for (auto const backend : compiled_backends()) variants.push_back({"--backend", to_string(backend), "--tile", "50"});
  for (auto const& more : variants) {
    auto const ended = succeed(words(more));
    EXPECT_EQ(hash_in(ended.out), hash) << more.front();
    EXPECT_EQ(read_matrix<float>(path("c.safetensors")).values, expected.values) << more.front();
  }
  EXPECT_EQ(hash_in(succeed(words({"--kokkos-num-threads=1"}), test::run_varve_process).out), hash);
  EXPECT_EQ(read_matrix<float>(path("c.safetensors")).values, expected.values);
}

TEST_F(Multiply, TellsTheHashOfAProductThatIsKeptNowhere) {
  auto const hash = hash_in(succeed(words({"--tile", "37"})).out);
  fs::remove(path("c.safetensors"));
  auto const num_files = [] {
    return std::distance(fs::directory_iterator(fs::path(path("a.safetensors")).parent_path()),
                         fs::directory_iterator());
  };
  auto const files_before = num_files();
  auto const out = succeed({"multiply", path("a.safetensors"), path("b.safetensors"), "--tile", "64"}).out;
  EXPECT_THAT(out, HasSubstr("C         kept nowhere"));
  EXPECT_EQ(hash_in(out), hash);
  EXPECT_EQ(num_files(), files_before);
}

TEST_F(Multiply, TransposesWhatIsTransposed) {
  auto const expected = test::plain_product(a_, b_);
  succeed({"multiply", path("a-transposed.safetensors"), path("b-transposed.safetensors"), "--transpose", "ab",
           "--tile", "64", "--output", path("c.safetensors")});
  EXPECT_EQ(read_matrix<float>(path("c.safetensors")).values, expected.values);
}

TEST_F(Multiply, ScalesAndAdds) {
  auto const product = test::plain_product(a_, b_);
  succeed(words({"--alpha", "0.1", "--add", path("c0.safetensors"), "--beta", "-0.3", "--tile", "64"}));
  auto const scaled = read_matrix<float>(path("c.safetensors"));
  succeed(words({"--add", path("c0.safetensors"), "--tile", "64"}));
  auto const sum = read_matrix<float>(path("c.safetensors"));
  for (std::size_t i = 0; i < product.values.size(); ++i) {
    auto const exact = static_cast<double>(product.values[i]);
    auto const added = static_cast<double>(added_.values[i]);
    ASSERT_EQ(scaled.values[i], static_cast<float>(std::fma(0.1, exact, -0.3 * added)));
    ASSERT_EQ(sum.values[i], static_cast<float>(exact + added));
  }
}

TEST_F(Multiply, ComputesInDoubleIfAsked) {
  Dense<double> a{a_.num_rows, a_.num_columns, {a_.values.begin(), a_.values.end()}};
  Dense<double> b{b_.num_rows, b_.num_columns, {b_.values.begin(), b_.values.end()}};
  succeed(words({"--precision", "double"}));
  EXPECT_EQ(DenseFile(path("c.safetensors")).stored(), Precision::double_precision);
  EXPECT_EQ(read_matrix<double>(path("c.safetensors")).values, test::plain_product(a, b).values);
}

TEST_F(Multiply, ByALibraryGivesTheSameNumbersWithinRounding) {
  if (VARVE_HAVE_KOKKOS_KERNELS == 0) {
    fs::remove(path("c.safetensors"));
    expect_sentence(run_varve(words({"--tuning", "product=library"})), 2,
                    {"lacks Kokkos Kernels", "-DVARVE_ENABLE_KOKKOS_KERNELS=ON"});
    EXPECT_FALSE(fs::exists(path("c.safetensors")));
    return;
  }
  for (std::string const precision : {"float", "double"}) {
    for (auto const backend : compiled_backends()) {
      auto const more =
          std::vector<std::string>{"--alpha",     "0.5", "--add",     path("c0.safetensors"), "--beta",      "-2",
                                   "--tile",      "64",  "--backend", to_string(backend),     "--precision", precision,
                                   "--transpose", "ab"};
      auto const given = joined({"multiply", path("a-transposed.safetensors"), path("b-transposed.safetensors"),
                                 "--output", path("c.safetensors")},
                                more);
      succeed(given);
      auto const own = read_matrix<double>(path("c.safetensors")).values;
      auto const ended = succeed(joined(given, {"--tuning", "product=library", "--report", path("report.json")}));
      EXPECT_THAT(ended.out, HasSubstr("gemm of Kokkos Kernels"));
      EXPECT_EQ(read_json(path("report.json"))["product"], "library");
      auto const found = read_matrix<double>(path("c.safetensors")).values;
      ASSERT_EQ(found.size(), own.size());
      double largest = 0.0;
      for (std::size_t i = 0; i < own.size(); ++i) largest = std::max(largest, std::abs(found[i] - own[i]));
      EXPECT_LE(largest, 90.0 * (precision == "float" ? 0x1p-23 : 0x1p-52)) << to_string(backend);
    }
  }
  auto const journal = path("library.journal");
  succeed(words({"--tile", "64", "--journal", journal}));
  expect_sentence(run_varve(words({"--tile", "64", "--journal", journal, "--tuning", "product=library"})), 3,
                  {"is the journal of another run", "product"});
}

TEST_F(Multiply, ReportsWhatItDid) {
  auto const ended = succeed(words({"--tile", "64", "--report", path("report.json")}));
  auto const report = read_json(path("report.json"));
  EXPECT_EQ(report["hash"], hash_in(ended.out));
  EXPECT_EQ(report["shape"]["depth"], 90);
  EXPECT_EQ(report["tiles"]["tasks"], 3 * 4);
  EXPECT_EQ(report["ranks"][0]["tasks"], 3 * 4);
  EXPECT_EQ(report["ranks"][0]["misses"], 3 * 2 + 4 * 2);
  EXPECT_EQ(report["ranks"][0]["brought_bytes"], 4.0 * 90 * (150 + 210));
  EXPECT_EQ(report["ranks"][0]["bytes_without_cache"], 4.0 * 90 * (150 * 4 + 210 * 3));
  EXPECT_GE(report["memory"]["kept_tiles"], 14);
  EXPECT_EQ(report["fma"], 150.0 * 90 * 210);
}

TEST_F(Multiply, KeepsToTheMemoryLimit) {
  auto const limit = 60000.0; // bytes
  succeed(words({"--backend", "serial", "--tile", "32", "--memory", "device=" + std::to_string(limit / 0x1p30),
                 "--report", path("report.json")}));
  auto const report = read_json(path("report.json"));
  EXPECT_LE(report["memory"]["bytes"], limit);
  EXPECT_GT(report["ranks"][0]["brought_bytes"], report["memory"]["least_traffic_bytes"]);
  expect_sentence(run_varve(words({"--tile", "100", "--memory", "device=0.00001"})), 4, {"smaller --tile"});
}

TEST_F(Multiply, BringsATileOfAOnceAndOfBForEachBand) {
  write_matrix(path("a600.safetensors"), random_dense<float>(600, 600, 4));
  write_matrix(path("b600.safetensors"), random_dense<float>(600, 600, 5));
  std::vector<std::string> const given = {"multiply",
                                          path("a600.safetensors"),
                                          path("b600.safetensors"),
                                          "--output",
                                          path("c600.safetensors"),
                                          "--tile",
                                          "64",
                                          "--backend",
                                          "serial",
                                          "--report",
                                          path("report.json")};
  auto const whole = hash_in(succeed(given).out);
  auto const ended = succeed(joined(given, {"--memory", "device=" + std::to_string(750000.0 / 0x1p30)}));
  EXPECT_EQ(hash_in(ended.out), whole);
  auto const report = read_json(path("report.json"));
  EXPECT_GE(report["memory"]["bytes"], 600000);
  auto const brought = report["ranks"][0]["brought_bytes"].get<double>();
  EXPECT_LT(brought, 0.3 * report["ranks"][0]["bytes_without_cache"].get<double>());
}

TEST_F(Multiply, RefusesWhatDoesNotFit) {
  fs::remove(path("c.safetensors"));
  auto const refuse = [&](int exit_code, std::vector<std::string> const& parts, std::vector<std::string> const& given) {
    expect_sentence(run_varve(given), exit_code, parts, ::testing::PrintToString(given));
    EXPECT_FALSE(fs::exists(path("c.safetensors")));
  };
  auto const output = path("c.safetensors");
  refuse(3, {"has 150 rows, expected 90"},
         {"multiply", path("a.safetensors"), path("a.safetensors"), "--output", output});
  refuse(3, {"has 90 rows, expected 150", "transposed"}, words({"--transpose", "a"}));
  refuse(3, {"has 150 x 90 numbers, expected 150 x 210"}, words({"--add", path("a.safetensors")}));
  refuse(3, {"cannot be read"}, {"multiply", path("none.safetensors"), path("b.safetensors"), "--output", output});
  refuse(3, {"row 0, column 0", "too large for float"}, words({"--alpha", "1e300"}));
  refuse(2, {"--beta needs --add"}, words({"--beta", "2"}));
  refuse(2, {"--alpha is inf"}, words({"--alpha", "inf"}));
  refuse(2, {"--tile"}, words({"--tile", "0"}));
  refuse(2, {"expected 1 to 65536"}, words({"--tile", "100000"}));
  refuse(2, {"--precision"}, words({"--precision", "half"}));
  refuse(2, {"abacus"}, words({"--backend", "abacus"}));
  refuse(2, {"--journal needs --output"},
         {"multiply", path("a.safetensors"), path("b.safetensors"), "--journal", path("j")});
}

TEST_F(Multiply, NeverReplacesAnInput) {
  auto const before = read_bytes(path("a.safetensors"));
  expect_sentence(
      run_varve({"multiply", path("a.safetensors"), path("b.safetensors"), "--output", path("a.safetensors")}), 2,
      {"would replace what A"});
  expect_sentence(run_varve(words({"--add", path("c0.safetensors"), "--report", path("c0.safetensors")})), 2,
                  {"--report"});
  expect_sentence(run_varve(words({"--journal", path("c.safetensors")})), 2, {"--journal"});
  EXPECT_EQ(read_bytes(path("a.safetensors")), before);
}

TEST_F(Multiply, SaysWhyItsOutputCannotBeWritten) {
  expect_sentence(run_varve({"multiply", path("a.safetensors"), path("b.safetensors"), "--output", "/dev/full"}), 4,
                  {"/dev/full cannot be written: it is a pipe or a device"});
}

TEST_F(Multiply, ContinuesFromAJournalThatWasCut) {
  auto const hash = hash_in(succeed(words({"--tile", "64"})).out);
  auto const output = read_matrix<float>(path("c.safetensors")).values;
  auto const journal = path("cut.journal");
  succeed(words({"--tile", "64", "--journal", journal}));
  auto const whole = fs::file_size(journal);
  for (auto const size : {whole * 3 / 4, whole / 3, whole / 40}) { // a killed run ends within a record
    fs::resize_file(journal, size);
    fs::remove(path("c.safetensors"));
    auto const ended = succeed(words({"--tile", "64", "--journal", journal, "--report", path("report.json")}));
    EXPECT_EQ(hash_in(ended.out), hash);
    EXPECT_EQ(read_matrix<float>(path("c.safetensors")).values, output);
    auto const report = read_json(path("report.json"));
    EXPECT_LT(report["journal"]["found_tiles"], 12);
    EXPECT_EQ(report["journal"]["found_tiles"].get<int>() + report["ranks"][0]["tasks"].get<int>(), 12);
    EXPECT_EQ(fs::file_size(journal), whole);
  }
  expect_sentence(run_varve(words({"--tile", "64", "--journal", journal, "--alpha", "2"})), 3,
                  {"is the journal of another run: alpha is 1.0 there and 2.0 here"});
  expect_sentence(run_varve(words({"--tile", "50", "--journal", journal})), 3, {"tile is 64 there and 50 here"});
}

TEST_F(Multiply, TakesTheTileOfTheJournal) {
  auto const hash = hash_in(succeed(words()).out);
  auto const journal = path("limits.journal");
  auto const report = path("report.json");
  succeed(words({"--journal", journal, "--backend", "serial", "--memory", "device=0.0001"}));
  auto const ended = succeed(words({"--journal", journal, "--backend", "serial", "--report", report}));
  EXPECT_EQ(hash_in(ended.out), hash);
  EXPECT_EQ(read_json(report)["ranks"][0]["tasks"], 0);
  expect_sentence(run_varve(words({"--journal", journal, "--memory", "device=0.0000001"})), 4,
                  {"its tiles are those of the journal"});
}

TEST_F(Multiply, TakesTwoNamesOfAMatrixForOneInJournals) {
  auto const journal = path("names.journal");
  auto const multiply = [&](std::string const& a) {
    return std::vector<std::string>{"multiply",         a,    path("b.safetensors"), "--output", path("c.safetensors"),
                                    "--tile",           "64", "--journal",           journal,    "--report",
                                    path("report.json")};
  };
  succeed(multiply(path("a.safetensors")));
  fs::create_symlink("a.safetensors", path("link.safetensors"));
  succeed(multiply(path("link.safetensors")));
  EXPECT_EQ(read_json(path("report.json"))["ranks"][0]["tasks"], 0);
}

} // namespace
} // namespace varve
