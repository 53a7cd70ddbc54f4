#include "apps/shared_folder.hpp"

#include "core/backend.hpp"
#include "core/host_threads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::joined;
using test::read_json;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using Json = nlohmann::json;

class Benchmark : public test::SharedFolder<Benchmark> {
public:
  static void make_files() {
    test::generate_medium(path("net.safetensors"), path("images.safetensors"), 300);
    succeed(
        {"generate", "random", "--widths", "30,70,20,9", "--density", "0.3", "--output", path("mixed.safetensors")});
    succeed({"generate", "samples", "--neurons", "30", "--samples", "100", "--output", path("samples.safetensors")});
  }

protected:
  static std::string all_backends() {
    std::string names;
    for (Backend const backend : compiled_backends()) names += (names.empty() ? "" : ",") + to_string(backend);
    return names;
  }

  struct Measured {
    std::vector<Json> records;
    std::string out; ///< what the command printed
  };

  /// Runs a benchmark, a short one unless the options say otherwise.
  static Measured run(std::vector<std::string> const& options) {
    std::vector<std::string> words = {"benchmark", "--output", path("r.jsonl")};
    for (auto const& [name, value] : {std::pair("--repeats", "3"), std::pair("--seconds", "0")})
      if (std::ranges::find(options, name) == options.end()) words = joined(words, {name, value});
    Measured measured{{}, succeed(joined(words, options)).out};
    std::istringstream lines(read_bytes(path("r.jsonl")));
    for (std::string line; std::getline(lines, line);) measured.records.push_back(Json::parse(line));
    return measured;
  }

  static std::vector<Json> measure(std::vector<std::string> const& options) { return run(options).records; }

  /// All images on all backends, without reductions and with them; run once for all tests.
  static Measured const& on_all_backends() {
    static auto const measured = run(with_data({"--backend", all_backends(), "--reductions", "none", "auto"}));
    return measured;
  }

  /// 21 measurements of 100 images in double; run once for all tests.
  static Measured const& in_double() {
    static auto const measured = run(with_data({"--repeats", "21", "--samples", "100", "--precision", "double"}));
    return measured;
  }

  static std::vector<std::string> with_data(std::vector<std::string> const& options = {}) {
    return joined({"--network", path("net.safetensors"), "--input", path("images.safetensors")}, options);
  }

  static double sum(Json const& steps, char const* name) {
    double all = 0.0;
    for (auto const& step : steps) all += step[name].get<double>();
    return all;
  }
};

TEST_F(Benchmark, RecordsAnswersThatAreThoseOfInfer) {
  auto const& [records, out] = on_all_backends();
  ASSERT_EQ(records.size(), 2 * compiled_backends().size());
  for (auto const& record : records) {
    auto const& setup = record["setup"];
    succeed(joined({"infer", "--report", path("report.json"), "--backend", setup["backend"].get<std::string>(),
                    "--reductions", setup["reductions"].get<std::string>()},
                   with_data()));
    auto const report = read_json(path("report.json"));
    EXPECT_EQ(record["activation_hash"], report["activation_hash"]);
    EXPECT_EQ(record["survivors"], report["survivors"]);
    EXPECT_EQ(record["fma"], report["live_edges"]);
    EXPECT_EQ(record["network"]["edges"], report["network"]["edges"]);
    EXPECT_EQ(record["check"]["right"], true);
    EXPECT_EQ(record["check"]["samples"], 300);
    EXPECT_THAT(record["check"]["way"].get<std::string>(), HasSubstr("bits"));
    EXPECT_THAT(out, HasSubstr(setup["backend"].get<std::string>()));
  }
  EXPECT_THAT(records[0]["check"]["way"].get<std::string>(), HasSubstr("reference's plain loops"));
}

TEST_F(Benchmark, StepsAreThoseOfThePlanAndTheirWorkIsThatOfTheRun) {
  auto const of_other_widths = measure(
      {"--network", path("mixed.safetensors"), "--input", path("samples.safetensors"), "--backend", all_backends()});
  for (auto const* const records : {&on_all_backends().records, &of_other_widths}) {
    for (auto const& record : *records) {
      auto const& steps = record["steps"];
      ASSERT_FALSE(steps.empty());
      std::size_t next_layer = 0;
      for (auto const& step : steps) {
        EXPECT_EQ(step["first_layer"], next_layer);
        next_layer = step["last_layer"].get<std::size_t>() + 1;
        for (char const* const name : {"seconds", "least_bytes", "gathered_bytes", "launches"})
          EXPECT_GT(step[name].get<double>(), 0.0) << name;
      }
      EXPECT_LE(next_layer, record["network"]["layers"]);
      EXPECT_EQ(steps[0]["samples"], record["samples"]);
      EXPECT_DOUBLE_EQ(sum(steps, "fma"), record["fma"].get<double>());
    }
  }
}

TEST_F(Benchmark, SummariesFollowFromTheRunsTheyList) {
  auto const& record = in_double().records.at(0);
  for (char const* const name : {"loop_seconds", "call_seconds"}) {
    auto all = record[std::string(name) + "_all"].get<std::vector<double>>();
    ASSERT_EQ(all.size(), 21U);
    std::ranges::sort(all);
    auto const& summary = record[name];
    EXPECT_EQ(summary["measurements"], 21);
    EXPECT_DOUBLE_EQ(summary["median"].get<double>(), all[10]);
    EXPECT_DOUBLE_EQ(summary["p50"].get<double>(), all[10]);
    EXPECT_DOUBLE_EQ(summary["p95"].get<double>(), all[19]);
    EXPECT_NEAR(summary["p99"].get<double>(), 0.2 * all[19] + 0.8 * all[20], 1e-12);
    EXPECT_DOUBLE_EQ(summary["min"].get<double>(), all[0]);
    EXPECT_DOUBLE_EQ(summary["spread"].get<double>(), (all[15] - all[5]) / all[10]);
  }
  auto const& loops = record["loop_seconds_all"];
  for (std::size_t run = 0; run < loops.size(); ++run)
    EXPECT_LT(loops[run].get<double>(), record["call_seconds_all"][run].get<double>());
  EXPECT_DOUBLE_EQ(record["throughput"]["samples_per_second"]["p50"].get<double>(),
                   100.0 / record["call_seconds"]["p50"].get<double>());
}

