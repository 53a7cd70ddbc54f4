#include "io/challenge.hpp"
#include "io/container_edit.hpp"
#include "io/files.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/sample_files.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

/// Labels and targets in sample files.
namespace varve {
namespace {

namespace fs = std::filesystem;
using test::random_samples;
using test::read_bytes;
using test::sentence_about;
using test::sentence_of;
using test::TemporaryFolder;
using test::Values;

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

/// The labels [first, last), counted from the first one.
Labels labels_of(Labels const& labels, std::size_t first, std::size_t last) {
  auto const begin = labels.classes.begin();
  return {{begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last)},
          labels.first_sample + first};
}

/// Writes samples with labels and targets in batches of this size.
void write_answers(fs::path const& path, SampleSet const& samples, Labels const& labels, SampleSet const& targets,
                   std::size_t batch_size) {
  auto const writer = create_sample_file(path, samples.num_neurons());
  for (std::size_t first = 0; first < samples.num_samples(); first += batch_size) {
    auto const last = std::min(first + batch_size, samples.num_samples());
    writer->append_labels(labels_of(labels, first, last));
    writer->append(samples_of(samples, first, last));
    writer->append_targets(samples_of(targets, first, last));
  }
  writer->commit();
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
    auto const reader = open_sample_file(path, range, SamplePart::targets);
    EXPECT_EQ(reader->num_neurons(), 7U);
    EXPECT_EQ(reader->first_sample(), range.first);
    auto const expected = samples_of(targets, first, last);
    EXPECT_EQ(reader->num_entries(), expected.matrix.num_entries());
    EXPECT_EQ(to_set(reader->read(0, last - first)), expected);
  }
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(SampleAnswers, BatchesGrowIntoTheSameContent) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  constexpr std::size_t num_samples = 70000; // more labels than a piece holds
  SampleSet samples{{num_samples, 3, std::vector<EdgeOffset>(num_samples + 1, 0), {}, {}}, first_sample};
  auto const targets = samples_numbered(2, num_samples, 2);
  for (std::size_t const batch_size : {std::size_t{4099}, num_samples}) {
    write_answers(path, samples, some_labels(num_samples), targets, batch_size);
    EXPECT_TRUE(read_sample_file(path) == samples);
    EXPECT_TRUE(read_sample_labels(path) == some_labels(num_samples));
    EXPECT_TRUE(to_set(open_sample_file(path, std::nullopt, SamplePart::targets)->read(0, num_samples)) == targets);
  }
}

TEST(SampleAnswers, AFileWithoutSamplesMayHaveLabels) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const writer = create_sample_file(path, 3);
  writer->append_labels({});
  writer->append_targets({{0, 2, {0}, {}, {}}, 0});
  writer->commit();
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
  EXPECT_EQ(
      sentence_about(path, [&] { read_sample_labels(path); }),
      " has no labels, expected an array \"labels\" with the class of each sample (varve convert --labels adds one)");
  EXPECT_EQ(sentence_about(path, [&] { open_sample_file(path, std::nullopt, SamplePart::targets); }),
            " has no targets, expected the arrays \"targets.*\" with the wanted outputs of each sample (varve convert "
            "--targets adds them)");
}

TEST(SampleAnswers, EachSampleNeedsOne) {
  TemporaryFolder const folder;
  auto const samples = samples_numbered(1, 10, 4);
  {
    auto const writer = create_sample_file(folder / "samples.safetensors", 4);
    writer->append(samples);
    writer->append_labels(some_labels(9));
    EXPECT_THROW(writer->commit(), std::logic_error);
    EXPECT_THROW(writer->append_labels({{1}, first_sample + 10}), std::logic_error);
  }
  {
    auto const writer = create_sample_file(folder / "samples.safetensors", 4);
    writer->append(samples);
    writer->append_targets(samples_numbered(2, 11, 2));
    EXPECT_THROW(writer->commit(), std::logic_error);
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
template <class Change>
std::string sentence_of_changed_answers(Change const& change) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const samples = samples_numbered(1, 2, 3);
  write_answers(path, samples, {{0, 1}, first_sample}, {{2, 2, {0, 1, 2}, {0, 1}, {0.5, 1.5}}, first_sample}, 2);
  test::edit(path, change);
  return sentence_about(path, [&] {
    read_sample_labels(path);
    to_set(open_sample_file(path, std::nullopt, SamplePart::targets)->read(0, 2));
  });
}

TEST(SampleAnswers, BrokenOnesAreNamed) {
  auto const with = [](char const* name, auto const& numbers) {
    return sentence_of_changed_answers([&](auto& file) { file.set(name, numbers); });
  };
  using Classes = std::vector<std::uint32_t>;
  EXPECT_EQ(with("labels", Classes{1}), ": labels: found the shape 1, expected 2");
  EXPECT_EQ(with("labels", Classes{1, 2, 3}), ": labels: found the shape 3, expected 2");
  EXPECT_EQ(with("labels", std::vector<float>{1, 2}), ": labels: found numbers of the type F32, expected U32");
  EXPECT_EQ(with("targets.pointers", std::vector<std::uint64_t>{0, 1, 2, 2}),
            ": targets.pointers: found the shape 4, expected 3");
  EXPECT_EQ(with("targets.values", std::vector<float>{1, std::nanf("")}),
            ": targets: entry 1 has the value nan, expected a finite number");
  EXPECT_EQ(sentence_of_changed_answers([](auto& file) { file.arrays.erase("targets.values"); }),
            " has no array \"targets.values\"");
  EXPECT_EQ(sentence_of_changed_answers([](auto& file) { file.description.erase("targets"); }),
            ": found the array \"targets.indices\", expected those that its description names");
  EXPECT_EQ(sentence_of_changed_answers([](auto& file) { file.description["targets"] = 4294967296; }),
            ": found 4294967296 targets, expected fewer");
}

TEST(SampleAnswers, AWrongNumberOfTargetsStopsEveryReader) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  write_answers(path, samples_numbered(1, 2, 3), {{0, 1}, first_sample}, {{2, 2, {0, 0, 0}, {}, {}}, first_sample}, 2);
  test::edit(path, [](auto& file) { file.set("targets.pointers", std::vector<std::uint64_t>{0, 0, 0, 0}); });
  for (auto const part : {SamplePart::samples, SamplePart::targets}) {
    EXPECT_EQ(sentence_about(path, [&] { open_sample_file(path, std::nullopt, part); }),
              ": targets.pointers: found the shape 4, expected 3");
  }
}

TEST(SampleAnswers, DamagedBytesAreNoticed) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.safetensors";
  auto const writer = create_sample_file(path, 3);
  writer->append(samples_numbered(1, 2000, 3));
  writer->append_labels({std::vector<NeuronIndex>(2000, 0x01020304), first_sample});
  writer->commit();
  auto bytes = read_bytes(path);
  auto const place = bytes.find("\4\3\2\1");
  ASSERT_NE(place, std::string::npos);
  bytes[place + 4 * 1999] = '\5';
  test::write_bytes(path, bytes);
  EXPECT_EQ(sentence_about(path, [&] { read_sample_labels(path); }),
            ": labels: found bytes from 0 on whose SHA-256 is not what the file says, expected the right one; the file "
            "is damaged");
  EXPECT_EQ(read_sample_file(path).num_samples(), 2000U) << "the samples are whole";
}

} // namespace
} // namespace varve
