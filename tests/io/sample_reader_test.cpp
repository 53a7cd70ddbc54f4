#include "io/sample_reader.hpp"

#include "engine/draw.hpp"
#include "io/container_edit.hpp"
#include "io/files.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/sample_files.hpp"
#include "io/text_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace varve {
namespace {

using test::expect_holds;
using test::random_samples;
using test::read_bytes;
using test::sentence_of;
using test::TemporaryFolder;
using test::Values;
using test::write_bytes;

constexpr std::size_t plenty = std::size_t{1} << 40;

/// Values stored the same way whatever part of a set they are from.
SampleSet canonical(SampleSet samples) {
  make_iso_if_equal(samples.matrix);
  if (samples.matrix.num_entries() == 0) samples.matrix.values.clear();
  return samples;
}

void expect_part(SampleReader& reader, SampleSet const& samples, std::size_t first, std::size_t last) {
  EXPECT_EQ(canonical(to_set(reader.read(first, last))), canonical(samples_of(samples, first, last)))
      << first << ":" << last;
}

TEST(SampleReaders, GiveThePartsOfEveryKindOfFile) {
  TemporaryFolder const folder;
  for (auto const values : {Values::one_for_all, Values::doubles}) {
    auto const samples = random_samples(4, 90, 20, values);
    for (std::string const ending : {".tsv", ".tsv.gz", ".tsv.xz", ".tsv.zst", ".safetensors"}) {
      auto const path = folder / ("samples" + ending);
      save_samples(samples, path);
      for (std::size_t const bytes : {std::size_t{0}, plenty}) {
        for (std::size_t const size : {1U, 7U, 89U, 90U}) {
          auto const reader = open_sample_reader(path, 20, std::nullopt, bytes);
          ASSERT_EQ(reader->num_samples(), 90U);
          EXPECT_EQ(reader->num_entries(), samples.matrix.num_entries());
          EXPECT_EQ(reader->first_sample(), 0U);
          EXPECT_EQ(reader->has_one_value(), values != Values::doubles);
          EXPECT_EQ(reader->bytes_per_entry(), values == Values::doubles ? 12U : 4U);
          for (std::size_t first = 0; first < 90; first += size)
            expect_part(*reader, samples, first, std::min<std::size_t>(first + size, 90));
        }
      }
    }
  }
}

std::shared_ptr<SampleMemory> some_memory(bool is_narrow) {
  return std::make_shared<SampleMemory>(SampleMemory::Source{std::malloc, std::free}, is_narrow);
}

/// True if the samples were put into the memory, as columns of this type.
template <class Column>
bool has_ready(SampleBatch const& batch) {
  auto const& ready = batch.rows().front().ready;
  return ready && std::holds_alternative<Column const*>(ready->columns);
}

TEST(SampleReaders, PutSamplesIntoTheMemoryOfADevice) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  for (auto const values : {Values::one_for_all, Values::doubles}) {
    for (std::size_t const neurons : {std::size_t{300}, std::size_t{65536}, std::size_t{65537}}) {
      auto samples = random_samples(4, 700, 300, values); // more entries than a piece holds
      samples.matrix.num_columns = neurons;
      samples.matrix.column_indices.back() = static_cast<NeuronIndex>(neurons - 1);
      save_samples(samples, path);
      for (bool const is_narrow : {false, true}) {
        auto const reader = open_sample_file(path);
        reader->read_into(some_memory(is_narrow));
        for (std::size_t first = 0; first < 700; first += 250) {
          auto const last = std::min<std::size_t>(first + 250, 700);
          auto const batch = reader->read(first, last);
          EXPECT_TRUE(is_narrow && neurons <= 65536 ? has_ready<std::uint16_t>(batch) : has_ready<NeuronIndex>(batch));
          EXPECT_EQ(canonical(to_set(batch)), canonical(samples_of(samples, first, last)));
        }
        EXPECT_EQ(reader->read(3, 3).num_samples(), 0U);
      }
    }
  }
}

