#include "distribute/record_store.hpp"

#include "distribute/run_batches.hpp"
#include "io/files.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

FinishedBatch batch(std::uint64_t number) {
  FinishedBatch finished;
  finished.samples = {10 * number, 10 * number + 10};
  finished.activation_hash = number;
  for (std::uint64_t live = 0; live < number % 3; ++live) finished.live_samples.push_back(10 * number + live);
  return finished;
}

TEST(Stores, GiveTheBatchesOfAllRanksInTheOrderOfTheirSamples) {
  Communicator const ranks;
  auto const rank = static_cast<std::uint64_t>(ranks.rank());
  auto const size = static_cast<std::uint64_t>(ranks.size());
  for (bool const is_in_memory : {true, false}) {
    varve::test::TemporaryFolder const folder;
    auto store = is_in_memory ? RecordStore() : RecordStore(folder.path());
    for (std::uint64_t const number : {4U, 1U, 0U, 3U}) { // 2 is nobody's
      auto const finished = batch(number * size + rank);
      store.add(finished.samples, to_bytes(finished));
    }
    std::vector<FinishedBatch> found;
    for_each_in_order(ranks, store,
                      [&](std::string const& record) { found.push_back(batch_of_bytes(record, "here")); });
    std::vector<FinishedBatch> expected;
    for (std::uint64_t number = 0; number < 5 * size && ranks.is_root(); ++number) {
      if (number / size != 2) expected.push_back(batch(number));
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(RecordFiles, WaitForARunThatIsEnding) {
  varve::test::TemporaryFolder const folder;
  auto const path = folder / "journal";
  auto ending = std::make_unique<RecordFile>(path, RecordFile::Purpose::append);
  ending->append("a record");
  std::jthread const end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ending.reset();
  });
  RecordFile const next(path, RecordFile::Purpose::append);
  EXPECT_EQ(next.num_records(), 1U);
}

} // namespace
} // namespace varve
