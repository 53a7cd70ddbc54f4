#include "apps/shared_folder.hpp"

#include "core/backend.hpp"
#include "io/open.hpp"
#include "io/sample_files.hpp"
#include "network/sample_set.hpp"
#include "reference/infer.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <tuple>
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
using ::testing::IsSupersetOf;
using varve::test::read_bytes;
using varve::test::write_bytes;

std::string lines_of(std::vector<SampleIndex> const& samples) {
  std::string text;
  for (auto const sample : samples) text += std::to_string(sample + 1) + "\n";
  return text;
}

/// A set without entries has no value to compare.
SampleSet without_unused_value(SampleSet samples) {
  if (samples.matrix.num_entries() == 0) samples.matrix.values.clear();
  return samples;
}

std::vector<std::string> keys_of(nlohmann::json const& json) {
  std::vector<std::string> keys;
  for (auto const& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

/// A network of 256 neurons and 12 layers and 150 images, some of which survive.
class Infer : public test::SharedFolder<Infer> {
public:
  static void make_files() {
    test::generate_medium(path("net.safetensors"), path("img.safetensors"), 150);
    auto const network = open_network(path("net.safetensors"));
    auto const samples = read_sample_file(path("img.safetensors"));
    last_ = infer<float>(*network, samples);
    exact_last_ = infer<double>(*network, samples);
    write_bytes(path("truth.tsv"), lines_of(categories(last_)));
  }

protected:
  /// Without reductions, which may change last bits, unless asked for.
  static std::vector<std::string> infer_with(std::vector<std::string> const& options) {
    std::vector<std::string> words = {"infer", "--network", path("net.safetensors"), "--input",
                                      path("img.safetensors")};
    if (std::ranges::find(options, "--reductions") == options.end())
      words.insert(words.end(), {"--reductions", "none"});
    return joined(words, options);
  }

  static nlohmann::json report_of(std::vector<std::string> options,
                                  test::Ended (*run_one)(std::vector<std::string>) = run_varve) {
    options.insert(options.end(), {"--report", path("report.json")});
    succeed(infer_with(options), run_one);
    return read_json(path("report.json"));
  }

  static std::string gibibytes(double bytes) { return fmt::format("{:.12f}", bytes / (1024.0 * 1024.0 * 1024.0)); }

  static std::string hash_text(SampleSet const& activations, Precision precision) {
    return fmt::format("{:016x}", hash(activations, precision));
  }

  static inline SampleSet last_;
  static inline SampleSet exact_last_;
};

TEST_F(Infer, SomeSurvive) {
  EXPECT_GE(categories(last_).size(), 10U);
  EXPECT_LE(categories(last_).size(), 140U);
}

TEST_F(Infer, OutputsHoldWhatTheReferenceSays) {
  for (Backend const backend : compiled_backends()) {
    for (std::string const precision : {"float", "double"}) {
      auto const& expected = precision == "float" ? last_ : exact_last_;
      succeed(infer_with({"--backend", to_string(backend), "--precision", precision, "--batch", "40", "--categories",
                          path("alive.tsv"), "--predictions", path("best.tsv"), "--activations",
                          path("last.safetensors")}));
      EXPECT_EQ(read_bytes(path("alive.tsv")), lines_of(categories(expected)));
      EXPECT_EQ(read_sample_file(path("last.safetensors")), expected);
      std::string predictions;
      SampleIndex number = 0;
      for (auto const neuron : largest(expected.matrix)) {
        predictions += std::to_string(++number) + "\t" + std::to_string(neuron + 1) + "\n";
      }
      EXPECT_EQ(read_bytes(path("best.tsv")), predictions);
    }
  }
}

TEST_F(Infer, CompressedOutputsHoldTheSame) {
  succeed(infer_with({"--categories", path("alive.tsv.gz")}));
  succeed(infer_with({"--truth", path("alive.tsv.gz")}));
}

TEST_F(Infer, ReportHoldsTheNamedKeys) {
  auto const report = report_of({"--truth", path("truth.tsv"), "--repeat", "3", "--precision", "double"});
  EXPECT_THAT(keys_of(report), IsSupersetOf({"loop_seconds",
                                             "phases",
                                             "survivors",
                                             "truth",
                                             "activation_hash",
                                             "backend",
                                             "precision",
                                             "edges_per_second",
                                             "live_edges",
                                             "live_edges_per_second",
                                             "version",
                                             "git_commit",
                                             "compiler",
                                             "kokkos_version",
                                             "host",
                                             "date",
                                             "network",
                                             "input",
                                             "plan",
                                             "devices",
                                             "ranks"}));
  EXPECT_EQ(report["survivors"], categories(exact_last_).size());
  EXPECT_EQ(report["truth"], "match");
  EXPECT_EQ(report["activation_hash"], hash_text(exact_last_, Precision::double_precision));
  EXPECT_EQ(report["backend"], to_string(compiled_backends().front()));
  EXPECT_EQ(report["precision"], "double");
  EXPECT_EQ(report["ranks"], 1);
  EXPECT_EQ(report["network"]["layers"], 12);
  EXPECT_EQ(report["network"]["inputs"], 256);
  EXPECT_EQ(report["network"]["outputs"], 256);
  EXPECT_EQ(report["network"]["edges"], 12 * 256 * 32);
  EXPECT_EQ(report["input"]["samples"], 150);
  EXPECT_EQ(report["input"]["first_sample"], 1);
  double const edges = 12.0 * 256 * 32 * 150;
  EXPECT_GT(report["live_edges"].get<double>(), 0.0);
  EXPECT_LE(report["live_edges"].get<double>(), edges);
  EXPECT_GT(report["loop_seconds"].get<double>(), 0.0);
  EXPECT_NEAR(report["edges_per_second"].get<double>() * report["loop_seconds"].get<double>() / edges, 1.0, 1e-9);
  EXPECT_THAT(keys_of(report["phases"]), IsSupersetOf({"read", "prepare", "loop", "collect", "total"}));
  for (auto const& [name, seconds] : report["phases"].items()) EXPECT_GE(seconds.get<double>(), 0.0) << name;
}

TEST_F(Infer, LoopSecondsAreTheMedianOfTheRepeats) {
  auto const report = report_of({"--repeat", "5"});
  auto all = report["loop_seconds_all"].get<std::vector<double>>();
  ASSERT_EQ(all.size(), 5U);
  std::ranges::sort(all);
  EXPECT_EQ(report["loop_seconds"].get<double>(), all[2]);
}

TEST_F(Infer, SamePathsSameHash) {
  auto const expected = hash_text(last_, Precision::single_precision);
  for (auto const& options : std::vector<std::vector<std::string>>{
           {"--backend", "serial"},
           {"--tuning", "formats=csr"},
           {"--tuning", "formats=sliced_ell"},
           {"--tuning", "formats=staged_blocks,csr"},
           {"--tuning", "formats=pattern_blocks"},
           {"--tuning", "kernel=direct"},
           {"--tuning", "kernel=staged"},
           {"--batch", "1"},
           {"--batch", "77"},
           {"--tuning", "engine=reference"},
       }) {
    EXPECT_EQ(report_of(options)["activation_hash"], expected) << ::testing::PrintToString(options);
  }
  for (std::string const threads : {"1", "2"})
    EXPECT_EQ(report_of({"--kokkos-num-threads=" + threads}, test::run_varve_process)["activation_hash"], expected);
}

TEST_F(Infer, ReductionsKeepTheCategoriesAndAreReported) {
  for (std::string const precision : {"float", "double"}) {
    for (std::string const reductions :
         {"auto", "merge_neurons", "saturation", "merge_neurons,fold_constants,drop_unread"}) {
      auto const report = report_of({"--reductions", reductions, "--precision", precision, "--categories",
                                     path("alive.tsv"), "--activations", path("last.safetensors")});
      EXPECT_EQ(read_bytes(path("alive.tsv")), lines_of(categories(exact_last_))) << reductions;
      EXPECT_EQ(read_sample_file(path("last.safetensors")).num_neurons(), 256U);
      EXPECT_EQ(report["network"]["edges"], 12 * 256 * 32) << "edges count as given";
      if (reductions == "saturation") continue;
      EXPECT_EQ(report["reductions"]["neurons_before"], 12 * 256);
      EXPECT_EQ(report["reductions"]["neurons_after"], 9 * 16 + 3 * 8);
      EXPECT_EQ(report["reductions"]["merged_neurons"], 9 * 240 + 3 * 248);
    }
  }
  EXPECT_EQ(report_of({"--reductions", "saturation"})["activation_hash"],
            hash_text(last_, Precision::single_precision));
  EXPECT_EQ(run_varve(infer_with({"--reductions", "magic"})).exit_code, 2);
}

TEST_F(Infer, EdgeOrdersArePartOfTheAnswer) {
  succeed({"generate", "random", "--neurons", "320", "--layers", "4", "--degree", "12", "--output",
           path("random.safetensors")});
  succeed({"generate", "samples", "--neurons", "320", "--samples", "60", "--output", path("values.safetensors")});
  auto const infer_random = [](std::vector<std::string> options) {
    std::vector<std::string> words = {
        "infer",    "--network",        path("random.safetensors"), "--input", path("values.safetensors"),
        "--report", path("report.json")};
    auto const printed = succeed(joined(words, options)).out;
    auto const report = read_json(path("report.json"));
    bool const is_ordered = report.contains("edge_order");
    EXPECT_EQ(printed.find("ordered   edges of 4 layers") != std::string::npos, is_ordered);
    if (is_ordered) {
      EXPECT_EQ(report["edge_order"]["layers"], 4);
      EXPECT_LT(report["edge_order"]["wavefronts"], report["edge_order"]["wavefronts_ascending"]);
    }
    return std::pair(report["activation_hash"].get<std::string>(), is_ordered);
  };
  auto const automatic = infer_random({});
  auto const ascending = infer_random({"--edge-order", "ascending"});
  EXPECT_TRUE(automatic.second);
  EXPECT_FALSE(ascending.second);
  EXPECT_NE(automatic.first, ascending.first) << "in last bits";
  EXPECT_EQ(infer_random({"--edge-order", "balanced", "--tuning", "formats=pattern_blocks"}), automatic);
  EXPECT_EQ(infer_random({"--tuning", "engine=reference"}), automatic);
  EXPECT_EQ(infer_random({"--tuning", "engine=reference", "--edge-order", "ascending"}), ascending);
  EXPECT_EQ(run_varve(infer_with({"--edge-order", "alphabetical"})).exit_code, 2);
}

TEST_F(Infer, AMemoryLimitMakesBatches) {
  auto const plan = report_of({"--batch", "150"})["plan"];
  auto const bytes = [&](char const* what) { return plan[what].get<double>(); };
  auto const limit = bytes("weight_bytes") + 0.95 * (bytes("panel_bytes") + bytes("sample_bytes"));
  auto const report = report_of({"--memory", "device=" + gibibytes(limit)});
  EXPECT_LT(report["plan"]["batch"].get<int>(), 150);
  EXPECT_EQ(report["activation_hash"], hash_text(last_, Precision::single_precision));
}

TEST_F(Infer, WeightsThatDoNotFitAreStreamed) {
  auto const weight_bytes = report_of({})["plan"]["weight_bytes"].get<double>();
  for (char const* const backend_limit : {"1", "0.5"}) { // in GiB: above the device limit, and equal to it
    auto const options = std::vector<std::string>{"--memory", "device=0.5",
                                                  "--memory", "weights=" + gibibytes(weight_bytes / 2),
                                                  "--memory", "host=" + std::string(backend_limit),
                                                  "--repeat", "2",
                                                  "--batch",  "70",
                                                  "--report", path("report.json")};
    auto const ended = succeed(infer_with(options));
    EXPECT_THAT(ended.out, HasSubstr("weights streamed: "));
    EXPECT_THAT(ended.out, HasSubstr("weights   waited for "));
    auto const report = read_json(path("report.json"));
    EXPECT_EQ(report["activation_hash"], hash_text(last_, Precision::single_precision));
    EXPECT_GE(report["plan"]["stream"]["segments"], 2);
    EXPECT_LE(report["plan"]["weight_bytes"].get<double>(), weight_bytes / 2);
    EXPECT_GT(report["streamed_weights"]["copied_bytes"].get<double>() +
                  report["streamed_weights"]["make_seconds"].get<double>(),
              0.0);
  }
}

TEST_F(Infer, ALayerThatDoesNotFitGoesInStrips) {
  auto const weight_bytes = report_of({})["plan"]["weight_bytes"].get<double>();
  auto const ended =
      succeed(infer_with({"--memory", "device=0.5", "--memory", "weights=" + gibibytes(weight_bytes / 40), "--repeat",
                          "2", "--report", path("report.json")}));
  EXPECT_THAT(ended.out, HasSubstr("strips of outputs"));
  auto const report = read_json(path("report.json"));
  EXPECT_EQ(report["activation_hash"], hash_text(last_, Precision::single_precision));
  EXPECT_GE(report["plan"]["steps"][0]["strips"], 2);
  EXPECT_THAT(report["plan"]["steps"][0]["why"].get<std::string>(), HasSubstr("do not fit the device"));
  EXPECT_LE(report["plan"]["weight_bytes"].get<double>(), weight_bytes / 40);
}

TEST_F(Infer, PrintsAFewReadableLines) {
  auto const ended = succeed(infer_with({"--truth", path("truth.tsv")}));
  for (char const* const word : {"12 layers", "256 inputs", "150 samples", "edges/s", "survivors", "truth: match\n"}) {
    EXPECT_THAT(ended.out, HasSubstr(word));
  }
}

/// What all outputs hold of a run.
struct AllOutputs {
  std::string categories, predictions, activations, hash;

  bool operator==(AllOutputs const&) const = default;
};

TEST_F(Infer, RepeatedInputsGiveWhatTheyGiveWrittenOut) {
  for (std::string const ending : {".safetensors", ".tsv.gz"}) {
    succeed({"convert", path("img.safetensors"), path("once" + ending), "--text", "neurons=256"});
    auto const once = open_samples(path("once" + ending), 256);
    SampleBatch all = once;
    for (int repetition = 1; repetition < 5; ++repetition) all.append(once);
    save_samples(to_set(all), path("five.safetensors"));
    auto const outputs = [&](std::vector<std::string> options) {
      options.insert(options.end(), {"--network", path("net.safetensors"), "--categories", path("alive.tsv"),
                                     "--predictions", path("best.tsv"), "--activations", path("last.safetensors")});
      options.insert(options.end(), {"--report", path("report.json")});
      options.insert(options.begin(), "infer");
      succeed(options);
      auto const report = read_json(path("report.json"));
      EXPECT_EQ(report["input"]["samples"], all.num_samples());
      return AllOutputs{read_bytes(path("alive.tsv")), read_bytes(path("best.tsv")),
                        read_bytes(path("last.safetensors")), report["activation_hash"]};
    };
    for (std::string const reductions : {"none", "auto"}) {
      auto const expected = outputs({"--input", path("five.safetensors"), "--reductions", reductions});
      for (std::string const batch : {"1000", "150", "149", "7"}) {
        EXPECT_EQ(outputs({"--input", path("once" + ending), "--tuning", "repeat-input=5", "--reductions", reductions,
                           "--batch", batch}),
                  expected)
            << ending << " in batches of " << batch;
      }
    }
  }
}

TEST_F(Infer, RepeatedRangesAreNumberedOnAndComparedWithTheTruth) {
  auto const range = samples_of(last_, 32, 97);
  std::string expected;
  for (std::size_t repetition = 0; repetition < 3; ++repetition) {
    auto again = range;
    again.first_sample += repetition * range.num_samples();
    expected += lines_of(categories(again));
  }
  std::vector<std::string> const options = {"--samples", "33:97",           "--tuning",     "repeat-input=3",
                                            "--truth",   path("truth.tsv"), "--categories", path("alive.tsv")};
  auto const report = report_of(options);
  EXPECT_EQ(read_bytes(path("alive.tsv")), expected);
  EXPECT_EQ(report["truth"], "match");
  EXPECT_EQ(report["input"]["first_sample"], 33);
  EXPECT_EQ(report["input"]["samples"], 195);
  EXPECT_EQ(report["input"]["repetitions"], 3);
  EXPECT_EQ(report_of({"--tuning", "repeat-input=2", "--truth", path("truth.tsv")})["truth"], "match");
  auto wrong = categories(last_);
  wrong.pop_back();
  write_bytes(path("wrong.tsv"), lines_of(wrong));
  EXPECT_EQ(run_varve(infer_with({"--tuning", "repeat-input=2", "--truth", path("wrong.tsv")})).exit_code, 1);
}

TEST_F(Infer, HugeNumbersWrapNowhere) {
  auto const ended =
      run_varve(infer_with({"--truth", path("truth.tsv"), "--tuning", "repeat-input=9223372036854775808"}));
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("150 samples cannot be repeated 9223372036854775808 times"));
  auto const report = report_of({"--batch", "18446744073709551615", "--truth", path("truth.tsv")});
  EXPECT_EQ(report["truth"], "match");
  EXPECT_EQ(report["plan"]["batch"], 150);
  EXPECT_EQ(report["activation_hash"], report_of({"--batch", "150"})["activation_hash"]);
  for (std::string const key : {"host", "input", "device"})
    EXPECT_EQ(report_of({"--memory", key + "=1e300", "--truth", path("truth.tsv")})["truth"], "match") << key;
}

TEST_F(Infer, RefusesRepeatedInputsThatDoNotFit) {
  auto const ended = run_varve(infer_with({"--tuning", "repeat-input=2", "--memory", "input=0.000001"}));
  expect_sentence(ended, 4, {"raise --memory input"});
  EXPECT_EQ(run_varve(infer_with({"--tuning", "repeat-input=0"})).exit_code, 2);
}

TEST_F(Infer, SaysHowSamplesCameToTheDevice) {
  auto const ended = succeed(infer_with({"--batch", "40", "--report", path("report.json")}));
  EXPECT_THAT(ended.out, HasSubstr("samples   waited for "));
  auto const samples = read_json(path("report.json"))["streamed_samples"];
  for (char const* const name : {"wait_seconds", "read_seconds", "stage_seconds", "copied_bytes", "bytes_per_second"})
    EXPECT_GT(samples[name].get<double>(), 0.0) << name;
}

TEST_F(Infer, WrongTruthIsNamedAndExitCode1) {
  auto alive = categories(last_);
  auto const lost = alive.front();
  SampleIndex invented = 0;
  while (std::ranges::binary_search(alive, invented)) ++invented;
  alive.erase(alive.begin());
  alive.push_back(invented);
  write_bytes(path("wrong.tsv"), lines_of(alive));
  auto const ended = run_varve(
      infer_with({"--truth", path("wrong.tsv"), "--categories", path("alive.tsv"), "--report", path("report.json")}));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.out, HasSubstr("truth: differ\n"));
  EXPECT_THAT(ended.out, HasSubstr("in the truth, but not alive here: " + std::to_string(invented + 1) + "\n"));
  EXPECT_THAT(ended.out, HasSubstr("alive here, but not in the truth: " + std::to_string(lost + 1) + "\n"));
  auto const report = read_json(path("report.json"));
  EXPECT_EQ(report["truth"], "differ");
  EXPECT_EQ(read_bytes(path("alive.tsv")), lines_of(categories(last_))); // still written
}

