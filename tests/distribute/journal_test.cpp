#include "core/error.hpp"
#include "distribute/record_store.hpp"
#include "distribute/run_batches.hpp"
#include "io/files.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace varve {
namespace {

using varve::test::expect_holds;
using varve::test::read_bytes;
using varve::test::sentence_of;
using varve::test::TemporaryFolder;
using varve::test::write_bytes;

nlohmann::ordered_json const run = {{"network", "0123456789abcdef"}, {"number of samples", 100}, {"batch", nullptr}};
nlohmann::ordered_json const facts = {{"layers", 3}, {"outputs", 5}};

/// Batch `number` of ten samples, with something of everything in it.
FinishedBatch batch(std::uint64_t number) {
  FinishedBatch finished;
  finished.samples = {10 * number, 10 * number + 10};
  finished.activation_hash = 0xfedcba9876543210U + number;
  finished.live_edges = 0.5 + static_cast<double>(number);
  for (std::uint64_t live = 0; live < number % 4; ++live) finished.live_samples.push_back(10 * number + 3 * live);
  finished.predictions.assign(10, static_cast<NeuronIndex>(number));
  finished.activations.first_sample = 10 * number;
  auto& matrix = finished.activations.matrix;
  matrix.num_rows = 10;
  matrix.num_columns = 5;
  matrix.row_pointers.assign(11, finished.live_samples.size());
  matrix.row_pointers[0] = 0;
  for (std::size_t entry = 0; entry < finished.live_samples.size(); ++entry) {
    matrix.column_indices.push_back(static_cast<NeuronIndex>(entry));
    matrix.values.push_back(0.1 * static_cast<double>(number + entry));
  }
  return finished;
}

SampleRange range_of(std::string_view record, std::string const& place) {
  return batch_of_bytes(record, place).samples;
}

RecordStore open_journal(std::filesystem::path const& path, nlohmann::ordered_json const& of, int rank, int num_ranks) {
  RecordStore journal(path, rank, num_ranks);
  journal.resume(of, range_of);
  return journal;
}

void add(RecordStore& store, FinishedBatch const& finished) { store.add(finished.samples, to_bytes(finished)); }

class JournalFile : public ::testing::Test {
protected:
  TemporaryFolder folder_;
  std::filesystem::path const path_ = folder_ / "run.journal";

  RecordStore open(int rank = 0, int num_ranks = 1) const { return open_journal(path_, run, rank, num_ranks); }

  void write(std::uint64_t first, std::uint64_t last, int rank = 0, int num_ranks = 1) const {
    auto journal = open(rank, num_ranks);
    journal.begin(facts);
    for (auto number = first; number < last; ++number) add(journal, batch(number));
  }

  static void expect_batches(RecordStore const& journal, std::vector<std::uint64_t> const& numbers) {
    ASSERT_EQ(journal.ranges().size(), numbers.size());
    for (std::size_t place = 0; place < numbers.size(); ++place) {
      EXPECT_EQ(journal.ranges()[place], batch(numbers[place]).samples);
      EXPECT_EQ(batch_of_bytes(journal.read(place), "test"), batch(numbers[place]));
    }
  }
};

TEST_F(JournalFile, GivesBackWhatItWasGiven) {
  write(0, 3);
  auto journal = open();
  EXPECT_EQ(journal.network(), facts);
  EXPECT_EQ(journal.found_run(), run);
  expect_batches(journal, {0, 1, 2});
  journal.begin({{"layers", 99}}); // no effect, because the journal has begun
  add(journal, batch(5));
  expect_batches(journal, {0, 1, 2, 5});
  EXPECT_EQ(journal.num_discarded_bytes(), 0U);
}

TEST_F(JournalFile, OfNoRunIsEmpty) {
  auto const journal = open();
  EXPECT_TRUE(journal.network().is_null());
  EXPECT_TRUE(journal.found_run().is_null());
  EXPECT_TRUE(journal.ranges().empty());
  EXPECT_TRUE(std::filesystem::exists(path_)); // created at once, to detect a folder that cannot be written
}

TEST_F(JournalFile, CutAnywhereKeepsItsWholeRecords) {
  write(0, 0);
  auto const size_of_head = std::filesystem::file_size(path_);
  write(0, 2);
  auto const whole = read_bytes(path_);
  auto const size_of_first = size_of_head + 16 + to_bytes(batch(0)).size();
  auto const is_near_an_end = [&](std::size_t size) {
    constexpr std::size_t near = 3;
    for (auto const end : {std::size_t{8}, size_of_head, size_of_first, whole.size()})
      if (size + near >= end && size <= end + near) return true;
    return size < near;
  };
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    if (!is_near_an_end(size) && size % 31 != 0) continue;
    write_bytes(path_, whole.substr(0, size));
    {
      auto journal = open();
      std::size_t const num_whole = size < size_of_first ? 0 : size < whole.size() ? 1 : 2;
      ASSERT_EQ(journal.ranges().size(), num_whole) << size;
      EXPECT_EQ(journal.network().is_null(), size < size_of_head);
      journal.begin(facts);
      for (auto number = num_whole; number < 2; ++number) add(journal, batch(number));
    }
    ASSERT_EQ(read_bytes(path_), whole) << size; // what was torn off is written again, and nothing else
  }
}

