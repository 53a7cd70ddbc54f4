#include "apps/shared_folder.hpp"

#include "core/backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

using test::Ended;
using test::expect_sentence;
using test::joined;
using test::read_json;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::write_bytes;

/// Labels are what a random network, the teacher, finds largest.
class Train : public test::SharedFolder<Train> {
public:
  using Words = std::vector<std::string>;

  static void make_files() {
    succeed({"generate", "random", "--widths", "16,32,24,4", "--density", "0.4", "--cap", "1", "--output",
             path("teacher.safetensors")});
    succeed({"generate", "random", "--widths", "16,48,24,30,4", "--density", "0.5", "--cap", "4", "--seed", "9",
             "--output", path("start.safetensors")});
    succeed({"generate", "samples", "--neurons", "16", "--samples", "1500", "--density", "0.6", "--output",
             path("samples.safetensors")});
    succeed({"infer", "--network", path("teacher.safetensors"), "--input", path("samples.safetensors"), "--predictions",
             path("predictions.tsv")});
    std::istringstream predictions(read_bytes(path("predictions.tsv")));
    std::string labels;
    for (std::size_t sample = 0, neuron = 0; predictions >> sample >> neuron;)
      labels += std::to_string(neuron - 1) + "\n"; // the file counts from 1
    write_bytes(path("labels.txt"), labels);
    succeed({"convert", path("samples.safetensors"), path("train.safetensors"), "--labels", path("labels.txt")});
  }

protected:
  /// The command with these options, which replace defaults of these tests.
  static Words words(Words const& options, std::string const& output = "trained.safetensors") {
    Words all = {"train",
                 "--network",
                 path("start.safetensors"),
                 "--input",
                 path("train.safetensors"),
                 "--output",
                 path(output),
                 "--batch",
                 "400",
                 "--epochs",
                 "3",
                 "--optimizer",
                 "l2=1e-4"};
    for (std::size_t i = 0; i + 1 < options.size(); i += 2) {
      auto const before = std::ranges::find(all, options[i]);
      if (before == all.end()) {
        all.insert(all.end(), {options[i], options[i + 1]});
      } else {
        bool const has_keys = (*(before + 1) + options[i + 1]).find('=') != std::string::npos;
        *(before + 1) = (has_keys ? *(before + 1) + "," : "") + options[i + 1];
      }
    }
    return all;
  }

  /// The hash of all weights that a run prints last.
  static std::string hash_of(Ended const& ended) {
    auto const place = ended.out.find("weights   ");
    EXPECT_NE(place, std::string::npos) << ended.out;
    return place == std::string::npos ? "" : ended.out.substr(place + 10, 16);
  }
  static std::string train(Words const& options) { return hash_of(succeed(words(options))); }
  /// With so many threads, about which Kokkos may have something to say.
  static std::string train_with_threads(char const* threads, Words const& options) {
    setenv("OMP_NUM_THREADS", threads, 1);
    auto const ended = test::run_varve_process(words(options));
    setenv("OMP_NUM_THREADS", "2", 1);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return hash_of(ended);
  }
};

TEST_F(Train, MakesANetworkThatIsRightMoreOften) {
  auto const ended = succeed(words({"--epochs", "12", "--validation", path("train.safetensors"), "--report",
                                    path("report.json"), "--history", path("loss.tsv")}));
  EXPECT_THAT(ended.out, HasSubstr("epoch 12"));
  auto const report = read_json(path("report.json"));
  auto const& epochs = report["epochs"];
  ASSERT_EQ(epochs.size(), 12U);
  EXPECT_LT(epochs[11]["loss"].get<double>(), 0.7 * epochs[0]["loss"].get<double>());
  EXPECT_GT(epochs[11]["validation_accuracy"].get<double>(), 0.75);
  EXPECT_EQ(report["weights_hash"], hash_of(ended));
  EXPECT_EQ(report["steps"], 48);
  auto const history = read_bytes(path("loss.tsv"));
  EXPECT_EQ(std::count(history.begin(), history.end(), '\n'), 13);
  // the trained network is an ordinary one
  succeed({"infer", "--network", path("trained.safetensors"), "--input", path("train.safetensors"), "--reductions",
           "none", "--predictions", path("found.tsv")});
  std::istringstream found(read_bytes(path("found.tsv")));
  std::istringstream wanted(read_bytes(path("labels.txt")));
  std::size_t num_right = 0;
  for (std::size_t sample = 0, neuron = 0, label = 0; found >> sample >> neuron && wanted >> label;)
    num_right += neuron - 1 == label ? 1 : 0;
  EXPECT_EQ(static_cast<double>(num_right) / 1500.0, epochs[11]["validation_accuracy"].get<double>());
}

