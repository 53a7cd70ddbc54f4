#include "io/sample_files.hpp"

#include "io/container_edit.hpp"
#include "io/files.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/sample_reader.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::edit;
using test::expect_holds;
using test::random_samples;
using test::sentence_of;
using test::TemporaryFolder;
using test::Values;

TEST(SampleFile, SamplesAndTheirRangesComeBack) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  for (auto const values : {Values::one_for_all, Values::floats, Values::doubles}) {
    auto samples = random_samples(1, 100, 300, values);
    samples.first_sample = 1000;
    write_sample_file(path, samples);
    EXPECT_EQ(read_sample_file(path), samples);
    for (auto const& [first, last] : {SampleRange{0, 100}, SampleRange{0, 1}, SampleRange{17, 60}, SampleRange{99, 100},
                                      SampleRange{50, 50}, SampleRange{100, 100}}) {
      EXPECT_EQ(read_sample_file(path, SampleRange{1000 + first, 1000 + last}), samples_of(samples, first, last));
    }
    auto const header = read_sample_header(path);
    EXPECT_EQ(header.num_samples, 100U);
    EXPECT_EQ(header.num_neurons, 300U);
    EXPECT_EQ(header.num_entries, samples.matrix.num_entries());
    EXPECT_EQ(header.first_sample, 1000U);
  }
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(SampleFile, FewAndNoEntriesComeBack) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  std::vector<SampleSet> const sets = {
      {{0, 5, {0}, {}, {0.0}}, 0}, {{3, 5, {0, 0, 0, 0}, {}, {0.0}}, 7}, {{2, 5, {0, 1, 1}, {4}, {0.1}}, 0}};
  for (auto const& samples : sets) {
    write_sample_file(path, samples);
    auto const back = read_sample_file(path);
    EXPECT_EQ(back.matrix.row_pointers, samples.matrix.row_pointers);
    EXPECT_EQ(back.matrix.column_indices, samples.matrix.column_indices);
    EXPECT_EQ(back.first_sample, samples.first_sample);
    EXPECT_EQ(back.num_neurons(), 5U);
    EXPECT_TRUE(samples.matrix.num_entries() == 0 || back.matrix.values == samples.matrix.values);
  }
}

/// Writes the parts of a set as batches and reads the file.
SampleSet through_batches(SampleSet const& samples, std::size_t batch_size, fs::path const& path) {
  auto const writer = create_sample_file(path, samples.num_neurons());
  for (std::size_t first = 0; first < samples.num_samples(); first += batch_size) {
    auto batch = samples_of(samples, first, std::min(first + batch_size, samples.num_samples()));
    make_iso_if_equal(batch.matrix);
    writer->append(batch);
  }
  writer->commit();
  return read_sample_file(path);
}

TEST(SampleFile, BatchesGrowIntoTheSameFile) {
  TemporaryFolder const folder;
  for (auto const values : {Values::one_for_all, Values::floats, Values::doubles}) {
    auto samples = random_samples(2, 60, 40, values);
    samples.first_sample = 5;
    for (std::size_t const batch_size : {1U, 7U, 60U}) {
      EXPECT_EQ(through_batches(samples, batch_size, folder / "samples.safetensors"), samples);
    }
  }
}

TEST(SampleFile, ValuesAreWidenedWhenOneDoesNotFit) {
  TemporaryFolder const folder;
  constexpr std::size_t num_samples = 3000;
  SampleSet samples{{num_samples, 50, {0}, {}, {}}, 0};
  for (std::size_t sample = 0; sample < num_samples; ++sample) {
    for (NeuronIndex neuron = 0; neuron < 50; ++neuron) {
      samples.matrix.column_indices.push_back(neuron);
      samples.matrix.values.push_back(sample < 1000 ? 32.0 : sample < 2000 ? 0.5 * neuron : 0.1 * neuron);
    }
    samples.matrix.row_pointers.push_back(samples.matrix.column_indices.size());
  }
  EXPECT_EQ(through_batches(samples, 500, folder / "samples.safetensors"), samples);
}

