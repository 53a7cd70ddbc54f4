#include "training/checkpoint.hpp"

#include "core/error.hpp"
#include "io/files.hpp"
#include "io/input_files.hpp"
#include "network/network.hpp"
#include "reference/training_case.hpp"
#include "training/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace varve {
namespace {

using varve::test::read_bytes;
using varve::test::TemporaryFolder;
using varve::test::write_bytes;

/// A checkpoint with two moments; `mark` tells checkpoints apart.
Checkpoint checkpoint_of(int mark) {
  auto const given = test::training_case({{7, 5, 3}, 2, 0.6});
  OptimizerState state;
  state.num_steps = static_cast<std::uint64_t>(mark);
  for (auto const& layer : given.network.layers()) {
    OptimizerState::OfLayer own;
    for (double const factor : {0.5, 0.1}) { // numbers of float and of double
      own.weights.emplace_back(layer.num_edges(), factor * mark);
      own.bias.emplace_back(layer.num_outputs(), factor + mark);
    }
    state.layers.push_back(own);
  }
  return {given.network, {"{\"recipe\": 1}", "{\"progress\": " + std::to_string(mark) + "}", state, {}}};
}

/// Moves an edge of the first output to input 2, which has none.
void move_an_edge(SparseMatrix& weights) {
  auto const row = weights.row_columns(0);
  ASSERT_EQ(std::ranges::count(row, 2U), 0);
  auto const place = std::ranges::lower_bound(row, 2U) - row.begin();
  ASSERT_LT(place, std::ssize(row));
  weights.column_indices[static_cast<std::size_t>(place)] = 2;
}

EpochResult epoch_of(std::uint64_t number, bool has_validation = false) {
  EpochResult result{number, 10 * number, 0.5, {1.5, 3, 2}, std::nullopt, {}};
  if (has_validation) result.validation = LossSum{1.0, 4, 1};
  return result;
}

void expect_equal(std::optional<Checkpoint> const& found, Checkpoint const& expected) {
  ASSERT_TRUE(found);
  EXPECT_EQ(found->network.layers(), expected.network.layers());
  EXPECT_EQ(found->record, expected.record);
  ASSERT_EQ(found->best == nullptr, expected.best == nullptr);
  if (found->best) {
    EXPECT_EQ(found->best->layers(), expected.best->layers());
  }
}

struct Complaints {
  std::vector<std::string> heard;
  std::function<void(std::string const&)> listener() {
    return [this](std::string const& sentence) { heard.push_back(sentence); };
  }
};

TEST(Checkpoints, ComeBackAsTheyWere) {
  TemporaryFolder const folder;
  Complaints complaints;
  EXPECT_FALSE(read_checkpoint(folder / "run.safetensors", complaints.listener()));
  write_checkpoint(folder / "run.safetensors", checkpoint_of(1));
  expect_equal(read_checkpoint(folder / "run.safetensors", complaints.listener()), checkpoint_of(1));
  EXPECT_TRUE(complaints.heard.empty());
}

TEST(Checkpoints, WithoutMomentsComeBackToo) {
  TemporaryFolder const folder;
  auto checkpoint = checkpoint_of(1);
  for (auto& layer : checkpoint.record.optimizer.layers) layer = {};
  write_checkpoint(folder / "run.safetensors", checkpoint);
  expect_equal(read_checkpoint(folder / "run.safetensors", {}), checkpoint);
}

TEST(Checkpoints, HoldTheBestNetworkAndAllEpochs) {
  TemporaryFolder const folder;
  auto checkpoint = checkpoint_of(1);
  auto layers = checkpoint.network.layers();
  move_an_edge(layers[0].weights);
  layers[0].activation = Activation::clipped_relu(0.5);
  layers[1].bias[0] += 1.0;
  checkpoint.best = std::make_shared<Network const>(layers);
  std::vector<EpochResult> const epochs = {epoch_of(1, true), epoch_of(2), epoch_of(3)};
  checkpoint.record.history = to_numbers(epochs);
  checkpoint.record.history[3] = std::numeric_limits<double>::infinity();
  write_checkpoint(folder / "run.safetensors", checkpoint);
  auto const found = read_checkpoint(folder / "run.safetensors", {});
  expect_equal(found, checkpoint);
  EXPECT_EQ(load(NetworkFile(folder / "run.safetensors")).layers(), checkpoint.network.layers())
      << "the best one is another";
}

TEST(Checkpoints, OfOtherEpochsAreRefused) {
  auto const numbers = to_numbers({epoch_of(1, true), epoch_of(2)});
  EXPECT_EQ(to_numbers(epochs_from(numbers, "test")), numbers);
  EXPECT_FALSE(epochs_from(numbers, "test")[1].validation);
  auto cut = numbers;
  cut.pop_back();
  EXPECT_THROW(epochs_from(cut, "test"), InputError);
  for (double const wrong : {-1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    auto broken = numbers;
    broken[4] = wrong; // a number of samples
    EXPECT_THROW(epochs_from(broken, "test"), InputError) << wrong;
  }
}

TEST(Checkpoints, AreNetworkFiles) {
  TemporaryFolder const folder;
  auto const checkpoint = checkpoint_of(3);
  write_checkpoint(folder / "run.safetensors", checkpoint);
  EXPECT_EQ(load(NetworkFile(folder / "run.safetensors")).layers(), checkpoint.network.layers());
}

TEST(Checkpoints, KeepTheGenerationBefore) {
  TemporaryFolder const folder;
  auto const path = folder / "run.safetensors";
  for (int const mark : {1, 2, 3}) write_checkpoint(path, checkpoint_of(mark));
  Complaints complaints;
  expect_equal(read_checkpoint(path, complaints.listener()), checkpoint_of(3));
  expect_equal(read_checkpoint(previous_generation(path), complaints.listener()), checkpoint_of(2));
  auto bytes = read_bytes(path);
  write_bytes(path, bytes.substr(0, bytes.size() / 2));
  EXPECT_TRUE(complaints.heard.empty());
  expect_equal(read_checkpoint(path, complaints.listener()), checkpoint_of(2));
  ASSERT_EQ(complaints.heard.size(), 1U);
  EXPECT_THAT(complaints.heard[0], ::testing::HasSubstr("training continues from"));
  std::filesystem::remove(path); // as if a process died between the two renames
  expect_equal(read_checkpoint(path, complaints.listener()), checkpoint_of(2));
  std::filesystem::remove(previous_generation(path));
  write_bytes(path, bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(read_checkpoint(path, complaints.listener()), InputError);
}

TEST(Checkpoints, StayIfAnInputHasChanged) {
  TemporaryFolder const folder;
  auto const path = folder / "run.safetensors";
  InputFiles const inputs;
  write_bytes(folder / "input.txt", "before");
  readable_place(folder / "input.txt"); // it is watched from now on
  for (int const mark : {1, 2}) write_checkpoint(path, checkpoint_of(mark));
  write_bytes(folder / "input.txt", "changed");
  EXPECT_THROW(write_checkpoint(path, checkpoint_of(3)), InputError);
  expect_equal(read_checkpoint(path, {}), checkpoint_of(2));
  expect_equal(read_checkpoint(previous_generation(path), {}), checkpoint_of(1));
}

TEST(Checkpoints, BehindLinksReplaceWhatTheLinkNames) {
  TemporaryFolder const folder;
  std::filesystem::create_symlink(folder / "real.safetensors", folder / "run.safetensors");
  for (int const mark : {1, 2, 3}) write_checkpoint(folder / "run.safetensors", checkpoint_of(mark));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "run.safetensors"));
  expect_equal(read_checkpoint(folder / "real.safetensors", {}), checkpoint_of(3));
  expect_equal(read_checkpoint(previous_generation(folder / "run.safetensors"), {}), checkpoint_of(2));
}

TEST(CheckpointLocks, AreHeldByOneRun) {
  TemporaryFolder const folder;
  auto const path = folder / "run.safetensors";
  auto const name = lock_of_checkpoint(path);
  write_bytes(name, ""); // left by a run that was killed
  {
    CheckpointLock const own(path);
    EXPECT_TRUE(std::filesystem::exists(name));
    try {
      CheckpointLock const other(path, 0.0);
      FAIL() << "no complaint";
    } catch (InputError const& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("run.safetensors is in use by another run"));
    }
    EXPECT_NO_THROW(CheckpointLock(folder / "other.safetensors", 0.0));
  }
  EXPECT_FALSE(std::filesystem::exists(name));
  EXPECT_NO_THROW(CheckpointLock(path, 0.0));
  EXPECT_THROW(CheckpointLock(folder / "no" / "run.safetensors", 0.0), ResourceError);
}

