#include "distribute/tile_store.hpp"

#include "io/files.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::expect_holds;
using testing::sentence_of;
using testing::TemporaryFolder;
using Json = nlohmann::ordered_json;

Json const run = {{"A", "1"}, {"tile", 2}};

/// 3 x 3 tasks; the tiles at the edges are smaller.
ProductTiles tiles() { return {{6, 5, 1}, 2, 64}; }

std::string numbers_of(std::uint64_t task) {
  return std::string(tiles().block(task).size(), static_cast<char>('a' + task));
}

TEST(TileStores, FindWhatAnEarlierJobStored) {
  TemporaryFolder const folder;
  auto const path = folder / "x.journal";
  {
    TileStore first(path, run, tiles(), 1, 0, 2);
    first.add(4, numbers_of(4));
    first.add(2, numbers_of(2));
    TileStore second(path, run, tiles(), 1, 1, 2);
    second.add(8, numbers_of(8));
  }
  TileStore const again(path, run, tiles(), 1, 0, 1); // one rank reads the files of both
  EXPECT_EQ(again.tasks(), (std::vector<std::uint64_t>{4, 2, 8}));
  EXPECT_EQ(again.read(1).substr(8), numbers_of(2));
  EXPECT_EQ(again.read(2).substr(8), numbers_of(8));
  EXPECT_EQ(again.num_discarded_bytes(), 0U);
}

TEST(TileStores, DropARecordThatWasCut) {
  TemporaryFolder const folder;
  auto const path = folder / "x.journal";
  {
    TileStore store(path, run, tiles(), 1, 0, 1);
    store.add(4, numbers_of(4));
    store.add(2, numbers_of(2));
  }
  fs::resize_file(path, fs::file_size(path) - 1);
  TileStore const again(path, run, tiles(), 1, 0, 1);
  EXPECT_EQ(again.tasks(), std::vector<std::uint64_t>{4});
  EXPECT_GT(again.num_discarded_bytes(), 0U);
}

TEST(TileStores, RefuseJournalsOfOtherRuns) {
  TemporaryFolder const folder;
  auto const path = folder / "x.journal";
  { TileStore const store(path, run, tiles(), 1, 0, 1); }
  auto const sentence = sentence_of<InputError>([&] { TileStore(path, Json{{"A", "2"}}, tiles(), 1, 0, 1); });
  expect_holds(sentence, "is the journal of another run: A is \"1\" there and \"2\" here");
  auto const write_head = [&](Json const& head) {
    fs::remove(path);
    RecordFile file(path, RecordFile::Purpose::append);
    file.append(head.dump());
  };
  write_head({{"version", 2}, {"run", run}});
  expect_holds(sentence_of<InputError>([&] { TileStore(path, run, tiles(), 1, 0, 1); }), "has version 2");
  write_head({{"version", 1}, {"run", {1, 2}}});
  expect_holds(sentence_of<InputError>([&] { TileStore(path, run, tiles(), 1, 0, 1); }),
               "does not begin with the description of a run");
  testing::write_bytes(path, "something else");
  expect_holds(sentence_of<InputError>([&] { TileStore(path, run, tiles(), 1, 0, 1); }), "is no journal of Varve");
}

TEST(TileStores, SayTheTileOfAJournal) {
  TemporaryFolder const folder;
  auto const path = folder / "x.journal";
  EXPECT_EQ(tile_of_journal(path, 0, 1), std::nullopt);
  testing::write_bytes(path, "");
  EXPECT_EQ(tile_of_journal(path, 0, 1), std::nullopt);
  { TileStore const store(path, run, tiles(), 1, 2, 3); } // rank 2 alone has a file with a record
  EXPECT_EQ(tile_of_journal(path, 0, 1), 2U);
  EXPECT_EQ(tile_of_journal(path, 1, 3), std::nullopt);
  EXPECT_EQ(tile_of_journal(path, 2, 3), 2U);
  testing::write_bytes(path, "something else");
  expect_holds(sentence_of<InputError>([&] { tile_of_journal(path, 0, 1); }), "is no journal of Varve");
}

TEST(TileStores, RefuseRecordsThatAreNoTile) {
  TemporaryFolder const folder;
  auto const path = folder / "x.journal";
  auto const refuse = [&](std::string const& record) {
    fs::remove(path);
    { TileStore const store(path, run, tiles(), 1, 0, 1); }
    { RecordFile(path, RecordFile::Purpose::append).append(record); }
    expect_holds(sentence_of<InputError>([&] { TileStore(path, run, tiles(), 1, 0, 1); }), "expected a tile");
  };
  auto const record_of = [](std::uint64_t task, std::size_t size) {
    std::string record(8 + size, 'x');
    std::memcpy(record.data(), &task, sizeof(task));
    return record;
  };
  refuse("");
  refuse("short");
  refuse(record_of(9, 4)); // there are 9 tasks
  refuse(record_of(~0ULL, 4));
  refuse(record_of(0, 3)); // a tile of 4 numbers
  refuse(record_of(8, 4)); // a tile of 2 numbers at the corner
  refuse(record_of(0, 0));
}

TEST(TileStores, TakeTilesOfTheRightSizeOnly) {
  TemporaryFolder const folder;
  TileStore store(folder.path(), tiles(), 1);
  EXPECT_THROW(store.add(0, "abc"), std::logic_error);
  EXPECT_THROW(store.add(9, "abcd"), std::logic_error);
  EXPECT_NO_THROW(store.add(8, "ab"));
  EXPECT_EQ(folder.num_entries(), 0); // the file has no name
}

} // namespace
} // namespace varve
