#include "apps/shared_folder.hpp"

#include "core/backend.hpp"
#include "io/open.hpp"
#include "io/sample_files.hpp"
#include "radixnet/images.hpp"
#include "reference/infer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::joined;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::write_bytes;

constexpr std::size_t num_samples = 500;
constexpr std::size_t num_outputs = 10;

/// A network of 10 outputs, samples with labels and targets, and the network's activations by plain loops.
class Evaluate : public test::SharedFolder<Evaluate> {
public:
  static void make_files() {
    succeed({"generate", "random", "--widths", "60,40,10", "--density", "0.3", "--init", "he", "--output",
             path("net.safetensors")});
    samples_ = random_samples(60, num_samples, 0.5, 3);
    auto const outputs = infer<float>(*open_network(path("net.safetensors")), samples_);
    rows_.assign(num_samples, std::vector<double>(num_outputs, 0.0));
    for (std::size_t row = 0; row < num_samples; ++row) {
      for (auto entry = outputs.matrix.row_pointers[row]; entry < outputs.matrix.row_pointers[row + 1]; ++entry)
        rows_[row][outputs.matrix.column_indices[entry]] = outputs.matrix.value(entry);
    }
    std::string text;
    for (std::size_t row = 0; row < num_samples; ++row) {
      auto const best = std::ranges::max_element(rows_[row]) - rows_[row].begin();
      labels_.classes.push_back(
          static_cast<NeuronIndex>(row % 3 == 0 ? row % num_outputs : static_cast<std::size_t>(best)));
      text += std::to_string(labels_.classes.back()) + "\n";
    }
    write_sample_file(path("bare.safetensors"), samples_);
    write_bytes(path("labels.tsv"), text);
    write_sample_file(path("targets.safetensors"), random_samples(num_outputs, num_samples, 0.7, 4));
    succeed({"convert", path("bare.safetensors"), path("labelled.safetensors"), "--labels", path("labels.tsv")});
    succeed(
        {"convert", path("bare.safetensors"), path("valued.safetensors"), "--targets", path("targets.safetensors")});
    succeed({"convert", path("valued.safetensors"), path("both.safetensors"), "--labels", path("labels.tsv")});
  }

protected:
  static test::Ended evaluate(std::string const& input, std::vector<std::string> const& options = {}) {
    return run_varve(joined({"evaluate", "--network", path("net.safetensors"), "--input", path(input)}, options));
  }

  static nlohmann::json report_of(std::string const& input, std::vector<std::string> const& options = {}) {
    auto const ended = evaluate(input, joined(options, {"--report", path("report.json")}));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    return test::read_json(path("report.json"));
  }

  static double loss_of(nlohmann::json const& report) { return report["loss"]["mean"].get<double>(); }

  /// The mean of the formula's losses of some samples, in long double.
  static double expected_cross_entropy(std::size_t first, std::size_t last) {
    long double all = 0.0;
    for (std::size_t row = first; row < last; ++row) {
      long double sum = 0.0;
      for (double const output : rows_[row])
        sum += std::exp(static_cast<long double>(output) - rows_[row][labels_.classes[row]]);
      all += std::log(sum);
    }
    return static_cast<double>(all / static_cast<long double>(last - first));
  }

  static inline SampleSet samples_;
  static inline Labels labels_;
  static inline std::vector<std::vector<double>> rows_;
};

TEST_F(Evaluate, LossAndCountsAreThoseOfTheFormulas) {
  std::size_t num_right = 0;
  std::size_t num_in_top = 0;
  std::vector<std::vector<int>> confusion(num_outputs, std::vector<int>(num_outputs, 0));
  for (std::size_t row = 0; row < num_samples; ++row) {
    auto const label = labels_.classes[row];
    auto const best = static_cast<std::size_t>(std::ranges::max_element(rows_[row]) - rows_[row].begin());
    auto const larger = std::ranges::count_if(rows_[row], [&](double output) { return output > rows_[row][label]; });
    num_right += best == label ? 1 : 0;
    num_in_top += larger < 3 ? 1 : 0;
    ++confusion[label][best];
  }
  ASSERT_GT(num_right, num_samples / 2);
  ASSERT_LT(num_right, num_samples);
  ASSERT_LT(num_in_top, num_samples);
  auto const report = report_of("labelled.safetensors", {"--top", "3"});
  EXPECT_EQ(report["program"], "varve evaluate");
  EXPECT_EQ(report["samples"], num_samples);
  EXPECT_EQ(report["loss"]["name"], "cross-entropy");
  EXPECT_NEAR(loss_of(report), expected_cross_entropy(0, num_samples), 1e-13);
  EXPECT_EQ(report["right"], num_right);
  EXPECT_DOUBLE_EQ(report["accuracy"].get<double>(), static_cast<double>(num_right) / num_samples);
  EXPECT_DOUBLE_EQ(report["top"]["accuracy"].get<double>(), static_cast<double>(num_in_top) / num_samples);
  EXPECT_EQ(report["confusion"].get<std::vector<std::vector<int>>>(), confusion);
}