TEST_F(Infer, WithoutTruthTheReportSaysNone) { EXPECT_EQ(report_of({})["truth"], "none"); }

TEST_F(Infer, RangesOfSamplesKeepTheirNumbers) {
  struct Range {
    std::size_t first, last; // numbers from 1, both included
  };
  for (auto const [first, last] : {Range{1, 150}, Range{1, 1}, Range{150, 150}, Range{33, 97}}) {
    auto const expected = samples_of(last_, first - 1, last);
    auto const range = std::to_string(first) + ":" + std::to_string(last);
    auto const report = report_of({"--samples", range, "--truth", path("truth.tsv"), "--categories", path("alive.tsv"),
                                   "--activations", path("last.safetensors"), "--predictions", path("best.tsv")});
    EXPECT_EQ(read_bytes(path("alive.tsv")), lines_of(categories(expected))) << range;
    EXPECT_EQ(without_unused_value(read_sample_file(path("last.safetensors"))), expected) << range;
    EXPECT_THAT(read_bytes(path("best.tsv")), ::testing::StartsWith(std::to_string(first) + "\t")) << range;
    EXPECT_EQ(report["input"]["first_sample"], first) << range;
    EXPECT_EQ(report["input"]["samples"], last - first + 1) << range;
    EXPECT_EQ(report["truth"], "match") << range;
  }
}

