#include "io/challenge.hpp"
#include "io/files.hpp"
#include "io/growing_matrix.hpp"
#include "io/hdf5_edit.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/sample_file.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

/// Labels and targets in sample files.
namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::random_samples;
using testing::read_bytes;
using testing::sentence_about;
using testing::sentence_of;
using testing::TemporaryFolder;
using testing::Values;

constexpr SampleIndex first_sample = 1000;

SampleSet samples_numbered(std::uint64_t seed, std::size_t num_samples, std::size_t neurons) {
  auto samples = random_samples(seed, num_samples, neurons, Values::doubles);
  samples.first_sample = first_sample;
  return samples;
}

Labels some_labels(std::size_t num_samples) {
  Labels labels{{}, first_sample};
  for (std::size_t sample = 0; sample < num_samples; ++sample)
    labels.classes.push_back(static_cast<NeuronIndex>(sample * sample % 11));
  return labels;
}

/// Writes samples with labels and targets in batches of this size.
void write_answers(fs::path const& path, SampleSet const& samples, Labels const& labels, SampleSet const& targets,
                   std::size_t batch_size) {
  SampleFileWriter writer(path, samples.num_neurons());
  for (std::size_t first = 0; first < samples.num_samples(); first += batch_size) {
    auto const last = std::min(first + batch_size, samples.num_samples());
    writer.append_labels(labels_of(labels, first, last));
    writer.append(samples_of(samples, first, last));
    writer.append_targets(samples_of(targets, first, last));
  }
  writer.commit();
}

TEST(SampleAnswers, LabelsAndTargetsAndTheirRangesComeBack) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const samples = samples_numbered(1, 100, 30);
  auto const targets = samples_numbered(2, 100, 7);
  auto const labels = some_labels(100);
  write_answers(path, samples, labels, targets, 100);
  auto const header = read_sample_header(path);
  EXPECT_TRUE(header.has_labels);
  EXPECT_EQ(header.num_targets, 7U);
  EXPECT_EQ(read_sample_file(path), samples);
  EXPECT_EQ(read_sample_labels(path), labels);
  for (auto const& [first, last] :
       {SampleRange{0, 100}, SampleRange{17, 60}, SampleRange{99, 100}, SampleRange{50, 50}}) {
    SampleRange const range{first_sample + first, first_sample + last};
    EXPECT_EQ(read_sample_labels(path, range), labels_of(labels, first, last));
    SampleFileReader reader(path, range, SamplePart::targets);
    EXPECT_EQ(reader.num_neurons(), 7U);
    EXPECT_EQ(reader.first_sample(), range.first);
    auto const expected = samples_of(targets, first, last);
    EXPECT_EQ(reader.num_entries(), expected.matrix.num_entries());
    EXPECT_EQ(reader.read_set(0, last - first), expected);
  }
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(SampleAnswers, BatchesGrowIntoTheSameContent) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  constexpr std::size_t num_samples = 70000; // more labels than a block holds
  SampleSet samples{{num_samples, 3, std::vector<EdgeOffset>(num_samples + 1, 0), {}, {0.0}}, first_sample};
  auto const targets = samples_numbered(2, num_samples, 2);
  for (std::size_t const batch_size : {std::size_t{4099}, num_samples}) {
    write_answers(path, samples, some_labels(num_samples), targets, batch_size);
    EXPECT_TRUE(read_sample_file(path) == samples);
    EXPECT_TRUE(read_sample_labels(path) == some_labels(num_samples));
    EXPECT_TRUE(SampleFileReader(path, std::nullopt, SamplePart::targets).read_set(0, num_samples) == targets);
  }
}

TEST(SampleAnswers, AFileWithoutSamplesMayHaveLabels) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  SampleFileWriter writer(path, 3);
  writer.append_labels({});
  writer.append_targets({{0, 2, {0}, {}, {}}, 0});
  writer.commit();
  EXPECT_TRUE(read_sample_header(path).has_labels);
  EXPECT_EQ(read_sample_header(path).num_targets, 2U);
  EXPECT_EQ(read_sample_labels(path), Labels{});
}

TEST(SampleAnswers, FilesWithoutThemSaySo) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  write_sample_file(path, samples_numbered(1, 10, 4));
  EXPECT_FALSE(read_sample_header(path).has_labels);
  EXPECT_EQ(read_sample_header(path).num_targets, std::nullopt);
  EXPECT_EQ(sentence_about(path, [&] { read_sample_labels(path); }),
            " has no labels, expected a dataset \"labels\" with the class of each sample (varve convert --labels adds "
            "one)");
  EXPECT_EQ(sentence_about(path, [&] { SampleFileReader(path, std::nullopt, SamplePart::targets); }),
            " has no targets, expected a group \"targets\" with the wanted outputs of each sample (varve convert "
            "--targets adds one)");
}

