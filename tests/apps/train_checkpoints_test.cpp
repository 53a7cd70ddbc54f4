#include "apps/train_folder.hpp"

#include "io/network_file.hpp"
#include "training/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace varve {
namespace {

using test::expect_sentence;
using test::joined;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::write_bytes;

/// What `varve train` does with checkpoints, and with files that belong to them.
class TrainCheckpoints : public test::TrainFolder<TrainCheckpoints> {
protected:
  static Words checkpoint(std::string const& name) { return {"--checkpoint", path(name + ".ckpt.safetensors")}; }
  static Words files(std::string const& name) {
    return joined(checkpoint(name), {"--history", path(name + ".tsv"), "--output", path(name + ".safetensors")});
  }
};

TEST_F(TrainCheckpoints, OfOtherDataAreRefused) {
  auto const here = checkpoint("data");
  auto const expected = train(here);
  auto const before = read_bytes(path("data.ckpt.safetensors"));
  auto const fails = [&](Words const& options, std::string const& part) {
    expect_failure(joined(here, options), 3, part);
    EXPECT_TRUE(read_bytes(path("data.ckpt.safetensors")) == before) << part;
  };
  fails({"--network", path("d2.safetensors")},
        "data.ckpt.safetensors is a checkpoint of a training started from another network");
  fails({"--input", path("others.safetensors"), "--labels", path("labels.txt")}, "of a training with other samples");
  auto labels = read_bytes(path("labels.txt"));
  labels[0] = labels[0] == '0' ? '1' : '0';
  write_bytes(path("changed.txt"), labels);
  fails({"--input", path("samples.safetensors"), "--labels", path("changed.txt")},
        "of a training with other labels or targets");
  auto const same =
      succeed(words(joined(here, {"--input", path("samples.safetensors"), "--labels", path("labels.txt")})));
  EXPECT_THAT(same.out, HasSubstr("resumed   after step 9 of 9")) << "the same data in other files";
  EXPECT_EQ(hash_of(same), expected);
}

TEST_F(TrainCheckpoints, InAnEpochOfInfiniteLossGoOn) {
  succeed({"generate", "random", "--widths", "16,24,4", "--density", "1", "--init", "he", "--output",
           path("he.safetensors")});
  auto const start = load(NetworkFile(path("he.safetensors")));
  NetworkFileWriter writer(path("huge-start.safetensors"), start.num_layers());
  for (auto layer : start.layers()) {
    for (auto& weight : layer.weights.values) weight *= 1e80; // squares of outputs exceed the largest double
    writer.append(layer);
  }
  writer.commit();
  auto const here = joined(files("huge"), {"--network", path("huge-start.safetensors"), "--loss", "mean-square",
                                           "--precision", "double", "--rate", "1e-300", "--epochs", "1",
                                           "--checkpoint-every", "1", "--validation", path("train.safetensors"),
                                           "--best", path("huge.best.safetensors"), "--report", path("huge.json")});
  auto const expected = train(here);
  EXPECT_THAT(read_bytes(path("huge.json")), HasSubstr("\"validation_loss\": \"Infinity\""));
  EXPECT_TRUE(std::filesystem::exists(path("huge.best.safetensors"))) << "no epoch was better";
  std::filesystem::remove(path("huge.ckpt.safetensors")); // what is left was written in the midst of the epoch
  auto const again = succeed(words(here));
  EXPECT_THAT(again.out, HasSubstr("resumed   after step 2 of 3"));
  EXPECT_EQ(hash_of(again), expected);
}

TEST_F(TrainCheckpoints, AreOfOneRunAtATime) {
  auto const here = checkpoint("shared");
  {
    CheckpointLock const other(path("shared.ckpt.safetensors"));
    expect_failure(here, 3, "shared.ckpt.safetensors is in use by another run, which holds");
    EXPECT_FALSE(std::filesystem::exists(path("shared.ckpt.safetensors")));
  }
  succeed(words(here));
  EXPECT_FALSE(std::filesystem::exists(path("shared.ckpt.safetensors.lock"))) << "the lock is removed at the end";
  expect_failure(joined(here, {"--output", path("shared.ckpt.safetensors.lock")}), 2, "--checkpoint");
}

TEST_F(TrainCheckpoints, GoOnAfterAKillWhileTheyHadTwoNames) {
  Words const recipe = {"--rate-schedule", "constant"};
  train(joined(recipe, checkpoint("names")));
  std::filesystem::remove(path("names.ckpt.safetensors.previous"));
  std::filesystem::create_hard_link(path("names.ckpt.safetensors"), path("names.ckpt.safetensors.previous"));
  auto const before = read_bytes(path("names.ckpt.safetensors"));
  train(joined(joined(recipe, checkpoint("names")), {"--epochs", "4"}));
  EXPECT_TRUE(read_bytes(path("names.ckpt.safetensors.previous")) == before);
  EXPECT_FALSE(std::filesystem::equivalent(path("names.ckpt.safetensors"), path("names.ckpt.safetensors.previous")));
}

TEST_F(TrainCheckpoints, GoOnForMoreEpochsWhereNoRateDependsOnThem) {
  Words const recipe = {"--rate-schedule", "constant", "--optimizer", "adam"};
  auto const whole = train(joined(joined(recipe, files("whole")), {"--epochs", "6"}));
  train(joined(recipe, files("longer")));
  auto const longer = succeed(words(joined(joined(recipe, files("longer")), {"--epochs", "6"})));
  EXPECT_THAT(longer.out, HasSubstr("resumed   after step 9 of 18"));
  EXPECT_EQ(hash_of(longer), whole);
  for (std::string const end : {".safetensors", ".tsv", ".ckpt.safetensors"})
    EXPECT_TRUE(read_bytes(path("longer" + end)) == read_bytes(path("whole" + end))) << end;
  train(files("cosine"));
  expect_failure(
      joined(files("cosine"), {"--epochs", "6"}), 2,
      "is of a training with epochs 3, not 6, on which all rates of the cosine schedule depend; continue with");
  Words const evolving = {"--rate-schedule", "step", "--pattern", "set", "--pattern", "every=2"};
  train(joined(evolving, checkpoint("evolving")));
  expect_failure(joined(joined(evolving, checkpoint("evolving")), {"--epochs", "6"}), 2,
                 "on which the changes of the pattern depend");
}

TEST_F(TrainCheckpoints, AreNamedAfterADivergence) {
  Words const wild = {"--rate", "1e30", "--rate-schedule", "constant", "--optimizer", "l2=1e-4"};
  auto const alone = run_varve(words(wild));
  expect_sentence(alone, 3, {"training diverges: after step 2"});
  EXPECT_THAT(alone.err, ::testing::Not(HasSubstr("holds the network")));
  auto const kept = run_varve(words(joined(joined(wild, checkpoint("wild")), {"--checkpoint-every", "1"})));
  expect_sentence(
      kept, 3,
      {"training diverges: after step 2", "take a lower rate",
       "wild.ckpt.safetensors holds the network after step 1, from which a training with other options can start"});
  succeed({"info", path("wild.ckpt.safetensors")});
}

/// The checkpoint as Varve 0.2 wrote it: without the best network and the epochs.
void make_old(std::string const& file) {
  auto checkpoint = read_checkpoint(file, {});
  ASSERT_TRUE(checkpoint);
  checkpoint->best.reset();
  checkpoint->record.history.clear();
  write_checkpoint(file, *checkpoint);
}

TEST_F(TrainCheckpoints, GiveTheBestNetworkAndTheHistory) {
  Words const recipe = {"--validation", path("train.safetensors")};
  train(joined(recipe, files("falling"))); // its loss falls to the end
  succeed(words(joined(joined(recipe, files("falling")), {"--best", path("best.safetensors")})));
  ASSERT_TRUE(std::filesystem::exists(path("best.safetensors")));
  EXPECT_TRUE(read_bytes(path("best.safetensors")) == read_bytes(path("falling.safetensors")));

  Words const wild = {
      "--validation", path("train.safetensors"), "--rate", "3", "--rate-schedule", "constant", "--patience", "2"};
  auto const rising = joined(joined(wild, files("rising")), {"--epochs", "60"});
  succeed(words(joined(rising, {"--best", path("early.safetensors")})));
  auto const history = read_bytes(path("rising.tsv"));
  EXPECT_FALSE(read_bytes(path("early.safetensors")) == read_bytes(path("rising.safetensors")))
      << "the last network is not the best";
  write_bytes(path("late.safetensors"), "of another training");
  std::filesystem::remove(path("rising.tsv"));
  auto const again = succeed(words(joined(rising, {"--best", path("late.safetensors")})));
  EXPECT_EQ(again.err, "");
  EXPECT_TRUE(read_bytes(path("late.safetensors")) == read_bytes(path("early.safetensors")));
  EXPECT_EQ(read_bytes(path("rising.tsv")), history);

  make_old(path("rising.ckpt.safetensors"));
  std::filesystem::remove(path("late.safetensors"));
  auto const late = run_varve(words(joined(rising, {"--best", path("late.safetensors")})));
  EXPECT_EQ(late.exit_code, 0);
  ASSERT_EQ(late.complaints().size(), 1U) << late.err;
  EXPECT_THAT(late.err,
              HasSubstr("late.safetensors is missing, and is written when an epoch has a lower validation loss than"));
  EXPECT_FALSE(std::filesystem::exists(path("late.safetensors")));
}

TEST_F(TrainCheckpoints, OfVarve02SayIfTheHistoryBeforeThemIsLost) {
  Words const recipe = {"--rate-schedule", "constant"};
  train(joined(recipe, files("lost")));
  make_old(path("lost.ckpt.safetensors"));
  std::filesystem::remove(path("lost.tsv"));
  auto const again = run_varve(words(joined(joined(recipe, files("lost")), {"--epochs", "4"})));
  EXPECT_EQ(again.exit_code, 0);
  ASSERT_EQ(again.complaints().size(), 1U) << again.err;
  EXPECT_THAT(again.err, HasSubstr("lost.tsv has 0 of the 3 epochs before the checkpoint, and continues with epoch 4"));
}

} // namespace
} // namespace varve