TEST_F(Infer, RangesCountAsTheFileDoes) {
  save_samples(samples_of(read_sample_file(path("img.safetensors")), 100, 150), path("later.safetensors"));
  auto const infer_later = [&](std::string const& input, std::string const& range) {
    return run_varve({"infer", "--network", path("net.safetensors"), "--input", path(input), "--samples", range,
                      "--activations", path("last.safetensors"), "--reductions", "none"});
  };
  for (auto const& [range, first, last] : {std::tuple("101:150", 100U, 150U), std::tuple("120:120", 119U, 120U)}) {
    EXPECT_EQ(infer_later("later.safetensors", range).exit_code, 0) << range;
    EXPECT_EQ(without_unused_value(read_sample_file(path("last.safetensors"))), samples_of(last_, first, last))
        << range;
  }
  for (char const* const range : {"1:10", "100:101", "150:151", "59990:60010"}) {
    auto const ended = infer_later("later.safetensors", range);
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_EQ(ended.err, std::string("varve: the samples ") + range + " were asked for, but " +
                             path("later.safetensors") + " holds the samples 101:150\n");
  }
  succeed({"convert", path("later.safetensors"), path("later.tsv")});
  auto const text = infer_later("later.tsv", "59990:60010");
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_THAT(text.err, HasSubstr("the samples 59990:60010 were asked for, but " + path("later.tsv") + " ends with "));
}

