#include "apps/shared_folder.hpp"

#include "core/backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::joined;
using test::read_json;
using test::run_varve;
using test::succeed;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using varve::test::write_bytes;

class Tune : public test::SharedFolder<Tune> {
public:
  static void make_files() {
    succeed({"generate", "random", "--neurons", "64", "--layers", "6", "--degree", "8", "--output",
             path("net.safetensors")});
    succeed({"generate", "samples", "--neurons", "64", "--samples", "3000", "--output", path("samples.safetensors")});
  }

protected:
  static std::vector<std::string> with_data(std::vector<std::string> const& words,
                                            std::vector<std::string> const& options) {
    return joined(joined(words, {"--network", path("net.safetensors"), "--input", path("samples.safetensors")}),
                  options);
  }

  static nlohmann::json report_of(std::vector<std::string> options) {
    options.insert(options.end(), {"--report", path("report.json")});
    succeed(with_data({"infer"}, options));
    return read_json(path("report.json"));
  }

  /// A file of options; infer with it, and more on the command line.
  static test::Ended infer_with_file(std::string const& text, std::vector<std::string> options = {}) {
    write_bytes(path("options.json"), text);
    options.insert(options.end(), {"--options", path("options.json")});
    return run_varve(with_data({"infer"}, options));
  }
};

TEST_F(Tune, FindsOptionsThatInferTakes) {
  for (Backend const backend : compiled_backends()) {
    auto const name = to_string(backend);
    auto const ended = succeed(with_data(
        {"tune"}, {"--backend", name, "--repeat", "2", "--samples", "2500", "--output", path("tuning.json")}));
    EXPECT_THAT(ended.out, HasSubstr("all left to the plan"));
    EXPECT_THAT(ended.out, HasSubstr("--kernel direct"));
    EXPECT_THAT(ended.out, HasSubstr("--batch 1250"));
    EXPECT_THAT(ended.out, HasSubstr("best      "));
    auto const tuning = read_json(path("tuning.json"));
    EXPECT_EQ(tuning["options"]["backend"], name);
    EXPECT_EQ(tuning["network"]["layers"], 6);
    EXPECT_EQ(tuning["samples"], 2500);
    EXPECT_EQ(tuning["edge_order"], "balanced");
    EXPECT_GE(tuning["trials"].size(), 11U);
    EXPECT_LE(tuning["loop_seconds"].get<double>(), tuning["default_loop_seconds"].get<double>());
    auto const report = report_of({"--options", path("tuning.json"), "--samples", "1:2500"});
    EXPECT_EQ(report["activation_hash"], tuning["activation_hash"]);
    EXPECT_EQ(report["backend"], name);
  }
}

TEST_F(Tune, RefusesAnOutputBeforeItMeasures) {
  auto const ended = run_varve(with_data({"tune"}, {"--output", path("no/such/tuning.json")}));
  expect_sentence(ended, 4, {"no/such/tuning.json"});
  EXPECT_EQ(ended.out, "") << "it began to measure";
}

TEST_F(Tune, TheCommandLineWinsOverTheFile) {
  write_bytes(path("options.json"), R"({"options": {"batch": 700, "precision": "double", "backend": "serial"}})");
  auto report = report_of({"--options", path("options.json")});
  EXPECT_EQ(report["plan"]["batch"], 700);
  EXPECT_EQ(report["precision"], "double");
  EXPECT_EQ(report["backend"], "serial");
  report = report_of({"--batch", "900", "--options", path("options.json"), "--precision", "float"});
  EXPECT_EQ(report["plan"]["batch"], 900);
  EXPECT_EQ(report["precision"], "float");
  EXPECT_EQ(report["backend"], "serial");
}

TEST_F(Tune, RecommendsNothingFromFewMeasurements) {
  for (std::string const repeat : {"1", "4"}) {
    auto const ended =
        succeed(with_data({"tune"}, {"--repeat", repeat, "--samples", "1500", "--output", path("tuning.json")}));
    EXPECT_THAT(ended.out, HasSubstr("best      all left to the plan: of fewer than 5 measurements (--repeat) nothing "
                                     "can be said\n"));
    auto const tuning = read_json(path("tuning.json"));
    EXPECT_TRUE(tuning["whole_runs"].is_null());
    EXPECT_EQ(tuning["options"].size(), 1U) << "the backend only";
  }
}

TEST_F(Tune, SaysWhatNothingBeats) {
  auto const ended = succeed(with_data({"tune"}, {"--repeat", "5", "--samples", "1", "--output", path("tuning.json")}));
  auto const tuning = read_json(path("tuning.json"));
  if (tuning["whole_runs"].is_null()) {
    EXPECT_THAT(ended.out, HasSubstr("nothing is faster by more than the spread of the measurements"));
    EXPECT_EQ(tuning["options"].size(), 1U) << "the backend only";
  } else {
    EXPECT_THAT(ended.out, HasSubstr("times as fast as what the plan chose; whole run "));
    EXPECT_LT(tuning["whole_runs"]["best"]["loop_seconds"], tuning["whole_runs"]["defaults"]["loop_seconds"]);
    EXPECT_GT(tuning["options"].size(), 1U);
  }
  EXPECT_EQ(tuning["target"]["network_checksum"].get<std::string>().size(), 16U);
  EXPECT_EQ(tuning["target"]["precision"], "float");
}