TEST(SampleReaders, SayWhatIsWrongWhateverTheMemory) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const good = random_samples(4, 700, 300, Values::one_for_all);
  auto const& rows = good.matrix.row_pointers;
  auto const sentence_with = [&](std::shared_ptr<SampleMemory> const& memory) {
    auto const reader = open_sample_file(path);
    reader->read_into(memory);
    return sentence_of<InputError>([&] { reader->read(0, 700); });
  };
  // the first, a middle and the last entry of a row, and a number that 16 bits do not hold
  for (auto const& [entry, column] : {std::pair<std::size_t, NeuronIndex>{rows[2], 300},
                                      {rows[3] - 1, 300},
                                      {rows[400] + 1, 0},
                                      {rows[401] - 1, 0},
                                      {rows[5] - 1, 65541}}) {
    write_sample_file(path, good);
    auto columns = good.matrix.column_indices;
    columns[entry] = column;
    test::edit(path, [&](auto& file) {
      if (column > 65535) return file.set("samples.indices", columns);
      file.set("samples.indices", std::vector<std::uint16_t>(columns.begin(), columns.end()));
    });
    auto const expected = sentence_with(nullptr);
    expect_holds(expected, "has column index");
    EXPECT_EQ(sentence_with(some_memory(false)), expected);
    EXPECT_EQ(sentence_with(some_memory(true)), expected);
  }
}

TEST(SampleReaders, ReadAllSamplesAheadInAnotherThread) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto samples = random_samples(4, 90, 20, Values::floats);
  samples.first_sample = 17;
  write_sample_file(path, samples);
  for (bool const is_ready : {false, true}) {
    auto const open = [&] {
      return read_ahead(open_sample_file(path, SampleRange{27, 97}), is_ready ? some_memory(true) : nullptr);
    };
    auto const reader = open();
    EXPECT_EQ(reader->num_samples(), 70U);
    EXPECT_EQ(reader->num_neurons(), 20U);
    EXPECT_EQ(reader->num_entries(), samples_of(samples, 10, 80).matrix.num_entries());
    EXPECT_EQ(reader->first_sample(), 27U);
    EXPECT_EQ(reader->bytes_per_entry(), 12U);
    for (auto const& [first, last] : {std::pair{0U, 70U}, {0U, 1U}, {5U, 64U}, {70U, 70U}}) {
      auto const batch = reader->read(first, last);
      EXPECT_EQ(batch.first_sample(), 27 + first);
      EXPECT_EQ(canonical(to_set(batch)), canonical(samples_of(samples, 10 + first, 10 + last)));
    }
    EXPECT_EQ(has_ready<std::uint16_t>(reader->read(0, 70)), is_ready);
    open(); // nobody reads what is read ahead
  }
}

TEST(SampleReaders, SayWhatIsWrongWithSamplesThatAreReadAhead) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const samples = random_samples(4, 90, 20, Values::one_for_all);
  write_sample_file(path, samples);
  auto columns = samples.matrix.column_indices;
  columns.back() = 20;
  test::edit(path, [&](auto& file) { file.set("samples.indices", columns); });
  auto const reader = read_ahead(open_sample_file(path), nullptr);
  expect_holds(sentence_of<InputError>([&] { reader->read(0, 90); }), "has column index 20");
}

TEST(SampleReaders, ReadIntoASetWhereTheMemoryHasNoRoom) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const samples = random_samples(4, 90, 20, Values::floats);
  write_sample_file(path, samples);
  auto const reader = open_sample_file(path);
  reader->read_into(
      std::make_shared<SampleMemory>(SampleMemory::Source{[](std::size_t) -> void* { return nullptr; }, {}}, true));
  auto const batch = reader->read(0, 90);
  EXPECT_FALSE(batch.rows().front().ready);
  EXPECT_EQ(to_set(batch), samples);
}

TEST(SampleReaders, SkipWhatIsNotAskedFor) {
  TemporaryFolder const folder;
  auto const samples = random_samples(4, 500, 20, Values::doubles);
  for (std::string const ending : {".tsv.gz", ".safetensors"}) {
    auto const path = folder / ("samples" + ending);
    save_samples(samples, path);
    auto const reader = open_sample_reader(path, 20, SampleRange{100, 400}, 0);
    EXPECT_EQ(reader->num_samples(), 300U);
    EXPECT_EQ(reader->first_sample(), 100U);
    auto const wanted = samples_of(samples, 100, 400);
    EXPECT_EQ(reader->num_entries(), wanted.matrix.num_entries());
    for (auto const& [first, last] : std::vector<SampleRange>{{3, 5}, {5, 5}, {90, 120}, {250, 251}, {299, 300}})
      expect_part(*reader, wanted, first, last);
  }
}