TEST_F(Train, GivesTheSameWeightsOnEveryBackendHoweverItIsDone) {
  for (std::string const optimizer : {"momentum", "adamw"}) {
    Words const recipe = {"--optimizer", optimizer, "--batch", "300", "--optimizer", "l2=0.01"};
    auto const expected = train(joined(recipe, {"--backend", "serial"}));
    for (auto const backend : compiled_backends()) {
      Words const here = joined(recipe, {"--backend", to_string(backend)});
      EXPECT_EQ(train(here), expected) << to_string(backend);
      for (Words const& way :
           {Words{"--tuning", "micro-batch=64"}, Words{"--tuning", "micro-batch=128", "--recompute", "3"},
            Words{"--recompute", "2"}, Words{"--recompute", "none"}, Words{"--tuning", "formats=dense"},
            Words{"--tuning", "formats=csr"}})
        EXPECT_EQ(train(joined(here, way)), expected) << to_string(backend) << " " << way[0] << " " << way[1];
    }
    bool const has_openmp = std::ranges::count(compiled_backends(), Backend::openmp) > 0;
    auto const host = to_string(has_openmp ? Backend::openmp : Backend::serial);
    for (auto const* const threads : {"1", "2", "7"}) {
      EXPECT_EQ(train_with_threads(threads, joined(recipe, {"--backend", host})), expected)
          << threads << " on " << host;
    }
  }
  EXPECT_NE(train({"--seed", "2"}), train({"--seed", "3"}));
  EXPECT_EQ(train({"--precision", "double", "--tuning", "micro-batch=32"}), train({"--precision", "double"}));
}

TEST_F(Train, SaysWhichLayersAreDense) {
  auto const dense = succeed(words({"--tuning", "formats=dense", "--report", path("dense.json")}));
  EXPECT_THAT(dense.out, HasSubstr("formats   dense in 4 layers forward and 4 backward, else csr\n"));
  EXPECT_EQ(read_json(path("dense.json"))["plan"]["dense_backward"], 4);
  auto const edges = succeed(words({"--tuning", "formats=csr", "--report", path("csr.json")}));
  EXPECT_THAT(edges.out, ::testing::Not(HasSubstr("formats ")));
  EXPECT_EQ(read_json(path("csr.json"))["plan"]["dense_forward"], 0);
}

TEST_F(Train, StreamsWeightsThatDoNotFitTheDevice) {
  for (auto const backend : compiled_backends()) {
    Words const way = {"--backend", to_string(backend), "--optimizer",   "adam", "--recompute",
                       "none",      "--tuning",         "micro-batch=64"};
    auto const expected = train(joined(way, {"--report", path("resident.json")}));
    auto const resident = read_json(path("resident.json"))["plan"];
    EXPECT_EQ(resident["streams_weights"], false);
    EXPECT_EQ(resident["host_bytes"], 0);
    auto const bytes = resident["weight_bytes"].get<std::size_t>() + resident["activation_bytes"].get<std::size_t>();
    std::ostringstream limit;
    limit.precision(17);
    limit << static_cast<double>(bytes - 1) * 0x1p-30;
    auto const ended =
        succeed(words(joined(way, {"--memory", "device=" + limit.str(), "--report", path("streamed.json")})));
    EXPECT_EQ(hash_of(ended), expected);
    EXPECT_THAT(ended.out, HasSubstr(" of the host, which streams them, activations "));
    auto const streamed = read_json(path("streamed.json"))["plan"];
    EXPECT_EQ(streamed["streams_weights"], true);
    EXPECT_LT(streamed["weight_bytes"], resident["weight_bytes"]);
    EXPECT_GT(streamed["host_bytes"], 0);
  }
}

