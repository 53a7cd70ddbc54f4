#include "apps/shared_folder.hpp"

#include "io/open.hpp"
#include "io/sample_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::joined;
using test::run_varve;
using test::succeed;

/// Values of options that CLI11 would take for something else than the user meant.
class Values : public test::SharedFolder<Values> {
public:
  static void make_files() { test::generate_small(path("net.safetensors"), path("img.safetensors"), 3, 20); }

protected:
  static std::vector<std::string> with_data(std::string const& command, std::vector<std::string> const& options) {
    return joined({command, "--network", path("net.safetensors"), "--input", path("img.safetensors")}, options);
  }
  static std::vector<std::string> training(std::vector<std::string> const& options) {
    return with_data("train", joined({"--output", path("trained.safetensors")}, options));
  }

  /// Expects exit code 2, a sentence with all parts, and no output of `generate` or `train`.
  static void expect_refused(std::vector<std::string> const& words, std::vector<std::string> const& parts) {
    auto const ended = run_varve(words);
    expect_sentence(ended, 2, parts, ::testing::PrintToString(words));
    EXPECT_EQ(ended.out, "");
    EXPECT_FALSE(std::filesystem::exists(path("made.safetensors")));
    EXPECT_FALSE(std::filesystem::exists(path("trained.safetensors")));
  }
};

TEST_F(Values, NumbersWithLeadingZerosAreDecimal) {
  auto const made = path("zeros.safetensors");
  for (auto const& [text, number] :
       {std::pair("0100", 100U), std::pair("010", 10U), std::pair("0", 0U), std::pair("0089", 89U)}) {
    succeed({"generate", "images", "--neurons", "0032", "--samples", text, "--output", made});
    EXPECT_EQ(read_sample_file(made).num_samples(), number) << text;
  }
  succeed({"generate", "random", "--widths", "010,020", "--degree", "010", "--output", made});
  auto const network = open_network(made);
  EXPECT_EQ(network->layer(0).num_inputs(), 10U);
  EXPECT_EQ(network->layer(0).num_outputs(), 20U);
}

TEST_F(Values, WholeNumbersAreDigitsThatFit) {
  for (std::string const text : {"0x10", "0b1", "1_0", "1'0", "+5", "-1", "1e3", "1.0", "5 ", " 5", "five",
                                 "18446744073709551616", "99999999999999999999999", "-18446744073709551615"}) {
    expect_refused({"generate", "images", "--neurons", "32", "--samples=" + text, "--output", path("made.safetensors")},
                   {"--samples: found '" + text, "expected a whole number from 0 to 18446744073709551615"});
  }
  for (std::string const option : {"--seed", "--batch", "--epochs", "--patience", "--checkpoint-every"})
    expect_refused(training({option + "=-3"}), {option + ": found '-3'"});
  for (auto const& [option, key] :
       {std::pair("--rate-schedule", "warm-up"), std::pair("--rate-schedule", "every"), std::pair("--pattern", "every"),
        std::pair("--tuning", "micro-batch"), std::pair("--receipt-states", "every")})
    expect_refused(training({"--receipt", path("receipt.json"), option, std::string(key) + "=-3"}),
                   {std::string(option) + ": " + key + ": found '-3'"});
  for (auto const& words :
       {with_data("infer", {"--batch=0x10"}), with_data("evaluate", {"--top=-1"}),
        with_data("benchmark", {"--samples", "5,0x10"}),
        with_data("verify", {"--result", path("a.tsv"), "--text=layers=-1"}),
        std::vector<std::string>{"info", path("net.safetensors"), "--text=neurons=0x20"},
        std::vector<std::string>{"convert", path("net.safetensors"), path("made.safetensors"), "--text=layers=0x3"},
        std::vector<std::string>{"multiply", "a", "b", "--output", path("made.safetensors"), "--tile=0x10"}})
    expect_refused(words, {"found '", "in decimal digits"});
}

TEST_F(Values, TooManyLayersAreASentence) {
  for (std::string const number : {"18446744073709551615", "4294967297"})
    expect_refused({"generate", "random", "--layers", number, "--output", path("made.safetensors")},
                   {"--layers is " + number + ", expected at most 4294967296"});
}

TEST_F(Values, EmptyNamesAndTextsAreRefused) { // as an unset variable of a script would give
  for (std::string const option : {"--truth", "--journal", "--categories", "--predictions", "--activations", "--report",
                                   "--samples", "--network", "--backend", "--tuning", "--memory"})
    for (auto const& words :
         {with_data("infer", {option, ""}), with_data("infer", {option, "", "--tuning=share-devices=on"})})
      expect_refused(words, {option + ": found an empty value"});
  for (std::string const option :
       {"--labels", "--targets", "--validation", "--best", "--checkpoint", "--history", "--report"})
    expect_refused(training({option, ""}), {option + ": found an empty value"});
  for (auto const& words :
       {with_data("evaluate", {"--labels", ""}), with_data("verify", {"--result", ""}),
        with_data("benchmark", {"--output", ""}), std::vector<std::string>{"info", ""},
        std::vector<std::string>{"convert", path("net.safetensors"), ""},
        std::vector<std::string>{"convert", path("img.safetensors"), path("made.safetensors"), "--labels", ""},
        std::vector<std::string>{"multiply", "a", "b", "--output", path("made.safetensors"), "--journal", ""},
        std::vector<std::string>{"generate", "radixnet", "--output", ""}})
    expect_refused(words, {"found an empty value"});
}

TEST_F(Values, NothingBehindAnEqualsSignIsRefused) { // CLI11 would take the next argument
  expect_refused(with_data("infer", {"--truth=", path("img.safetensors")}),
                 {"--truth= has nothing behind the equals sign"});
  expect_refused(with_data("infer", {"--report="}), {"--report= has nothing behind the equals sign"});
}

} // namespace
} // namespace varve