TEST_F(Benchmark, MeasuresOnUntilTheTimeIsUp) {
  auto const record = measure(with_data({"--samples", "1", "--repeats", "1", "--seconds", "0.05"})).at(0);
  double const first = record["call_seconds_all"].at(0).get<double>();
  EXPECT_TRUE(record["loop_seconds"]["measurements"] > 1 || first >= 0.05) << first; // on a busy machine
  EXPECT_LE(record["loop_seconds"]["measurements"], 1000);
}

TEST_F(Benchmark, TellsTheMachineAndTheOptions) {
  auto const& [records, out] = in_double();
  auto const& record = records.at(0);
  EXPECT_EQ(record["record_version"], 1);
  EXPECT_EQ(record["setup"]["precision"], "double");
  EXPECT_EQ(record["options"]["samples"], Json::parse("[100]"));
  auto const& machine = record["machine"];
  EXPECT_THAT(out, HasSubstr("machine   " + machine["host"].get<std::string>() + ": "));
  EXPECT_GE(machine["processor"]["units_allowed"], 1);
  EXPECT_GT(machine["system"]["memory_bytes"].get<double>(), 1e6);
  EXPECT_TRUE(machine["control_group"].contains("processors"));
  EXPECT_EQ(machine["environment"]["OMP_NUM_THREADS"], "2");
  for (char const* const name : {"git_commit", "compiler", "flags"})
    EXPECT_FALSE(machine["build"][name].get<std::string>().empty()) << name;
  EXPECT_FALSE(machine["kokkos"]["cpu_architecture"].is_null());
  EXPECT_FALSE(machine["mpi"].get<std::string>().empty());
  for (char const* const name : {"copy_bytes_per_second", "gather_bytes_per_second", "far_gather_bytes_per_second",
                                 "fma_per_second", "launch_seconds"})
    EXPECT_GT(record["ceilings"][name].get<double>(), 0.0) << name;
}

TEST_F(Benchmark, CountsTheProcessorsThatThisProcessMayUseThoughOpenMPBindsItsThreads) {
  auto const options =
      with_data({"--samples", "1", "--repeats", "1", "--seconds", "0", "--output", path("bound.jsonl")});
  auto const ended =
      test::run(joined({"env", "OMP_PROC_BIND=close", "OMP_PLACES=threads", VARVE_COMMAND, "benchmark"}, options));
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  auto const record = Json::parse(read_bytes(path("bound.jsonl")));
  EXPECT_EQ(record["machine"]["processor"]["units_allowed"], num_host_threads());
}

TEST_F(Benchmark, OfASuiteMeasuresEachNumberOfSamples) {
  auto const records = measure({"--suite", "trained", "--samples", "1,3", "--repeats", "1", "--check", "1"});
  ASSERT_EQ(records.size(), 8U);
  EXPECT_EQ(records[0]["samples"], 1);
  EXPECT_EQ(records[1]["samples"], 3);
  EXPECT_EQ(records[0]["suite"], "trained");
  EXPECT_EQ(records[1]["check"]["samples"], 1);
  for (std::size_t number = 1; number < records.size(); ++number)
    for (char const* const name : {"copy_bytes_per_second", "gather_bytes_per_second", "fma_per_second"})
      EXPECT_GE(records[number]["ceilings"][name].get<double>(), records[number - 1]["ceilings"][name].get<double>())
          << "measured again before each case, the best is kept";
}

TEST_F(Benchmark, RefusesWhatItCannotMeasure) {
  auto const refused = [&](std::vector<std::string> const& options, std::vector<std::string> const& parts) {
    expect_sentence(run_varve(joined({"benchmark"}, options)), 2, parts);
  };
  refused({}, {"either --suite, or --network and --input"});
  refused({"--suite", "quick", "--network", path("net.safetensors")}, {"either --suite"});
  refused({"--network", path("net.safetensors")}, {"--network and --input together"});
  refused({"--suite", "slow"}, {"--suite", "slow"});
  refused(with_data({"--backend", "abacus"}), {"no backend 'abacus'"});
  refused(with_data({"--reductions", "most"}), {"no reduction 'most'"});
  refused(with_data({"--samples", "301"}), {"300 samples", "301"});
  refused(with_data({"--repeats", "0"}), {"--repeats"});
  refused(with_data({"--seconds", "-1"}), {"--seconds is -1, expected a number from 0"});
  refused(with_data({"--seconds", "nan"}), {"--seconds is nan"});
  refused(with_data({"--output", path("net.safetensors")}), {"--output"});
}

TEST_F(Benchmark, FindsOutputsThatCannotBeWrittenBeforeItMeasures) {
  auto const ended = run_varve(joined({"benchmark"}, with_data({"--output", path("no-folder/r.json")})));
  expect_sentence(ended, 4, {"no-folder/r.json cannot be written"});
  EXPECT_EQ(ended.out, "");
}

} // namespace
} // namespace varve