TEST_F(Train, ChangesThePatternToTheSameOneEverywhere) {
  for (std::string const pattern : {"set", "rigl"}) {
    Words const recipe = {"--pattern", pattern, "--pattern", "every=2", "--batch", "300", "--optimizer", "adam"};
    auto const expected = train(joined(recipe, {"--backend", "serial", "--report", path("pattern.json")}));
    auto const changes = read_json(path("pattern.json"))["pattern_changes"];
    ASSERT_EQ(changes.size(), 5U) << "before steps 2, 4, ... 10, until step 11.25 of 15";
    EXPECT_EQ(changes[0]["step"], 2);
    EXPECT_GT(changes[0]["dropped"], changes[4]["dropped"]) << "the fraction falls";
    EXPECT_EQ(changes[0]["dropped"], changes[0]["grown"]);
    EXPECT_LT(changes[0]["returned"], changes[0]["grown"]);
    EXPECT_NE(train(joined(recipe, {"--pattern", "keep"})), expected);
    for (auto const backend : compiled_backends()) {
      Words const here = joined(recipe, {"--backend", to_string(backend)});
      for (Words const& way : {Words{"--recompute", "none"}, Words{"--tuning", "micro-batch=64"},
                               Words{"--tuning", "micro-batch=128", "--recompute", "3"}})
        EXPECT_EQ(train(joined(here, way)), expected) << to_string(backend) << " " << way[1];
    }
    EXPECT_EQ(train_with_threads("7", recipe), expected);
  }
}

TEST_F(Train, GoesOnWithAChangedPatternAfterAStop) {
  for (std::string const pattern : {"set", "rigl"}) {
    Words const recipe = {"--pattern", pattern, "--pattern", "every=2", "--checkpoint-every", "1", "--epochs", "5"};
    auto const files = [&](std::string const& name) {
      return Words{"--checkpoint", path(name + ".ckpt.safetensors"), "--history", path(name + ".tsv")};
    };
    auto const whole = succeed(words(joined(recipe, files(pattern)), pattern + ".safetensors"));
    auto const name = "stopped-" + pattern;
    for (int stop = 0; stop < 4; ++stop) {
      auto all = words(joined(recipe, files(name)), name + ".safetensors");
      all.insert(all.begin(), VARVE_COMMAND);
      auto const process = test::start(all, path("out"), path("err"));
      std::this_thread::sleep_for(std::chrono::milliseconds(40 + 20 * stop));
      kill(process, stop % 2 == 0 ? SIGKILL : SIGTERM);
      int status = 0;
      waitpid(process, &status, 0);
    }
    EXPECT_EQ(hash_of(succeed(words(joined(recipe, files(name)), name + ".safetensors"))), hash_of(whole));
    for (std::string const end : {".safetensors", ".tsv", ".ckpt.safetensors"})
      EXPECT_TRUE(read_bytes(path(name + end)) == read_bytes(path(pattern + end))) << name + end;
    EXPECT_THAT(read_bytes(path(name + ".tsv")), HasSubstr("dropped_edges\treturned_edges\n"));
    auto other = words(joined(recipe, files(name)));
    other.insert(other.end(), {"--pattern", "fraction=0.1"});
    expect_sentence(run_varve(other), 2, {"is of a training with pattern fraction 0.3, not 0.1"});
  }
}