TEST(SampleReaders, GoOnOverBlocksOfText) {
  TemporaryFolder const folder;
  auto const samples = random_samples(5, 9000, 500, Values::one_for_all);
  save_samples(samples, folder / "images.tsv.zst");
  ASSERT_GT(read_text(folder / "images.tsv.zst").size(), 3 * TextReader::default_block_size);
  auto const reader = open_sample_reader(folder / "images.tsv.zst", 500, std::nullopt, std::size_t{1} << 20);
  for (std::size_t first = 0; first < 9000; first += 1111)
    expect_part(*reader, samples, first, std::min<std::size_t>(first + 1111, 9000));
}

TEST(SampleReaders, TakeUnsortedTextThatFitsAndRefuseTheRest) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "images.tsv", "2\t1\t1\n5\t3\t1\n4\t4\t1\n");
  auto const reader = open_sample_reader(path, 4, std::nullopt, plenty);
  EXPECT_EQ(reader->num_samples(), 5U);
  EXPECT_EQ(to_set(reader->read(3, 5)).matrix.column_indices, (std::vector<NeuronIndex>{3, 2}));
  EXPECT_EQ(sentence_of<InputError>([&] { open_sample_reader(path, 4, std::nullopt, 0); }),
            path.string() +
                ": found image 4 after image 5, expected ascending numbers, for the file is too large to be "
                "sorted in memory");
}

TEST(SampleReaders, NameWhatIsWrong) {
  TemporaryFolder const folder;
  auto const path = folder / "images.tsv";
  for (std::size_t const bytes : {std::size_t{0}, plenty}) {
    write_bytes(path, "1\t1\t1\n1\t5\t1\n");
    expect_holds(sentence_of<InputError>([&] { open_sample_reader(path, 4, std::nullopt, bytes); }),
                 ":2: found pixel \"5\", expected a number from 1 to 4");
    write_bytes(path, "1\t1\t1\n3\t2\t1\n3\t2\t1\n");
    expect_holds(sentence_of<InputError>([&] { open_sample_reader(path, 4, std::nullopt, bytes)->read(0, 3); }),
                 ":3: found image 3, pixel 2 a second time, expected each pair once");
    expect_holds(sentence_of<UsageError>([&] {
                   open_sample_reader(path, 4, SampleRange{3, 9}, bytes);
                 }),
                 "the samples 4:9 were asked for, but " + path.string() + " ends with sample 3");
  }
  save_samples(random_samples(4, 50, 20, Values::floats), folder / "samples.safetensors");
  expect_holds(
      sentence_of<InputError>([&] { open_sample_reader(folder / "samples.safetensors", 21, std::nullopt, plenty); }),
      "holds samples of 20 neurons, the network has 21 inputs");
  expect_holds(sentence_of<UsageError>([&] {
                 open_sample_reader(folder / "samples.safetensors", 20, SampleRange{20, 51}, plenty);
               }),
               "the samples 21:51 were asked for");
}

TEST(SampleReaders, NoticeThatTheTextChangedBetweenItsTwoReadings) {
  TemporaryFolder const folder;
  auto const path = folder / "images.tsv";
  save_samples(random_samples(5, 9000, 500, Values::one_for_all), path);
  auto const text = read_bytes(path);
  ASSERT_GT(text.size(), 3 * TextReader::default_block_size);
  auto other_value = text;
  other_value[text.rfind("0.0625") + 5] = '6';
  auto const middle = text.find('\n', text.size() / 2) + 1;
  for (auto const& later : {text.substr(0, middle), text + "9001\t1\t0.0625\n", other_value, std::string()}) {
    write_bytes(path, text);
    auto const reader = open_sample_reader(path, 500, std::nullopt, 0);
    write_bytes(path, later);
    EXPECT_EQ(sentence_of<InputError>([&] { reader->read(0, 9000); }),
              path.string() + " changed while it was read: its second reading gave another text than its first");
  }
}