TEST_F(JournalFile, WithAChangedByteEndsBeforeThatRecord) {
  write(0, 2);
  auto const whole = read_bytes(path_);
  auto const begin_of_second = whole.size() - 16 - to_bytes(batch(1)).size();
  for (std::size_t place = begin_of_second; place < whole.size(); place += 5) {
    auto changed = whole;
    changed[place] = static_cast<char>(changed[place] ^ 0x10);
    write_bytes(path_, changed);
    auto const journal = open();
    expect_batches(journal, {0});
    EXPECT_EQ(journal.num_discarded_bytes(), whole.size() - begin_of_second);
  }
}

TEST_F(JournalFile, WithARecordDamagedInItsMiddleForgetsThoseBehindIt) {
  write(0, 4);
  auto bytes = read_bytes(path_);
  auto const begin_of_last = bytes.size() - 16 - to_bytes(batch(3)).size();
  bytes[begin_of_last - 5] = static_cast<char>(bytes[begin_of_last - 5] ^ 1);
  write_bytes(path_, bytes);
  expect_batches(open(), {0, 1});
}

TEST_F(JournalFile, OfAnotherRunIsRefusedByWhatDiffers) {
  write(0, 1);
  auto const before = read_bytes(path_);
  for (auto const& [name, value] : run.items()) {
    auto other = run;
    other[name] = 7;
    auto const sentence = sentence_of<InputError>([&] { open_journal(path_, other, 0, 1); });
    expect_holds(sentence, path_.string() + " is the journal of another run: " + name + " is " + value.dump());
    expect_holds(sentence, "7 here");
    EXPECT_EQ(read_bytes(path_), before);
  }
}

TEST_F(JournalFile, IsNotMadeOfOtherFiles) {
  for (std::string const text : {"x", "varvelox and more", "Dear diary, today I began to write.\n"}) {
    write_bytes(path_, text);
    expect_holds(sentence_of<InputError>([&] { open(); }), "is not a journal of Varve");
    EXPECT_EQ(read_bytes(path_), text);
  }
  RecordFile(folder_ / "records", RecordFile::Purpose::append).append("no description");
  std::filesystem::rename(folder_ / "records", path_);
  expect_holds(sentence_of<InputError>([&] { open(); }), "does not begin with the description of a run");
  auto const write_head = [&](nlohmann::ordered_json const& head) {
    std::filesystem::remove(path_);
    RecordFile(path_, RecordFile::Purpose::append).append(head.dump());
  };
  write_head({{"version", 2}, {"run", run}});
  expect_holds(sentence_of<InputError>([&] { open(); }), "has version 2 of the journal, expected 1");
  write_head({{"version", 1}, {"run", {1, 2}}});
  expect_holds(sentence_of<InputError>([&] { open(); }), "does not begin with the description of a run");
}

TEST_F(JournalFile, CannotLieInAMissingFolder) {
  expect_holds(sentence_of<ResourceError>([&] { RecordStore(folder_ / "no/such/journal", 0, 1); }),
               "cannot be written: No such file or directory");
}