TEST_F(Infer, WrongRangesAreExitCode2) {
  for (char const* const range : {"0:5", "5", "5:", ":5", "9:3", "a:b", "1:5x", "1:151", "200:300", "-1:5"}) {
    auto const ended = run_varve(infer_with({"--samples", range}));
    expect_sentence(ended, 2, {}, range);
  }
}

TEST_F(Infer, NotEnoughMemoryIsExitCode4) {
  auto const weight_bytes = report_of({})["plan"]["weight_bytes"].get<double>();
  for (auto const& limit : {gibibytes(100), gibibytes(weight_bytes / 10), gibibytes(20000)}) {
    auto const ended = run_varve(infer_with({"--memory", "device=" + limit, "--categories", path("never.tsv")}));
    expect_sentence(ended, 4, {"GiB", "--memory host"});
    for (std::string const nothing : {"0.000 GiB", "0.000000 GiB"}) EXPECT_THAT(ended.err, Not(HasSubstr(nothing)));
    EXPECT_FALSE(std::filesystem::exists(path("never.tsv")));
  }
}

TEST_F(Infer, OutputsThatCannotBeWrittenAreExitCode4) {
  for (char const* const option : {"--categories", "--predictions", "--activations", "--report"}) {
    auto const ended = run_varve(infer_with({option, path("no/such/folder/file")}));
    expect_sentence(ended, 4, {path("no/such/folder/file")}, option);
  }
}

