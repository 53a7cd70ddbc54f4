#include "io/open.hpp"

#include "io/files.hpp"
#include "io/random_data.hpp"
#include "io/sample_file.hpp"
#include "io/text_file.hpp"

#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::random_samples;
using test::sentence_about;
using test::sentence_of;
using test::TemporaryFolder;
using test::Values;
using test::write_bytes;

TEST(Labels, WrongClassesAreFound) {
  Labels const labels{{3, 0, 9, 4}, 100};
  EXPECT_NO_THROW(require_classes(labels, 10, "here"));
  EXPECT_NO_THROW(require_classes({}, 1, "here"));
  EXPECT_EQ(sentence_of<InputError>([&] { require_classes(labels, 9, "here"); }),
            "here: sample 103 has the label 9, expected 0 to 8, one of 9 classes");
  EXPECT_EQ(sentence_of<InputError>([&] {
              require_classes({{no_class}, 0}, 9, "here");
            }),
            "here: sample 1 has a label of 4294967295 or more, expected 0 to 8, one of 9 classes");
}

TEST(Labels, TextHasOneClassALine) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "labels.tsv", "# classes\n3\n0\n\n 9\t\r\n% the last\n4");
  EXPECT_EQ(open_labels(path, {0, 4}, OtherSamples::refused), (Labels{{3, 0, 9, 4}, 0}));
  EXPECT_EQ(open_labels(path, {1, 3}, OtherSamples::ignored), (Labels{{0, 9}, 1}));
  EXPECT_EQ(open_labels(path, {4, 4}, OtherSamples::ignored), (Labels{{}, 4}));
  EXPECT_EQ(open_labels(write_bytes(folder / "none", ""), {0, 0}, OtherSamples::refused), Labels{});
  TextWriter compressed(folder / "labels.tsv.gz");
  compressed.write("7\n4294967294\n");
  compressed.commit();
  EXPECT_EQ(open_labels(folder / "labels.tsv.gz", {0, 2}, OtherSamples::refused), (Labels{{7, 4294967294U}, 0}));
}

TEST(Labels, OtherSamplesThanThoseAskedForAreRefused) {
  TemporaryFolder const folder;
  auto const text = write_bytes(folder / "labels.tsv", "3\n0\n9\n4\n");
  auto const read = [](fs::path const& path, SampleRange const& samples, OtherSamples others) {
    return sentence_about(path, [&] { open_labels(path, samples, others); });
  };
  EXPECT_EQ(read(text, {0, 3}, OtherSamples::refused),
            ": found labels of the samples 1:4, expected labels of the samples 1:3");
  EXPECT_EQ(read(text, {0, 5}, OtherSamples::ignored),
            ": found labels of the samples 1:4, expected labels of the samples 1:5");
  EXPECT_EQ(read(write_bytes(folder / "none", "#\n"), {0, 5}, OtherSamples::refused),
            ": found labels of none, expected labels of the samples 1:5");

  auto const path = folder / "samples.safetensors";
  auto samples = random_samples(1, 4, 3, Values::floats);
  samples.first_sample = 100;
  auto const writer = create_sample_file(path, 3);
  writer->append(samples);
  writer->append_labels({{3, 0, 9, 4}, 100});
  writer->commit();
  EXPECT_EQ(open_labels(path, {100, 104}, OtherSamples::refused), (Labels{{3, 0, 9, 4}, 100}));
  EXPECT_EQ(open_labels(path, {102, 103}, OtherSamples::ignored), (Labels{{9}, 102}));
  EXPECT_EQ(read(path, {102, 103}, OtherSamples::refused),
            ": found labels of the samples 101:104, expected labels of the samples 103:103");
  EXPECT_EQ(read(path, {0, 4}, OtherSamples::ignored),
            ": found labels of the samples 101:104, expected labels of the samples 1:4");
}

TEST(Labels, WrongLinesAreNamed) {
  TemporaryFolder const folder;
  auto const read = [&](std::string const& text) {
    auto const path = write_bytes(folder / "labels.tsv", text);
    return sentence_about(path, [&] { open_labels(path, {0, 2}, OtherSamples::refused); });
  };
  std::string const expected = ", expected one class from 0 to 4294967294";
  EXPECT_EQ(read("1\n\ncat\n"), ":3: found \"cat\"" + expected);
  EXPECT_EQ(read("-1\n2\n"), ":1: found \"-1\"" + expected);
  EXPECT_EQ(read("1\n2 3\n"), ":2: found \"2 3\"" + expected);
  EXPECT_EQ(read("1.0\n2\n"), ":1: found \"1.0\"" + expected);
  EXPECT_EQ(read("4294967295\n"), ":1: found \"4294967295\"" + expected);
  EXPECT_EQ(read("99999999999999999999\n"), ":1: found \"99999999999999999999\"" + expected);
}

TEST(Labels, LinesAreNoNumbersInAMissingFile) {
  TemporaryFolder const folder;
  auto const path = folder / "missing.tsv";
  EXPECT_NE(sentence_about(path, [&] { open_labels(path, {0, 1}, OtherSamples::refused); }), "");
}

} // namespace
} // namespace varve