TEST_F(JournalFile, OfManyRanksIsReadByAnyNumberOfRanks) {
  for (int rank = 0; rank < 5; ++rank)
    write(static_cast<std::uint64_t>(2 * rank), static_cast<std::uint64_t>(2 * rank + 2), rank, 5);
  write_bytes(folder_ / "run.journal.old", "no rank");
  write_bytes(folder_ / "run.journal.007", "no rank");
  for (int const num_ranks : {1, 2, 3, 5, 7}) {
    std::vector<SampleRange> found;
    for (int rank = 0; rank < num_ranks; ++rank) {
      auto const journal = open(rank, num_ranks);
      found.insert(found.end(), journal.ranges().begin(), journal.ranges().end());
    }
    std::ranges::sort(found);
    std::vector<SampleRange> expected;
    for (std::uint64_t number = 0; number < 10; ++number) expected.push_back(batch(number).samples);
    EXPECT_EQ(found, expected) << num_ranks;
  }
}

TEST_F(JournalFile, WaitsForARunThatStillHoldsIt) {
  auto first = std::make_optional(open());
  std::jthread const other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  EXPECT_TRUE(open().ranges().empty());
}

TEST(FinishedBatchBytes, AreRefusedWhenCutOrTooLong) {
  auto const bytes = to_bytes(batch(3));
  EXPECT_EQ(batch_of_bytes(bytes, "here"), batch(3));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    expect_holds(sentence_of<InputError>([&] { batch_of_bytes(bytes.substr(0, size), "here"); }),
                 "here: found a record");
  }
  EXPECT_THROW(batch_of_bytes(bytes + "x", "here"), InputError);
}

TEST(FinishedBatchBytes, ThatContradictThemselvesAreRefused) {
  auto const refuse = [](std::string const& sentence, auto const& change) {
    auto changed = batch(3);
    change(changed);
    expect_holds(sentence_of<InputError>([&] { batch_of_bytes(to_bytes(changed), "here"); }), "here: " + sentence);
  };
  refuse("found a batch of the samples 31 to 29", [](FinishedBatch& changed) { changed.samples.second = 29; });
  refuse("found 3 live samples",
         [](FinishedBatch& changed) { std::swap(changed.live_samples[0], changed.live_samples[1]); });
  refuse("found 3 live samples", [](FinishedBatch& changed) { changed.live_samples[2] = 40; });
  refuse("found 11 predictions", [](FinishedBatch& changed) { changed.predictions.push_back(0); });
  refuse("found activations of 9 samples", [](FinishedBatch& changed) { changed.activations.matrix.num_rows = 9; });
  refuse("the row pointers", [](FinishedBatch& changed) { changed.activations.matrix.row_pointers.pop_back(); });
  refuse("row 0 has column index 2", [](FinishedBatch& changed) { changed.activations.matrix.num_columns = 2; });
  refuse("the row pointers", [](FinishedBatch& changed) { // one more than the largest number of rows is 0
    changed = {};
    changed.samples = {0, std::numeric_limits<SampleIndex>::max()};
    changed.activations.matrix = {changed.samples.second, 5, {}, {}, {}};
  });
}

TEST(FinishedBatchParts, AreJoined) {
  BatchResult result;
  result.live_samples = {20};
  result.predictions = {4};
  result.activation_hash = 7;
  result.live_edges = 2.0;
  auto joined = batch(1);
  append(joined, result);
  EXPECT_EQ(joined.live_samples.back(), 20U);
  EXPECT_EQ(joined.predictions.size(), 11U);
  EXPECT_EQ(joined.activation_hash, batch(1).activation_hash + 7);
  EXPECT_EQ(joined.live_edges, batch(1).live_edges + 2.0);
}

TEST(TemporaryStore, LeavesNothingBehind) {
  TemporaryFolder const folder;
  RecordStore store(folder.path());
  for (std::uint64_t number = 0; number < 3; ++number) add(store, batch(number));
  EXPECT_EQ(folder.num_entries(), 0);
  for (std::uint64_t number = 0; number < 3; ++number) EXPECT_EQ(batch_of_bytes(store.read(number), ""), batch(number));
}

} // namespace
} // namespace varve
