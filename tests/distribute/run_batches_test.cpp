#include "distribute/run_batches.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// What happens to batches of ten samples, each of which is known by the number of its first one.
class Events {
public:
  void tell(std::string const& what, SampleIndex first) {
    {
      std::lock_guard const lock(guard_);
      all_.insert({what, first});
    }
    changed_.notify_all();
  }

  /// False if it does not happen within some seconds.
  bool wait_for(std::string const& what, SampleIndex first) {
    std::unique_lock lock(guard_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return all_.contains({what, first}); });
  }

  bool has(std::string const& what, SampleIndex first) {
    std::lock_guard const lock(guard_);
    return all_.contains({what, first});
  }

private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::set<std::pair<std::string, SampleIndex>> all_;
};

constexpr std::size_t batch_size = 10;
constexpr std::size_t num_samples = 120;

SampleSet empty_samples(std::size_t count, SampleIndex first) {
  SampleSet samples;
  samples.first_sample = first;
  samples.matrix.num_rows = count;
  samples.matrix.num_columns = 1;
  samples.matrix.row_pointers.assign(count + 1, 0);
  return samples;
}

struct FakeReader final : SampleReader {
  explicit FakeReader(Events& all)
      : SampleReader({.num_samples = varve::num_samples, .num_neurons = 1, .has_one_value = true}), events(all) {}
  SampleBatch read(std::size_t first, std::size_t last) override {
    EXPECT_TRUE(first == 0 || first == next) << "one after the other";
    next = last;
    events.tell("read", first);
    if (first == broken) throw InputError("a broken sample");
    return empty_samples(last - first, first);
  }
  void read_into(std::shared_ptr<SampleMemory> given) override { memory = std::move(given); }

  Events& events;
  std::size_t next = 0;
  std::size_t broken = ~std::size_t{0};
  std::shared_ptr<SampleMemory> memory;
};

struct FakeInference final : Inference {
  explicit FakeInference(Events& all) : events(all) {}
  std::size_t num_inputs() const override { return 1; }
  std::size_t num_outputs() const override { return 1; }
  std::size_t num_layers() const override { return 1; }
  EdgeOffset num_edges() const override { return 1; }
  Plan const& plan(InputShape const&) override { return plan_; }
  Plan const& plan() const override { return plan_; }
  std::shared_ptr<SampleMemory> sample_memory() override { return memory; }
  void upload_ahead(SampleBatch const& samples) override { events.tell("stage", samples.first_sample()); }
  BatchResult infer(SampleBatch const& samples, WantedOutputs) override {
    auto const first = samples.first_sample();
    EXPECT_TRUE(events.has("stage", first));
    for (auto const& [what, distance] : expected) {
      auto const other = static_cast<SampleIndex>(static_cast<std::ptrdiff_t>(first) + distance);
      if (other >= num_samples) continue;
      EXPECT_TRUE(events.wait_for(what, other)) << what << " while " << first;
    }
    if (first == broken) throw ResourceError("a broken device");
    BatchResult result;
    result.loop_seconds = {0.0};
    result.live_samples = {first};
    result.samples = {0.25, 100};
    return result;
  }

  Events& events;
  std::vector<std::pair<std::string, std::ptrdiff_t>>
      expected; ///< events awaited in infer(): name, batch relative to this one
  SampleIndex broken = ~SampleIndex{0};
  std::shared_ptr<SampleMemory> memory =
      std::make_shared<SampleMemory>(SampleMemory::Source{std::malloc, std::free}, false);
  Plan plan_;
};

struct FakeStore {
  void add(FinishedBatch const& batch) {
    events.tell("keep", batch.samples.first);
    if (batch.samples.first == broken) throw ResourceError("a full disk");
    ranges.push_back(batch.samples);
  }

  Events& events;
  std::vector<SampleRange> ranges = {};
  SampleIndex broken = ~SampleIndex{0};
};

class RunBatches : public ::testing::Test {
protected:
  BatchQueue queue() { return {ranks_, {{0, num_samples}}, {Schedule::fixed, batch_size, true, batch_size, {}}}; }

  RankTimes run(
      BatchQueue& queue, GoesOn const& goes_on = [] { return true; }) {
    auto const keep = [&](FinishedBatch const& batch) { store_.add(batch); };
    return run_batches(inference_, reader_, queue, keep, batch_size, {}, goes_on);
  }

  Communicator const ranks_;
  Events events_;
  FakeReader reader_{events_};
  FakeInference inference_{events_};
  FakeStore store_{events_};
};

TEST_F(RunBatches, ReadsStagesComputesAndKeepsAtTheSameTime) {
  auto batches = queue();
  auto const one = static_cast<std::ptrdiff_t>(batch_size);
  inference_.expected = {{"read", 2 * one}, {"stage", one}, {"keep", -one}};
  auto const times = run(batches);
  auto const count = num_samples / batch_size;
  EXPECT_EQ(times.num_batches, count);
  EXPECT_EQ(times.num_samples, count * batch_size);
  EXPECT_EQ(times.stage_seconds, 0.25 * static_cast<double>(count));
  EXPECT_EQ(times.staged_bytes, 100.0 * static_cast<double>(count));
  EXPECT_EQ(reader_.memory, inference_.memory) << "samples are read where the device takes them";
  ASSERT_EQ(store_.ranges.size(), count) << "all are kept at the end";
  for (std::size_t number = 0; number < count; ++number) EXPECT_EQ(store_.ranges[number].first, number * batch_size);
}

TEST_F(RunBatches, SayWhatFailed) {
  auto const third = 2 * batch_size;
  auto const sentence_of_run = [&] {
    auto batches = queue();
    std::string sentence;
    try {
      run(batches);
    } catch (Error const& error) {
      sentence = error.what();
    }
    EXPECT_FALSE(batches.next()) << "the queue is stopped";
    return sentence;
  };
  reader_.broken = third;
  EXPECT_EQ(sentence_of_run(), "a broken sample");
  EXPECT_FALSE(events_.has("stage", third));
  EXPECT_FALSE(events_.has("read", third + batch_size)) << "a reader that has failed is left alone";
  reader_.broken = ~std::size_t{0};
  store_.broken = third;
  EXPECT_EQ(sentence_of_run(), "a full disk");
  store_.broken = ~SampleIndex{0};
  inference_.broken = third;
  EXPECT_EQ(sentence_of_run(), "a broken device");
}

TEST_F(RunBatches, KeepWhatWasComputedWhenTheyAreStopped) {
  auto batches = queue();
  int num_run = 0;
  run(batches, [&] { return ++num_run < 2; });
  EXPECT_EQ(store_.ranges.size(), 2U);
}

} // namespace
} // namespace varve