TEST(SampleAnswers, EachSampleNeedsOne) {
  TemporaryFolder const folder;
  auto const samples = samples_numbered(1, 10, 4);
  {
    SampleFileWriter writer(folder / "samples.safetensors", 4);
    writer.append(samples);
    writer.append_labels(some_labels(9));
    EXPECT_THROW(writer.commit(), std::logic_error);
    EXPECT_THROW(writer.append_labels({{1}, first_sample + 10}), std::logic_error);
  }
  {
    SampleFileWriter writer(folder / "samples.safetensors", 4);
    writer.append(samples);
    writer.append_targets(samples_numbered(2, 11, 2));
    EXPECT_THROW(writer.commit(), std::logic_error);
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(SampleAnswers, TextHasNoPlaceForThem) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.tsv";
  auto const writer = open_sample_writer(path, 4);
  EXPECT_EQ(sentence_of<UsageError>([&] { writer->append_labels(some_labels(1)); }),
            path.string() + " is text, which has no place for labels; expected .safetensors, or --samples-only");
  EXPECT_EQ(sentence_of<UsageError>([&] { writer->append_targets(samples_numbered(1, 2, 2)); }),
            path.string() + " is text, which has no place for targets; expected .safetensors, or --samples-only");
}

/// The sentence about a file of two samples after a change to it.
template <class Change, class Read>
std::string sentence_after(Change const& change, Read const& read) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const samples = samples_numbered(1, 2, 3);
  write_answers(path, samples, {{0, 1}, first_sample}, {{2, 2, {0, 1, 2}, {0, 1}, {0.5, 1.5}}, first_sample}, 2);
  change(path);
  return sentence_about(path, [&] { read(path); });
}

TEST(SampleAnswers, BrokenOnesAreNamed) {
  auto const read_all = [](fs::path const& path) {
    read_sample_labels(path);
    SampleFileReader(path, std::nullopt, SamplePart::targets).read_set(0, 2);
  };
  EXPECT_EQ(
      sentence_after([](auto const& path) { testing::replace_list(path, "labels", H5T_STD_U8LE, {1}); }, read_all),
      ": found 1 labels for 2 samples, expected one for each");
  EXPECT_EQ(sentence_after(
                [](auto const& path) {
                  testing::replace_list(path, "labels", H5T_STD_U8LE, {1, 2, 3});
                },
                read_all),
            ": found 3 labels for 2 samples, expected one for each");
  EXPECT_EQ(sentence_after(
                [](auto const& path) {
                  testing::replace_list(path, "labels", H5T_STD_I32LE, {1, -2});
                },
                read_all),
            ": labels: found -2 at position 1, expected no negative number");
  EXPECT_EQ(sentence_after(
                [](auto const& path) {
                  testing::replace_list(path, "labels", H5T_IEEE_F32LE, {1, 2});
                },
                read_all),
            ": labels: found a type that is no integer, expected integers");
  EXPECT_EQ(sentence_after(
                [](auto const& path) {
                  testing::remove_link(path, "labels");
                  auto const lock = hdf5::lock();
                  hdf5::create_group(testing::open_to_edit(path).id(), "labels", path);
                },
                read_all)
                .find(": the dataset \"labels\" cannot be read"),
            0U);
  EXPECT_EQ(sentence_after(
                [](auto const& path) {
                  testing::replace_list(path, "targets/values", H5T_IEEE_F32LE, {1, std::nan("")});
                },
                read_all),
            ": targets: entry 1 has the value nan, expected a finite number");
  EXPECT_EQ(sentence_after([](auto const& path) { testing::remove_link(path, "targets/values"); }, read_all),
            ": targets: found no dataset \"values\", expected one");
}

/// Gives samples the targets of another number of samples.
void replace_targets(fs::path const& path) {
  testing::remove_link(path, "targets");
  auto const lock = hdf5::lock();
  auto const file = testing::open_to_edit(path);
  GrowingMatrix targets(file.id(), "targets", 2, path);
  targets.append({{3, 2, {0, 1, 2, 2}, {0, 1}, {0.5, 1.5}}, 0});
  targets.finish();
}

TEST(SampleAnswers, AWrongNumberOfTargetsStopsEveryReader) {
  for (auto const part : {SamplePart::samples, SamplePart::targets}) {
    EXPECT_EQ(sentence_after(replace_targets, [&](auto const& path) { SampleFileReader(path, std::nullopt, part); }),
              ": found 3 targets for 2 samples, expected one for each");
  }
}

TEST(SampleAnswers, LabelsBeyondAllClassesAreNoClass) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const samples = samples_numbered(1, 2, 3);
  write_answers(path, samples, {{0, 1}, first_sample}, {{2, 2, {0, 0, 0}, {}, {}}, first_sample}, 2);
  testing::replace_list(path, "labels", H5T_STD_I64LE, {7, 1e15});
  EXPECT_EQ(read_sample_labels(path), (Labels{{7, no_class}, first_sample}));
}

TEST(SampleAnswers, DamagedBytesAreNoticed) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  SampleFileWriter writer(path, 3);
  auto const samples = samples_numbered(1, 2000, 3);
  writer.append(samples);
  writer.append_labels(some_labels(2000));
  writer.commit();
  haddr_t place = 0;
  {
    testing::StoredDataset const labels(path, "labels");
    hsize_t size = 0;
    hsize_t const origin = 0;
    unsigned mask = 0;
    ASSERT_GE(H5Dget_chunk_info_by_coord(labels.id(), &origin, &mask, &place, &size), 0);
  }
  auto bytes = read_bytes(path);
  bytes[place + 5] = static_cast<char>(bytes[place + 5] ^ 1);
  testing::write_bytes(path, bytes);
  EXPECT_NE(
      sentence_about(path, [&] { read_sample_labels(path); }).find(": labels: found a chunk that does not inflate"),
      std::string::npos);
}

} // namespace
} // namespace varve