TEST(Checkpoints, OfOtherNetworksAreRefused) {
  auto const checkpoint = checkpoint_of(1);
  EXPECT_NO_THROW(require_same_shape(checkpoint, checkpoint.network, "run.safetensors"));
  auto layers = checkpoint.network.layers();
  layers[1].weights.values[0] += 1.0;
  EXPECT_NO_THROW(require_same_shape(checkpoint, Network(layers), "run.safetensors")) << "weights change";
  auto other = layers;
  other[1].activation = Activation::tanh();
  EXPECT_THROW(require_same_shape(checkpoint, Network(other), "run.safetensors"), InputError);
  other = {layers[0]};
  EXPECT_THROW(require_same_shape(checkpoint, Network(other), "run.safetensors"), InputError);
  EXPECT_THROW(require_same_shape(checkpoint,
                                  test::training_case({{7, 5, 3}, 2, 0.6, {Activation::identity()}, 2}).network,
                                  "run.safetensors"),
               InputError);
}

TEST(Checkpoints, OfChangedPatternsAreTakenWherePatternsChange) {
  auto const checkpoint = checkpoint_of(1);
  auto layers = checkpoint.network.layers();
  move_an_edge(layers[0].weights);
  Network const moved(layers);
  EXPECT_THROW(require_same_shape(checkpoint, moved, "run.safetensors"), InputError);
  EXPECT_NO_THROW(require_same_shape(checkpoint, moved, "run.safetensors", true));
  auto& rows = layers[0].weights.row_pointers;
  ASSERT_EQ(rows[3], rows[4]);
  --rows[3]; // the last edge of output 2 is of output 3 now, which had none
  EXPECT_NO_THROW(require_same_shape(checkpoint, Network(layers), "run.safetensors", true));
  auto other = layers;
  other[0].activation = Activation::tanh();
  EXPECT_THROW(require_same_shape(checkpoint, Network(other), "run.safetensors", true), InputError);
  other = layers;
  auto& weights = other[1].weights;
  weights.column_indices.pop_back();
  weights.values.pop_back();
  for (auto& pointer : weights.row_pointers) pointer = std::min(pointer, weights.num_entries());
  try {
    require_same_shape(checkpoint, Network(other), "run.safetensors", true);
    FAIL() << "no complaint";
  } catch (InputError const& error) {
    EXPECT_STREQ(error.what(),
                 "run.safetensors is a checkpoint of another network: its layer 1 has another number of edges or "
                 "neurons or another activation than that of network in memory");
  }
}