TEST_F(Train, GoesOnAfterItWasKilledAsIfNothingHadHappened) {
  Words const recipe = {"--epochs", "40", "--validation", path("train.safetensors"), "--checkpoint-every", "3"};
  auto const files = [&](std::string const& name) {
    return Words{"--checkpoint", path(name + ".ckpt.safetensors"), "--history", path(name + ".tsv")};
  };
  auto const whole = succeed(words(joined(recipe, files("whole")), "whole.safetensors"));
  auto const killed = joined(recipe, files("killed"));
  for (int kill_number = 0; kill_number < 6; ++kill_number) {
    auto all = words(killed, "killed.safetensors");
    all.insert(all.begin(), VARVE_COMMAND);
    auto const process = test::start(all, path("out"), path("err"));
    std::this_thread::sleep_for(std::chrono::milliseconds(60 + 25 * kill_number));
    kill(process, kill_number % 3 == 2 ? SIGTERM : SIGKILL);
    int status = 0;
    waitpid(process, &status, 0);
  }
  auto const ended = run_varve(words(killed, "killed.safetensors"));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(hash_of(ended), hash_of(whole));
  EXPECT_TRUE(read_bytes(path("killed.safetensors")) == read_bytes(path("whole.safetensors"))) << "killed.safetensors";
  EXPECT_TRUE(read_bytes(path("killed.tsv")) == read_bytes(path("whole.tsv"))) << "killed.tsv";
  EXPECT_TRUE(read_bytes(path("killed.ckpt.safetensors")) == read_bytes(path("whole.ckpt.safetensors")))
      << "killed.ckpt.safetensors";
}

TEST_F(Train, StopsBySignalWithACheckpoint) {
  auto all = words({"--epochs", "100000", "--checkpoint", path("stopped.safetensors")});
  all.insert(all.begin(), VARVE_COMMAND);
  auto const process = test::start(all, path("out"), path("err"));
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(path("stopped.safetensors")) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(process, SIGTERM);
  EXPECT_EQ(test::wait_for(process), 5);
  EXPECT_THAT(read_bytes(path("err")), ::testing::MatchesRegex("varve: stopped after step [0-9]+; the same command "
                                                               "continues from .*stopped.safetensors\n"));
}

TEST_F(Train, StopsEarlyAndKeepsTheBest) {
  auto const ended = succeed(
      words({"--epochs", "60", "--rate", "3", "--rate-schedule", "constant", "--validation", path("train.safetensors"),
             "--patience", "2", "--best", path("best.safetensors"), "--report", path("early.json")}));
  auto const epochs = read_json(path("early.json"))["epochs"];
  ASSERT_LT(epochs.size(), 60U);
  ASSERT_GT(epochs.size(), 2U);
  std::size_t best = 0;
  for (std::size_t i = 0; i < epochs.size(); ++i)
    if (epochs[i]["validation_loss"] < epochs[best]["validation_loss"]) best = i;
  EXPECT_EQ(best + 3, epochs.size());
  EXPECT_TRUE(std::filesystem::exists(path("best.safetensors")));
}

TEST_F(Train, TakesTargetsAndLabelsOfOtherFiles) {
  EXPECT_EQ(train({"--input", path("samples.safetensors"), "--labels", path("labels.txt")}), train({}));
  succeed({"infer", "--network", path("teacher.safetensors"), "--input", path("samples.safetensors"), "--activations",
           path("wanted.safetensors")});
  auto const ended = succeed(
      words({"--loss", "mean-square", "--targets", path("wanted.safetensors"), "--validation",
             path("samples.safetensors"), "--validation-targets", path("wanted.safetensors"), "--epochs", "10"}));
  EXPECT_THAT(ended.out, ::testing::Not(HasSubstr("accuracy")));
}

