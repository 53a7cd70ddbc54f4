#include "apps/shared_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Help, NamesSubcommandsAndExitCodes) {
  auto const help = succeed({"--help"});
  for (char const* const word : {"infer", "generate", "convert", "info", "train", "verify", "audit", "evaluate",
                                 "benchmark", "multiply", "Exit codes", "--kokkos-", "5 stopped by SIGTERM"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

TEST(Help, OfInferNamesItsOptions) {
  auto const help = succeed({"infer", "--help-all"});
  for (char const* const option : {"--network",
                                   "--input",
                                   "--text",
                                   "neurons=N",
                                   "--samples",
                                   "--truth",
                                   "--categories",
                                   "--activations",
                                   "--predictions",
                                   "--report",
                                   "--backend",
                                   "--precision",
                                   "--batch",
                                   "--memory",
                                   "device=GIB",
                                   "--repeat",
                                   "--journal",
                                   "--tuning",
                                   "schedule=dynamic|static",
                                   "share-devices=off|on"}) {
    EXPECT_THAT(help.out, HasSubstr(option));
  }
}

/// The options that the help of a command shows.
std::size_t num_options(std::string const& help) {
  std::size_t count = 0;
  for (auto at = help.find("\n  --"); at != std::string::npos; at = help.find("\n  --", at + 1)) ++count;
  return count;
}

TEST(Help, ShowsWhatUsersNeedAndNamesTheRest) {
  auto const infer = succeed({"infer", "--help"}).out;
  for (char const* const option : {"--network", "--input", "--categories", "--backend", "--help-all"})
    EXPECT_THAT(infer, HasSubstr(option));
  EXPECT_THAT(infer, Not(HasSubstr("--tuning")));
  EXPECT_THAT(infer, HasSubstr("\nMore options (varve infer --help-all): "));
  for (auto const& [command, most] : std::vector<std::pair<std::string, std::size_t>>{{"infer", 11},
                                                                                      {"train", 15},
                                                                                      {"multiply", 13},
                                                                                      {"benchmark", 13},
                                                                                      {"evaluate", 13},
                                                                                      {"verify", 13},
                                                                                      {"audit", 13},
                                                                                      {"info", 13},
                                                                                      {"convert", 13}}) {
    auto const shown = num_options(succeed({command, "--help"}).out);
    EXPECT_GE(shown, 5U) << command;
    EXPECT_LE(shown, most) << command;
    EXPECT_GE(num_options(succeed({command, "--help-all"}).out), shown) << command;
  }
}

TEST(Help, OfTheOtherSubcommands) {
  EXPECT_THAT(succeed({"generate", "--help"}).out, HasSubstr("radixnet"));
  for (char const* const option : {"--neurons", "--layers", "--seed", "--output"}) {
    EXPECT_THAT(succeed({"generate", "radixnet", "--help"}).out, HasSubstr(option));
  }
  for (char const* const option : {"--neurons", "--samples", "--seed", "--official-survivors", "--output"}) {
    EXPECT_THAT(succeed({"generate", "images", "--help"}).out, HasSubstr(option));
  }
  for (char const* const option : {"--neurons", "--layers", "--widths", "--degree", "--density", "--init", "gain=G",
                                   "--bias", "--cap", "--seed"}) {
    EXPECT_THAT(succeed({"generate", "random", "--help"}).out, HasSubstr(option));
  }
  EXPECT_THAT(succeed({"generate", "samples", "--help"}).out, HasSubstr("--density"));
  EXPECT_THAT(succeed({"convert", "--help"}).out, HasSubstr("DST"));
  for (char const* const option :
       {"--labels", "--targets", "--samples-only", "--pixels", "--prune", "over=layer|network"}) {
    EXPECT_THAT(succeed({"convert", "--help"}).out, HasSubstr(option));
  }
  for (char const* const option : {"--network", "--init", "--activation", "last=NAME", "slope=S"}) {
    EXPECT_THAT(succeed({"generate", "weights", "--help"}).out, HasSubstr(option));
  }
  for (char const* const option : {"--labels", "--targets", "--loss", "--top", "--report", "--backend", "--batch"}) {
    EXPECT_THAT(succeed({"evaluate", "--help-all"}).out, HasSubstr(option));
  }
  for (char const* const option :
       {"--labels", "--targets", "--validation", "--loss", "--optimizer", "l2=L", "--rate-schedule", "--checkpoint",
        "--recompute", "micro-batch=N", "--history", "--patience", "--pattern", "fraction=F", "until=U"}) {
    EXPECT_THAT(succeed({"train", "--help-all"}).out, HasSubstr(option));
  }
  for (char const* const option : {"--transpose", "--alpha", "--beta", "--add", "--precision", "--tile", "--backend",
                                   "--memory", "--journal", "--report", "peer-tiles=on|off", "--output"}) {
    EXPECT_THAT(succeed({"multiply", "--help-all"}).out, HasSubstr(option));
  }
  for (char const* const option : {"--network", "--suite", "quick", "--backend", "--reductions", "--samples",
                                   "--repeats", "--seconds", "--check", "--output"})
    EXPECT_THAT(succeed({"benchmark", "--help-all"}).out, HasSubstr(option));
  EXPECT_THAT(succeed({"info", "--help"}).out, HasSubstr("--json"));
}

TEST(Help, VersionNamesBackendsAndKokkos) {
  auto const version = succeed({"--version"});
  EXPECT_THAT(version.out, StartsWith("varve "));
  EXPECT_THAT(version.out, HasSubstr("Kokkos"));
  EXPECT_THAT(version.out, HasSubstr("serial"));
}

TEST(Help, TakesNoDevice) {
  setenv("KOKKOS_NUM_THREADS", "many", 1); // Kokkos cannot start with it
  EXPECT_THAT(run_varve({"generate", "images", "--output", "a.safetensors"}).err, HasSubstr("KOKKOS_NUM_THREADS"));
  EXPECT_THAT(succeed({"--help"}).out, HasSubstr("Exit codes"));
  EXPECT_THAT(succeed({"--kokkos-num-threads=2", "infer", "--help", "--kokkos-device-id=0"}).out, HasSubstr("--truth"));
  EXPECT_THAT(succeed({"--version"}).out, StartsWith("varve "));
  EXPECT_THAT(run_varve({"infr"}).err, HasSubstr("the nearest is infer"));
  unsetenv("KOKKOS_NUM_THREADS");
}

TEST(Help, WrongUsageIsOneSentenceAndExitCode2) {
  std::vector<std::vector<std::string>> const wrong = {
      {},
      {"classify"},
      {"infer"},
      {"infer", "--network", "a.safetensors"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--precision", "half"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--batch", "0"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--batch", "-3"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--repeat", "0"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--memory", "host=-1"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--colour", "red"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--backend", "abacus"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--tuning", "engine=steam"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--tuning", "schedule=weekly"},
      {"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--memory", "input=0"},
      {"generate"},
      {"generate", "radixnet"},
      {"generate", "radixnet", "--neurons", "many", "--output", "a.safetensors"},
      {"generate", "radixnet", "--neurons", "1000", "--output", "a.safetensors"},
      {"generate", "images", "--neurons", "33", "--output", "a.safetensors"},
      {"generate", "images", "--neurons", "2048", "--official-survivors", "--output", "a.safetensors"},
      {"generate", "random", "--neurons", "16", "--output", "a.safetensors"},
      {"generate", "random", "--widths", "16", "--degree", "2", "--output", "a.safetensors"},
      {"generate", "random", "--widths", "16,16", "--layers", "2", "--output", "a.safetensors"},
      {"generate", "random", "--degree", "2", "--density", "0.5", "--output", "a.safetensors"},
      {"generate", "random", "--density", "2", "--output", "a.safetensors"},
      {"generate", "random", "--bias", "1", "0", "--output", "a.safetensors"},
      {"generate", "samples", "--density", "0", "--output", "a.safetensors"},
      {"generate", "weights", "--network", "a.safetensors", "--output", "b.safetensors"},
      {"evaluate"},
      {"evaluate", "--network", "a.safetensors", "--input", "b.safetensors", "--loss", "regret"},
      {"convert", "a.safetensors"},
      {"multiply", "a.safetensors", "--output", "c.safetensors"},
      {"multiply", "a.safetensors", "b.safetensors", "--tile", "-1", "--output", "c.safetensors"},
      {"info"},
  };
  for (auto const& words : wrong) {
    auto const ended = run_varve(words);
    auto const where = ::testing::PrintToString(words);
    expect_sentence(ended, 2, {}, where);
    EXPECT_EQ(ended.out, "") << where;
  }
}

TEST(Help, UnknownTuningIsRefusedWithTheListOfKeys) {
  std::vector<std::string> const multiply = {"multiply", "a.safetensors", "b.safetensors", "--tuning", "peer-tiles=on"};
  for (auto const& [setting, found] : {std::pair("peer-tile=off", "found 'peer-tile=off', expected one of product="),
                                       std::pair("peer-tiles", "found 'peer-tiles', expected one of product="),
                                       std::pair("peer-tiles=maybe", "peer-tiles: found 'maybe', expected on|off"),
                                       std::pair("peer-tiles=off ", "peer-tiles: found 'off ', expected on|off")}) {
    auto const ended = run_varve(test::joined(multiply, {"--tuning", setting}));
    expect_sentence(ended, 2, {found}, setting);
  }
  expect_sentence(run_varve(test::joined(multiply, {"--tuning", "peer-tiles=off"})), 3, {"a.safetensors"});
}

TEST(Help, UnknownWordsAreNamedWithTheNearestKnownOne) {
  using Words = std::vector<std::string>;
  std::vector<std::pair<Words, std::string>> const sentences = {
      {{"frobnicate"}, "varve has no subcommand 'frobnicate' (try varve --help)"},
      {{"infr"}, "varve has no subcommand 'infr'; the nearest is infer (try varve --help)"},
      {{"infre"}, "varve has no subcommand 'infre'; the nearest is infer (try varve --help)"},
      {{"tarin"}, "varve has no subcommand 'tarin'; the nearest is train (try varve --help)"},
      {{"Train", "--network", "a.safetensors"},
       "varve has no subcommand 'Train'; the nearest is train (try varve --help)"},
      {{"help"}, "varve has no subcommand 'help'; the nearest is --help (try varve --help)"},
      {{"-V"}, "varve has no option '-V'; the nearest is --version (try varve --help)"},
      {{"--nonsense"}, "varve has no option '--nonsense' (try varve --help)"},
      {{"--nonsense", "infer"}, "varve has no option '--nonsense' (try varve --help)"},
      {{"infer", "--netwrk", "a.safetensors", "--input", "b.safetensors"},
       "varve infer has no option '--netwrk'; the nearest is --network (try varve infer --help)"},
      {{"infer", "--network", "a.safetensors", "--input", "b.safetensors", "--Batch=12"},
       "varve infer has no option '--Batch'; the nearest is --batch (try varve infer --help)"},
      {{"generate", "image"},
       "varve generate has no subcommand 'image'; the nearest is images (try varve generate --help)"},
      {{"generate", "images", "--number", "3"},
       "varve generate images has no option '--number' (try varve generate images --help)"},
      {{"info", "a.safetensors", "b.safetensors"},
       "varve info has no further argument 'b.safetensors' (try varve info --help)"},
  };
  for (auto const& [words, sentence] : sentences) {
    auto const ended = run_varve(words);
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_EQ(ended.err, "varve: " + sentence + "\n");
    EXPECT_EQ(ended.out, "");
  }
}

} // namespace
} // namespace varve