TEST(SampleFile, BatchesMustFollowEachOther) {
  TemporaryFolder const folder;
  auto const samples = random_samples(3, 10, 8, Values::floats);
  {
    auto const writer = create_sample_file(folder / "samples.safetensors", 8);
    writer->append(samples_of(samples, 0, 5));
    EXPECT_THROW(writer->append(samples_of(samples, 6, 10)), std::logic_error);
    EXPECT_THROW(writer->append(random_samples(3, 10, 9, Values::floats)), std::logic_error);
    auto broken = samples_of(samples, 5, 10);
    broken.matrix.column_indices.back() = 8;
    expect_holds(sentence_of<InputError>([&] { writer->append(broken); }), "has column index 8, expected 0 to 7");
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

template <class Change>
std::string sentence_of_changed_samples(Change const& change) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  write_sample_file(path, {{2, 3, {0, 2, 3}, {0, 2, 1}, {1.0, 2.0, 3.0}}, 0});
  edit(path, change);
  return test::sentence_about(path, [&] { read_sample_file(path); });
}

TEST(SampleFile, WrongDescriptionsAreNamed) {
  auto const with = [](char const* key, test::Json const& value) {
    return sentence_of_changed_samples([&](auto& file) { file.description[key] = value; });
  };
  EXPECT_EQ(with("kind", "network"), ": found the kind \"network\", expected \"samples\"");
  EXPECT_EQ(with("version", 3), ": found the version 3, expected 1");
  EXPECT_EQ(with("version", "1"), ": found the version \"1\", expected 1");
  EXPECT_EQ(with("first_sample", -3), ": found the first_sample -3, expected a whole number from 0");
  EXPECT_EQ(with("first_sample", 1.5), ": found the first_sample 1.5, expected a whole number from 0");
  for (auto const first : {std::numeric_limits<std::uint64_t>::max(), std::numeric_limits<std::uint64_t>::max() - 2}) {
    expect_holds(with("first_sample", first),
                 ": found " + std::to_string(first) + " as the number of the first of 2 samples");
  }
  EXPECT_EQ(with("shape", {2, 3, 1}), ": found the shape [2,3,1], expected [rows, columns]");
  EXPECT_EQ(with("shape", {-2, 3}), ": found the shape [-2,3], expected [rows, columns]");
  EXPECT_EQ(with("shape", {4294967296, 3}), ": found the shape 4294967296 x 3, expected no more than 4294967295");
  EXPECT_EQ(with("shape", {3, 3}), ": samples.pointers: found the shape 3, expected 4");
  EXPECT_EQ(with("neurons", 3),
            ": found the key \"neurons\", expected one of kind, version, shape, first_sample, targets");
  for (char const* const key : {"kind", "version", "shape"}) {
    expect_holds(sentence_of_changed_samples([&](auto& file) { file.description.erase(key); }),
                 std::string(": found the ") + key + " not there, expected ");
  }
}

TEST(SampleFile, WrongArraysAreNamed) {
  auto const with = [](std::string const& name, auto const& numbers) {
    return sentence_of_changed_samples([&](auto& file) { file.set("samples." + name, numbers); });
  };
  using Columns = std::vector<std::uint16_t>;
  using Pointers = std::vector<std::uint64_t>;
  EXPECT_EQ(with("indices", Columns{2, 0, 1}),
            ": samples: row 0 has column index 0 after 2; indices must ascend and be distinct");
  EXPECT_EQ(with("indices", Columns{0, 3, 1}), ": samples: row 0 has column index 3, expected 0 to 2");
  EXPECT_EQ(with("indices", Pointers{0, 2, 1}),
            ": samples.indices: found numbers of the type U64, expected U16 or U32");
  EXPECT_EQ(with("values", std::vector<float>{2, std::nanf(""), 1}),
            ": samples: entry 1 has the value nan, expected a finite number");
  EXPECT_EQ(with("values", std::vector<float>{2, 1}), ": samples.values: found the shape 2, expected 1 or 3");
  EXPECT_EQ(with("pointers", Pointers{1, 2, 3}), ": samples: found the first pointer 1, expected 0");
  EXPECT_EQ(with("pointers", Pointers{0, 2, 2}),
            ": samples: found the last pointer 2, expected 3, the number of entries");
  EXPECT_EQ(with("pointers", Pointers{0, 4, 3}),
            ": samples: found the pointer 3 after 4 at row 1, expected ascending numbers");
  EXPECT_EQ(with("pointers", Columns{0, 2, 3}),
            ": samples.pointers: found numbers of the type U16, expected U32 or U64");
  EXPECT_EQ(with("others", Columns{0}),
            ": found the array \"samples.others\", expected those that its description names");
  for (std::string const name : {"samples.pointers", "samples.indices", "samples.values"}) {
    EXPECT_EQ(sentence_of_changed_samples([&](auto& file) { file.arrays.erase(name); }),
              " has no array \"" + name + "\"");
    expect_holds(sentence_of_changed_samples([&](auto& file) { file.arrays[name].shape.push_back(1); }), "expected");
  }
}

TEST(SampleFile, NarrowAndWideNumbersAreTheSame) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  SampleSet const samples{{2, 3, {0, 2, 3}, {0, 2, 1}, {1.0, 2.0, 3.0}}, 0};
  write_sample_file(path, samples);
  edit(path, [](auto& file) {
    file.set("samples.pointers", std::vector<std::uint32_t>{0, 2, 3});
    file.set("samples.indices", std::vector<std::uint32_t>{0, 2, 1});
    file.set("samples.values", std::vector<double>{1, 2, 3});
    file.description.erase("first_sample");
  });
  EXPECT_EQ(read_sample_file(path), samples);
}

TEST(SampleFile, NamedLikeOneIsNoText) {
  TemporaryFolder const folder;
  auto const path = folder / "x.safetensors";
  for (std::string const content : {"", "1\t2\t1\n", "%%MatrixMarket matrix coordinate real general\n1 1 0\n"}) {
    test::write_bytes(path, content);
    auto const refuse = [&](auto const& read) {
      EXPECT_EQ(test::sentence_about(path, read),
                ": found no safetensors file, expected one by the ending of its name");
    };
    refuse([&] { open_samples(path, 12, std::nullopt); });
    refuse([&] { open_samples(path, 12); });
    refuse([&] { open_sample_reader(path, 12, std::nullopt, 1 << 20U); });
    refuse([&] { open_labels(path, {0, 1}, OtherSamples::refused); });
  }
}

TEST(SampleFile, RangesOutsideTheFileAreRefused) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  write_sample_file(path, random_samples(1, 10, 4, Values::floats));
  EXPECT_EQ(sentence_of<UsageError>([&] {
              read_sample_file(path, SampleRange{5, 11});
            }),
            "the samples 6:11 were asked for, but " + path.string() + " holds the samples 1:10");
  expect_holds(sentence_of<UsageError>([&] { read_sample_file(path, SampleRange{5, 4}); }), "the samples 6:4");
  auto later = random_samples(1, 4, 4, Values::floats);
  later.first_sample = 100;
  write_sample_file(path, later);
  for (auto const& range : {SampleRange{1, 2}, SampleRange{99, 101}, SampleRange{103, 105}}) {
    EXPECT_EQ(sentence_of<UsageError>([&] { read_sample_file(path, range); }),
              fmt::format("the samples {}:{} were asked for, but {} holds the samples 101:104", range.first + 1,
                          range.second, path.string()));
  }
}

} // namespace
} // namespace varve