TEST_F(Train, OfOtherLossesContinuesFromItsCheckpoint) {
  auto const hash_of = [&](Words const& options) {
    auto const ended = succeed(words(joined({"--rate", "0.5"}, options)));
    return ended.out.substr(ended.out.find("weights   "), 26);
  };
  for (Words const& loss : {Words{"--loss", "logistic"}, Words{"--loss", "huber", "--delta", "0.25"}}) {
    auto const whole = hash_of(joined(loss, {"--epochs", "4", "--rate-schedule", "constant"}));
    auto const part = joined(loss, {"--rate-schedule", "constant", "--checkpoint", path("of-loss.safetensors")});
    hash_of(joined(part, {"--epochs", "2"}));
    EXPECT_EQ(hash_of(joined(part, {"--epochs", "4"})), whole);
    Words const other = {"--loss",   "huber",  "--delta", "0.5",          "--rate-schedule",
                         "constant", "--rate", "0.5",     "--checkpoint", path("of-loss.safetensors")};
    expect_sentence(run_varve(words(other)), 2,
                    {loss[1] == "huber" ? "with delta 0.25, not 0.5" : "with loss \"logistic\""}, "another loss");
    std::filesystem::remove(path("of-loss.safetensors"));
    std::filesystem::remove(path("of-loss.safetensors.previous"));
  }
}

TEST_F(Train, SaysWhatIsWrong) {
  auto const fails = [](Words const& options, int exit_code, std::string const& part) {
    expect_sentence(run_varve(words(options)), exit_code, {part}, part + ": ");
  };
  fails({"--optimizer", "best"}, 2, "there is no optimizer 'best'");
  fails({"--loss", "best"}, 2, "there is no loss 'best'; there are: cross-entropy, mean-square, logistic, huber");
  fails({"--loss", "huber", "--delta", "-1"}, 2, "delta of the loss huber is -1, expected a positive number");
  fails({"--rate", "-1"}, 2, "the rate is -1, expected a positive number");
  fails({"--pattern", "best"}, 2, "there is no way 'best' to change the pattern of edges");
  fails({"--pattern", "set", "--pattern", "fraction=2"}, 2, "the fraction of edges that are dropped is 2, expected");
  fails({"--pattern", "set", "--pattern", "schedule=step"}, 2, "there is no schedule 'step' of changes of the pattern");
  fails({"--tuning", "formats=cones"}, 2, "--tuning: formats: found 'cones', expected auto|dense|csr");
  fails({"--recompute", "all"}, 2, "--recompute is 'all', expected auto, none or a number from 1 on");
  fails({"--tuning", "micro-batch=100"}, 2,
        "a micro-batch of 100 samples was asked for, expected 64 times a power of two");
  fails({"--patience", "2"}, 2, "--patience and --best need --validation");
  fails({"--output", path("train.safetensors")}, 2, "--input");
  fails({"--memory", "host=1e-6", "--backend", "serial"}, 4, "bytes may be used");
  fails({"--memory", "device=1e-6"}, 4, "bytes for weights that are streamed and");
  fails({"--rate", "1e30", "--rate-schedule", "constant"}, 3, "training diverges: after step");
  write_bytes(path("few.txt"), "1\n2\n3\n");
  fails({"--labels", path("few.txt")}, 3, "few.txt");
  write_bytes(path("large.txt"), [] {
    std::string text;
    for (int i = 0; i < 1500; ++i) text += "4\n";
    return text;
  }());
  fails({"--labels", path("large.txt")}, 3, "sample 1 has the label 4, expected 0 to 3");
  fails({"--input", path("samples.safetensors")}, 3, "samples.safetensors");
  fails({"--targets", path("samples.safetensors")}, 3, "samples.safetensors");
}

TEST_F(Train, RefusesCheckpointsOfOtherTrainings) {
  auto const checkpoint = path("one.safetensors");
  succeed(words({"--checkpoint", checkpoint}));
  expect_sentence(run_varve(words({"--checkpoint", checkpoint, "--optimizer", "l2=1e-3"})), 2,
                  {"is of a training with l2 0.0001, not 0.001"});
  auto other = words({"--checkpoint", checkpoint});
  other[2] = path("other.safetensors");
  succeed({"generate", "random", "--widths", "16,48,4", "--density", "0.5", "--output", path("other.safetensors")});
  expect_sentence(run_varve(other), 3, {"is a checkpoint of another network: it has 4 layers, expected 2"});
  auto const again = succeed(words({"--checkpoint", checkpoint}));
  EXPECT_THAT(again.out, HasSubstr("resumed   after step 12 of 12")) << "it was finished, and only writes its output";
}

} // namespace
} // namespace varve