TEST_F(Infer, OptionsThatContradictTheFileAreExitCode2) {
  for (auto const& options : std::vector<std::vector<std::string>>{
           {"--text", "neurons=1024"}, {"--text", "layers=13"}, {"--text", "bias=-0.3"}, {"--text", "cap=31"}}) {
    auto const ended = run_varve(infer_with(options));
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("net.safetensors"));
  }
  succeed(infer_with({"--text", "neurons=256,layers=12,bias=-0.15,cap=32"}));
}

TEST_F(Infer, EmptySampleFile) {
  SampleSet none;
  none.matrix.num_columns = 256;
  write_sample_file(path("none.safetensors"), none);
  succeed({"infer", "--network", path("net.safetensors"), "--input", path("none.safetensors"), "--categories",
           path("nobody.tsv"), "--activations", path("nothing.safetensors"), "--predictions", path("nobody_best.tsv"),
           "--report", path("none.json")});
  EXPECT_EQ(read_bytes(path("nobody.tsv")), "");
  EXPECT_EQ(read_bytes(path("nobody_best.tsv")), "");
  EXPECT_EQ(without_unused_value(read_sample_file(path("nothing.safetensors"))), none);
  EXPECT_EQ(read_json(path("none.json"))["survivors"], 0);
}

} // namespace
} // namespace varve