TEST_F(Evaluate, NothingDependsOnHowItIsRun) {
  auto const expected = report_of("labelled.safetensors");
  for (auto const backend : compiled_backends()) {
    for (std::vector<std::string> const& options :
         {std::vector<std::string>{}, {"--batch", "1"}, {"--batch", "77"}, {"--reductions", "none"}}) {
      auto const report = report_of("labelled.safetensors", joined({"--backend", to_string(backend)}, options));
      EXPECT_EQ(loss_of(report), loss_of(expected));
      EXPECT_EQ(report["confusion"], expected["confusion"]);
    }
  }
  EXPECT_NE(loss_of(report_of("labelled.safetensors", {"--precision", "double"})), loss_of(expected));
  EXPECT_NEAR(loss_of(report_of("labelled.safetensors", {"--precision", "double"})), loss_of(expected), 1e-6);
}

TEST_F(Evaluate, ARangeTakesItsLabels) {
  for (std::vector<std::string> const& options : {std::vector<std::string>{}, {"--labels", path("labels.tsv")}}) {
    auto const report = report_of("labelled.safetensors", joined({"--samples", "101:250"}, options));
    EXPECT_EQ(report["samples"], 150);
    EXPECT_EQ(report["input"]["first_sample"], 101);
    EXPECT_NEAR(loss_of(report), expected_cross_entropy(100, 250), 1e-13);
  }
}

TEST_F(Evaluate, MeanSquareTakesTargetsOrLabels) {
  auto const targets = read_sample_file(path("targets.safetensors"));
  double by_targets = 0.0;
  double by_labels = 0.0;
  for (std::size_t row = 0; row < num_samples; ++row) {
    std::vector<double> wanted(num_outputs, 0.0);
    for (auto entry = targets.matrix.row_pointers[row]; entry < targets.matrix.row_pointers[row + 1]; ++entry)
      wanted[targets.matrix.column_indices[entry]] = targets.matrix.value(entry);
    for (std::size_t output = 0; output < num_outputs; ++output) {
      by_targets += std::pow(rows_[row][output] - wanted[output], 2);
      by_labels += std::pow(rows_[row][output] - (labels_.classes[row] == output ? 1.0 : 0.0), 2);
    }
  }
  by_targets /= num_samples * num_outputs;
  by_labels /= num_samples * num_outputs;
  for (std::string const input : {"bare.safetensors", "valued.safetensors", "both.safetensors"}) {
    auto const options = input == "bare.safetensors"
                             ? std::vector<std::string>{"--targets", path("targets.safetensors")}
                         : input == "both.safetensors" ? std::vector<std::string>{"--loss", "mean-square"}
                                                       : std::vector<std::string>{};
    auto const report = report_of(input, options);
    EXPECT_EQ(report["loss"]["name"], "mean-square") << input;
    EXPECT_NEAR(loss_of(report), by_targets, 1e-13) << input;
    EXPECT_EQ(report.contains("accuracy"), input == "both.safetensors");
  }
  EXPECT_NEAR(loss_of(report_of("labelled.safetensors", {"--loss", "mean-square"})), by_labels, 1e-13);
  EXPECT_NEAR(loss_of(report_of("both.safetensors")), expected_cross_entropy(0, num_samples), 1e-13);
}

TEST_F(Evaluate, LogisticTakesTargetsFromZeroToOneAndLabelsOfTwo) {
  write_bytes(path("two.mtx"), "%%MatrixMarket matrix coordinate real general\n500 10 2\n1 1 1\n7 2 1.5\n");
  auto const refused = evaluate("bare.safetensors", {"--loss", "logistic", "--targets", path("two.mtx")});
  expect_sentence(refused, 3, {"two.mtx: sample ", "has the target 1.5 for output 1, expected 0 to 1"}, "logistic");
  auto const huber = [&](std::string const& delta) {
    return loss_of(report_of("valued.safetensors", {"--loss", "huber", "--delta", delta}));
  };
  EXPECT_NEAR(2 * huber("1e9"), loss_of(report_of("valued.safetensors")), 1e-13);
  EXPECT_LT(huber("0.1"), huber("1e9"));
  expect_sentence(evaluate("valued.safetensors", {"--loss", "huber", "--delta", "0"}), 2,
                  {"delta of the loss huber is 0"}, "delta");
  succeed({"generate", "random", "--widths", "60,1", "--density", "1", "--output", path("one.safetensors")});
  std::string text;
  for (std::size_t row = 0; row < num_samples; ++row) text += row % 3 == 0 ? "1\n" : "0\n";
  write_bytes(path("of-two.tsv"), text);
  std::vector<std::string> const words = {
      "evaluate",         "--network", path("one.safetensors"), "--input", path("bare.safetensors"), "--labels",
      path("of-two.tsv"), "--report",  path("of-two.json")};
  expect_sentence(run_varve(words), 3, {"sample 1 has the label 1, expected 0 to 0, one of 1 classes"}, "one class");
  succeed(joined(words, {"--loss", "logistic"}));
  auto const report = test::read_json(path("of-two.json"));
  EXPECT_EQ(report["confusion"].size(), 2U);
  EXPECT_EQ(report["confusion"][1][0].get<int>() + report["confusion"][1][1].get<int>(), 167);
  EXPECT_EQ(report["top"]["accuracy"], 1.0);
}