TEST(Checkpoints, AreToldFromNetworks) {
  TemporaryFolder const folder;
  auto const checkpoint = checkpoint_of(1);
  NetworkFileWriter writer(folder / "net.safetensors", checkpoint.network.num_layers());
  for (auto const& layer : checkpoint.network.layers()) writer.append(layer);
  writer.commit();
  try {
    read_checkpoint(folder / "net.safetensors", {});
    FAIL() << "no complaint";
  } catch (InputError const& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("net.safetensors is not a checkpoint"));
  }
}

TEST(WeightsHash, ChangesWithEveryNumberAndItsPlace) {
  auto const network = checkpoint_of(1).network;
  auto const hash = weights_hash(network);
  EXPECT_EQ(weights_hash(Network(network.layers())), hash);
  auto layers = network.layers();
  std::swap(layers[0].weights.values[0], layers[0].weights.values[1]);
  EXPECT_NE(weights_hash(Network(layers)), hash);
  layers = network.layers();
  move_an_edge(layers[0].weights);
  EXPECT_NE(weights_hash(Network(layers)), hash);
  layers = network.layers();
  layers[1].bias[0] += 1e-16;
  EXPECT_NE(weights_hash(Network(layers)), hash);
}

TEST(Histories, HoldALineForEachEpoch) {
  TemporaryFolder const folder;
  History history(folder / "loss.tsv", {}, 0);
  history.add(epoch_of(1));
  history.add(epoch_of(2, true));
  EXPECT_EQ(read_bytes(folder / "loss.tsv"),
            "epoch\tsteps\trate\tloss\taccuracy\tvalidation_loss\tvalidation_accuracy\n"
            "1\t10\t0.5\t0.5\t0.6666666666666666\t\t\n"
            "2\t20\t0.5\t0.5\t0.6666666666666666\t0.25\t0.25\n");
}