TEST_F(Tune, ATuningForSomethingElseIsTakenAndNamed) {
  succeed(with_data({"tune"}, {"--repeat", "1", "--samples", "5", "--output", path("tuning.json")}));
  std::vector<std::string> const infer = {
      "infer",    "--input",          path("samples.safetensors"), "--options", path("tuning.json"),
      "--report", path("report.json")};
  auto const remarks = [&](std::string const& network, std::vector<std::string> const& more = {}) {
    auto const ended = run_varve(joined(joined(infer, {"--network", path(network)}), more));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    auto const report = read_json(path("report.json"));
    std::string said; // on standard error as in the report
    for (auto const& remark : report.value("remarks", nlohmann::json::array()))
      said += "varve: " + remark.get<std::string>() + "\n";
    EXPECT_EQ(ended.err, said);
    return ended.err;
  };
  auto const sentence = [&](std::string const& words) {
    return "varve: " + path("tuning.json") + " was tuned for " + words + ": run varve tune for this one\n";
  };
  EXPECT_EQ(remarks("net.safetensors"), "");

  succeed({"generate", "random", "--neurons", "64", "--layers", "6", "--degree", "8", "--seed", "2", "--output",
           path("other.safetensors")});
  EXPECT_EQ(remarks("other.safetensors"), sentence("another network"));
  EXPECT_EQ(remarks("net.safetensors", {"--precision", "double"}), sentence("the precision float, found double"));

  auto tuning = read_json(path("tuning.json"));
  auto const device = tuning["target"]["device"].get<std::string>();
  tuning["target"]["device"] = "4711 threads";
  write_bytes(path("tuning.json"), tuning.dump());
  EXPECT_EQ(remarks("net.safetensors"), sentence("the device 4711 threads, found " + device));

  tuning["target"] = 3; // a file that was not written by varve tune
  write_bytes(path("tuning.json"), tuning.dump());
  EXPECT_EQ(remarks("net.safetensors"), "");
  tuning.erase("target");
  write_bytes(path("tuning.json"), tuning.dump());
  EXPECT_EQ(remarks("other.safetensors"), "");
}

TEST_F(Tune, BadOptionFilesAreOneSentenceAndExitCode3) {
  for (char const* const text : {"",
                                 "{",
                                 "[]",
                                 "{}",
                                 R"({"options": 3})",
                                 R"({"options": {"colour": "red"}})",
                                 R"({"options": {"batch": 0}})",
                                 R"({"options": {"batch": "many"}})",
                                 R"({"options": {"precision": "half"}})",
                                 R"({"options": {"batch": [1, 2]}})",
                                 R"({"options": {"bias": "nan"}})",
                                 R"({"options": {"cap": "inf"}})",
                                 R"({"options": {"bias": true}})",
                                 R"({"options": {"batch": -3}})",
                                 R"({"options": {"batch": 1e3}})",
                                 R"({"options": {"journal": ""}})",
                                 R"({"options": {"help": true}})",
                                 R"({"options": {"help": false}})",
                                 R"({"options": {"options": "other.json"}})",
                                 R"({"options": {"categories": "alive.tsv"}})",
                                 R"({"options": {"predictions": "best.tsv"}})",
                                 R"({"options": {"activations": "last.safetensors"}})",
                                 R"({"options": {"report": "report.json"}})",
                                 R"({"options": {"journal": "run.journal"}})",
                                 R"({"options": {"report": "a.json\u0000.safetensors"}})"}) {
    auto const ended = infer_with_file(text);
    expect_sentence(ended, 3, {}, text);
    EXPECT_THAT(ended.err, StartsWith("varve: " + path("options.json"))) << text;
    EXPECT_EQ(ended.out, "") << text;
  }
  for (std::string const& name : {path("none.json"), path("")}) { // missing, a folder
    expect_sentence(run_varve(with_data({"infer"}, {"--options", name})), 3);
  }
  for (std::size_t const depth : {1000U, 20000U, 1000000U}) {
    auto const ended =
        infer_with_file(R"({"options": {"batch": )" + std::string(depth, '[') + std::string(depth, ']') + "}}");
    EXPECT_EQ(ended.exit_code, 3) << ended.err;
    EXPECT_THAT(ended.err, AnyOf(HasSubstr("deep, expected no more than 32"), HasSubstr("more than 65536 bytes")));
  }
}

TEST_F(Tune, WrongUsageIsNamed) {
  EXPECT_EQ(run_varve({"tune"}).exit_code, 2);
  EXPECT_EQ(run_varve(with_data({"tune"}, {"--repeat", "0"})).exit_code, 2);
  EXPECT_EQ(run_varve(with_data({"tune"}, {"--backend", "abacus"})).exit_code, 2);
  EXPECT_EQ(run_varve(with_data({"tune"}, {"--edge-order", "none"})).exit_code, 2);
  EXPECT_EQ(run_varve(with_data({"tune"}, {"--samples", "4000"})).exit_code, 2);
  EXPECT_EQ(run_varve(with_data({"tune"}, {"--output", path("no/such/folder/tuning.json")})).exit_code, 4);
}

} // namespace
} // namespace varve