TEST_F(Evaluate, PrintsWhatItMeasures) {
  auto const out = evaluate("labelled.safetensors").out;
  for (char const* const word : {"network   ", "500 samples (1:500)", "labels    ", "loss      ", "(cross-entropy)",
                                 "accuracy  ", " of 500 samples)", "top 5 ", "confusion rows: labels", "   right\n"}) {
    EXPECT_THAT(out, HasSubstr(word));
  }
  succeed({"generate", "random", "--widths", "60,30", "--density", "1", "--output", path("wide.safetensors")});
  auto const wide =
      run_varve({"evaluate", "--network", path("wide.safetensors"), "--input", path("labelled.safetensors")});
  EXPECT_THAT(wide.out, HasSubstr("confusion the most frequent of "));
  EXPECT_THAT(wide.out, HasSubstr(" taken for "));
}

TEST_F(Evaluate, WhatDoesNotFitIsASentence) {
  auto const refuse = [&](int exit_code, std::string const& input, std::vector<std::string> const& options,
                          std::string const& part) {
    auto const before = folder().num_entries();
    expect_sentence(evaluate(input, joined(options, {"--report", path("x.json")})), exit_code, {part}, input);
    EXPECT_EQ(folder().num_entries(), before);
  };
  write_bytes(
      path("large.tsv"), std::string(998, '\n') + [] {
        std::string text;
        for (std::size_t row = 0; row < num_samples; ++row) text += row == 6 ? "10\n" : "9\n";
        return text;
      }());
  write_bytes(path("few.tsv"), "1\n2\n");
  write_sample_file(path("narrow.safetensors"), random_samples(9, num_samples, 0.7, 4));
  write_sample_file(path("none.safetensors"), {{0, 60, {0}, {}, {}}, 0});
  refuse(3, "bare.safetensors", {}, "bare.safetensors has neither labels nor targets");
  refuse(3, "bare.safetensors", {"--labels", path("targets.safetensors")}, "targets.safetensors has no labels");
  refuse(3, "bare.safetensors", {"--labels", path("large.tsv")},
         "large.tsv: sample 7 has the label 10, expected 0 to 9, one of 10 classes");
  refuse(3, "bare.safetensors", {"--labels", path("few.tsv")},
         "found labels of the samples 1:2, expected labels of the samples 1:500");
  refuse(3, "bare.safetensors", {"--labels", path("few.tsv"), "--samples", "2:3"},
         "expected labels of the samples 2:3");
  refuse(3, "bare.safetensors", {"--targets", path("narrow.safetensors")},
         "holds targets of 9 neurons, the network has 10 outputs");
  refuse(3, "bare.safetensors", {"--labels", path("missing.tsv")}, "missing.tsv");
  refuse(3, "none.safetensors", {"--labels", path("labels.tsv")}, "holds no samples to evaluate");
  refuse(2, "valued.safetensors", {"--loss", "cross-entropy"}, "cross-entropy needs labels");
  refuse(2, "labelled.safetensors", {"--loss", "cross-entropy", "--targets", path("targets.safetensors")},
         "--targets is for");
  refuse(2, "labelled.safetensors", {"--loss", "hinge"}, "hinge");
  refuse(2, "labelled.safetensors", {"--top", "0"}, "--top");
  refuse(2, "labelled.safetensors", {"--samples", "500:501"}, "501");
  expect_sentence(evaluate("labelled.safetensors", {"--report", path("labelled.safetensors")}), 2, {"--report"});
  expect_sentence(evaluate("bare.safetensors", {"--labels", path("labels.tsv"), "--report", path("labels.tsv")}), 2,
                  {"--report"});
}

} // namespace
} // namespace varve