TEST(Histories, TellHowManyEdgesMoved) {
  TemporaryFolder const folder;
  auto result = epoch_of(1);
  result.pattern = {12, 5};
  History history(folder / "loss.tsv", {}, 0, true);
  history.add(result);
  EXPECT_EQ(read_bytes(folder / "loss.tsv"), "epoch\tsteps\trate\tloss\taccuracy\tvalidation_loss\t"
                                             "validation_accuracy\tdropped_edges\treturned_edges\n"
                                             "1\t10\t0.5\t0.5\t0.6666666666666666\t\t\t12\t5\n");
  EXPECT_NO_THROW(History(folder / "loss.tsv", {}, 1, true));
  EXPECT_THROW(History(folder / "loss.tsv", {}, 1), InputError);
}

TEST(Histories, BeginWithTheEpochsOfTheCheckpoint) {
  TemporaryFolder const folder;
  {
    History history(folder / "loss.tsv", {}, 0);
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) history.add(epoch_of(epoch, epoch == 2));
  }
  auto const whole = read_bytes(folder / "loss.tsv");
  write_bytes(folder / "loss.tsv", "something else\n");
  History history(folder / "loss.tsv", {epoch_of(1), epoch_of(2, true)}, 2);
  EXPECT_EQ(history.num_missing(), 0U);
  EXPECT_EQ(read_bytes(folder / "loss.tsv"), whole.substr(0, whole.rfind('\n', whole.size() - 2) + 1));
  history.add(epoch_of(3));
  EXPECT_EQ(read_bytes(folder / "loss.tsv"), whole);
}

TEST(Histories, CountTheEpochsThatTheyLack) {
  TemporaryFolder const folder;
  EXPECT_EQ(History(folder / "loss.tsv", {}, 0).num_missing(), 0U);
  EXPECT_EQ(History(folder / "loss.tsv", {}, 3).num_missing(), 3U) << "there is no file";
  History history(folder / "loss.tsv", {}, 0);
  history.add(epoch_of(1));
  history.add(epoch_of(2));
  EXPECT_EQ(history.num_missing(), 0U);
  EXPECT_EQ(History(folder / "loss.tsv", {}, 1).num_missing(), 0U);
  EXPECT_EQ(History(folder / "loss.tsv", {}, 2).num_missing(), 0U);
  EXPECT_EQ(History(folder / "loss.tsv", {}, 5).num_missing(), 3U);
}

TEST(Histories, AreCutBackToACheckpointWithoutEpochs) {
  TemporaryFolder const folder;
  {
    History history(folder / "loss.tsv", {}, 0);
    for (std::uint64_t epoch = 1; epoch <= 4; ++epoch) history.add(epoch_of(epoch));
  }
  auto const whole = read_bytes(folder / "loss.tsv");
  {
    History history(folder / "loss.tsv", {}, 2);
    history.add(epoch_of(3));
    history.add(epoch_of(4));
  }
  EXPECT_EQ(read_bytes(folder / "loss.tsv"), whole);
  write_bytes(folder / "other.tsv", "something else\n");
  EXPECT_THROW(History(folder / "other.tsv", {}, 1), InputError);
}

} // namespace
} // namespace varve