/// Samples so many times over, written out.
SampleSet written_out(SampleSet const& samples, std::size_t repetitions) {
  SampleBatch all = samples;
  for (std::size_t repetition = 1; repetition < repetitions; ++repetition) all.append(samples);
  return to_set(all);
}

TEST(SampleReaders, RepeatWhatTheyRead) {
  TemporaryFolder const folder;
  auto const samples = random_samples(4, 90, 20, Values::doubles);
  auto const wanted = samples_of(samples, 10, 40);
  auto const all = written_out(wanted, 5);
  ASSERT_EQ(all.num_samples(), 150U);
  for (std::string const ending : {".tsv.gz", ".safetensors"}) {
    auto const path = folder / ("samples" + ending);
    save_samples(samples, path);
    auto const reader = repeated(open_sample_reader(path, 20, SampleRange{10, 40}, plenty), 5, plenty);
    EXPECT_EQ(reader->num_samples(), 150U);
    EXPECT_EQ(reader->num_neurons(), 20U);
    EXPECT_EQ(reader->num_entries(), all.matrix.num_entries());
    EXPECT_EQ(reader->first_sample(), 10U);
    EXPECT_FALSE(reader->has_one_value());
    for (auto const& [first, last] :
         std::vector<SampleRange>{{0, 150}, {0, 30}, {29, 31}, {60, 60}, {61, 62}, {45, 149}, {120, 150}, {150, 150}})
      expect_part(*reader, all, first, last);
  }
}

TEST(SampleReaders, KeepRepeatedSamplesInMemoryOnce) {
  auto const samples = random_samples(4, 90, 20, Values::one_for_all);
  auto const reader = repeated(std::make_unique<SamplesInMemory>(samples), 1000, plenty);
  EXPECT_EQ(reader->num_samples(), 90000U);
  auto const batch = reader->read(85, 185);
  ASSERT_EQ(batch.rows().size(), 3U);
  for (auto const& rows : batch.rows()) EXPECT_EQ(rows.set, batch.rows().front().set);
  EXPECT_EQ(batch.first_sample(), reader->first_sample() + 85);
  EXPECT_EQ(batch.rows(), reader->read(85 + 90 * 900, 185 + 90 * 900).rows());
}

TEST(SampleReaders, RefuseToRepeatWhatDoesNotFit) {
  auto const reader_of_90 = [] {
    return std::make_unique<SamplesInMemory>(random_samples(4, 90, 20, Values::one_for_all));
  };
  expect_holds(sentence_of<ResourceError>([&] { repeated(reader_of_90(), 2, 100); }), "raise --memory input");
  EXPECT_EQ(repeated(reader_of_90(), 1, 100)->num_samples(), 90U);
  expect_holds(sentence_of<UsageError>([&] { repeated(reader_of_90(), std::size_t{1} << 60U, plenty); }),
               "more than can be counted");
}

TEST(SampleReaders, SayHowManySamplesFit) {
  SamplesInMemory reader(random_samples(4, 300, 20, Values::one_for_all));
  auto const bytes = reader.num_entries() * 4 + 300 * 8;
  EXPECT_EQ(samples_that_fit(reader, bytes), 300U);
  EXPECT_EQ(samples_that_fit(reader, bytes - 1), 99U);
  EXPECT_EQ(samples_that_fit(reader, 0), 1U);
}

TEST(SampleWriters, WriteTheSameBytesInBatchesOfAnySize) {
  TemporaryFolder const folder;
  test::Draw draw;
  for (auto const values : {Values::doubles, Values::one_for_all, Values::floats}) {
    if (!draw.next()) continue;
    auto const samples = random_samples(6, 20000, 30, values);
    for (std::string const ending : {".safetensors", ".tsv"}) {
      auto const whole = folder / ("whole" + ending);
      save_samples(samples, whole);
      for (std::size_t const size : {777U, 16384U}) {
        auto const parts = folder / ("parts" + ending);
        auto const writer = open_sample_writer(parts, 30);
        for (std::size_t first = 0; first < 20000; first += size)
          writer->append(samples_of(samples, first, std::min<std::size_t>(first + size, 20000)));
        writer->commit();
        EXPECT_EQ(read_bytes(parts), read_bytes(whole)) << size << ending;
      }
    }
  }
}

} // namespace
} // namespace varve
