#include "io/npy.hpp"

#include "io/files.hpp"
#include "io/labels.hpp"
#include "io/npy_bytes.hpp"
#include "io/open.hpp"
#include "io/targets.hpp"
#include "io/text_file.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace varve {
namespace {

using testing::expect_holds;
using testing::npy;
using testing::npy_of;
using testing::sentence_about;
using testing::sentence_of;
using testing::TemporaryFolder;
using testing::write_bytes;

/// Three rows of four numbers; the second is zero.
std::vector<float> const numbers = {0, 1.5F, 0, -2, 0, 0, 0, 0, 3, 0, 0, 4};
SparseMatrix const expected = {3, 4, {0, 2, 2, 4}, {1, 3, 0, 3}, {1.5, -2, 3, 4}};

SampleSet all_of(SampleReader& reader) { return to_set(reader.read(0, reader.num_samples())); }

TEST(Npy, RowsBecomeSamples) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "x.npy", npy("<f4", {3, 4}, numbers));
  EXPECT_TRUE(is_npy(path));
  EXPECT_TRUE(holds_samples(path));
  EXPECT_EQ(read_npy_matrix(path), expected);
  EXPECT_EQ(open_samples(path, 4), (SampleSet{expected, 0}));
  EXPECT_EQ(open_samples(path, std::nullopt), (SampleSet{expected, 0}));
  auto const reader = open_sample_reader(path, 4, std::nullopt, 1 << 20);
  EXPECT_EQ(reader->num_entries(), 4U);
  EXPECT_FALSE(reader->has_one_value());
  EXPECT_EQ(to_set(reader->read(2, 3)), (SampleSet{rows_of(expected, 2, 3), 2}));
  EXPECT_EQ(all_of(*reader), (SampleSet{expected, 0})); // again from the start
  auto const part = open_npy_samples(path, SampleRange{1, 3});
  EXPECT_EQ(part->num_entries(), 2U);
  EXPECT_EQ(part->first_sample(), 1U);
  EXPECT_EQ(all_of(*part), (SampleSet{rows_of(expected, 1, 3), 1}));
  EXPECT_EQ(sentence_of<UsageError>([&] {
              open_npy_samples(path, SampleRange{1, 4});
            }),
            "the samples 2:4 were asked for, but " + path.string() + " holds the samples 1:3");
  EXPECT_EQ(sentence_about(path, [&] { open_samples(path, 5); }),
            " holds samples of 4 neurons, the network has 5 inputs");
}

TEST(Npy, BothOrdersAndAllTypesAreRead) {
  TemporaryFolder const folder;
  std::vector<float> const by_columns = {0, 0, 3, 1.5F, 0, 0, 0, 0, 0, -2, 0, 4};
  auto const fortran = write_bytes(folder / "f.npy", npy("<f4", {3, 4}, by_columns, true));
  EXPECT_EQ(read_npy_matrix(fortran), expected);
  EXPECT_EQ(all_of(*open_npy_samples(fortran, SampleRange{0, 1})), (SampleSet{rows_of(expected, 0, 1), 0}));
  auto const list = [&](std::string const& type, auto const& elements) {
    return read_npy_list(write_bytes(folder / "list.npy", npy(type, {elements.size()}, elements)));
  };
  EXPECT_EQ(list("<f8", std::vector<double>{0.1, -1e300}), (std::vector<double>{0.1, -1e300}));
  EXPECT_EQ(list("<i8", std::vector<std::int64_t>{-5, 1LL << 40}), (std::vector<double>{-5, 1099511627776.0}));
  EXPECT_EQ(list("<u4", std::vector<std::uint32_t>{4294967295U}), (std::vector<double>{4294967295.0}));
  EXPECT_EQ(list("<i2", std::vector<std::int16_t>{-300}), (std::vector<double>{-300}));
  EXPECT_EQ(list("|i1", std::vector<std::int8_t>{-3, 4}), (std::vector<double>{-3, 4}));
  EXPECT_EQ(list("|b1", std::vector<std::uint8_t>{1, 0}), (std::vector<double>{1, 0}));
  std::vector<std::uint16_t> const halves = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000};
  EXPECT_EQ(list("<f2", halves), (std::vector<double>{1, -2, 5.9604644775390625e-08, 65504, 0}));
}

TEST(Npy, EqualValuesAreSharedAndEmptyShapesAreRead) {
  TemporaryFolder const folder;
  auto const ones = write_bytes(folder / "ones.npy", npy("|u1", {2, 3}, std::vector<std::uint8_t>{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(read_npy_matrix(ones).values, std::vector<double>{1});
  EXPECT_TRUE(open_npy_samples(ones, std::nullopt)->has_one_value());
  auto const none = write_bytes(folder / "none.npy", npy("<f4", {0, 3}, std::vector<float>{}));
  EXPECT_EQ(all_of(*open_npy_samples(none, std::nullopt)).num_neurons(), 3U);
  auto const narrow = write_bytes(folder / "narrow.npy", npy("<f4", {3, 0}, std::vector<float>{}));
  EXPECT_EQ(read_npy_matrix(narrow).num_rows, 3U);
}

TEST(Npy, CompressedFilesAreRead) {
  TemporaryFolder const folder;
  TextWriter file(folder / "x.npy.gz");
  file.write(npy("<f4", {3, 4}, numbers));
  file.commit();
  EXPECT_EQ(open_samples(folder / "x.npy.gz", 4).matrix, expected);
}

TEST(Npy, LabelsAndTargets) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "y.npy", npy("<i8", {3}, std::vector<std::int64_t>{7, 0, 5000000000}));
  EXPECT_EQ(open_labels(path, {0, 3}, OtherSamples::refused), (Labels{{7, 0, no_class}, 0}));
  EXPECT_EQ(open_labels(path, {1, 2}, OtherSamples::ignored), (Labels{{0}, 1}));
  EXPECT_EQ(sentence_about(path,
                           [&] {
                             open_labels(path, {0, 2}, OtherSamples::refused);
                           }),
            ": found labels of the samples 1:3, expected labels of the samples 1:2");
  auto const negative = write_bytes(folder / "n.npy", npy("<i4", {2}, std::vector<std::int32_t>{1, -1}));
  EXPECT_EQ(sentence_about(negative,
                           [&] {
                             open_labels(negative, {0, 2}, OtherSamples::refused);
                           }),
            ": found -1 at position 1, expected no negative number");
  auto const reals = write_bytes(folder / "r.npy", npy("<f4", {1}, std::vector<float>{1}));
  EXPECT_EQ(sentence_about(reals,
                           [&] {
                             open_labels(reals, {0, 1}, OtherSamples::refused);
                           }),
            ": found elements of NumPy's type \"<f4\", expected integers");
  auto const targets = write_bytes(folder / "t.npy", npy("<f4", {3, 4}, numbers));
  EXPECT_EQ(all_of(*open_targets(targets, 4, {1, 3}, OtherSamples::ignored)), (SampleSet{rows_of(expected, 1, 3), 1}));
  EXPECT_EQ(sentence_about(targets,
                           [&] {
                             open_targets(targets, 5, {0, 3}, OtherSamples::refused);
                           }),
            " holds targets of 4 neurons, the network has 5 outputs");
}

TEST(Npy, BrokenFilesAreRefusedInSentences) {
  TemporaryFolder const folder;
  auto const sentence = [&](std::string const& bytes) {
    auto const path = write_bytes(folder / "broken.npy", bytes);
    return sentence_about(path, [&] { read_npy_matrix(path); });
  };
  auto const good = npy("<f4", {3, 4}, numbers);
  EXPECT_EQ(sentence(good.substr(0, good.size() - 1)),
            ": found an end after 11 numbers, expected 12 of the shape (3, 4)");
  EXPECT_EQ(sentence(good + "x"), ": found bytes behind the last number, expected 12 numbers of the shape (3, 4)");
  EXPECT_EQ(sentence(good.substr(0, 30)), ": found an end within the header of a NumPy array, expected all of it");
  EXPECT_EQ(sentence(npy("<f4", {12}, numbers)), ": found an array of the shape (12), expected two dimensions");
  expect_holds(sentence(npy(">f4", {3, 4}, numbers)), "NumPy's type \">f4\"");
  expect_holds(sentence(npy("<c8", {3, 4}, numbers)), "lowest byte first");
  expect_holds(sentence(npy_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 1), }", "")),
               "expected one type of numbers");
  expect_holds(sentence(npy_of("{'descr': '<f4', 'shape': (1, 1), }", "")), "no 'fortran_order'");
  expect_holds(sentence(npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1, -1), }", "")),
               "expected one, such");
  expect_holds(sentence(npy("<f4", {std::uint64_t{1} << 31, 2}, std::vector<float>{})), "an end after 0 numbers");
  expect_holds(sentence(npy("<f4", {std::uint64_t{1} << 31, 0}, std::vector<float>{})),
               "found 2147483648 rows for 0 entries");
  expect_holds(sentence(npy("<f4", {std::uint64_t{1} << 40, 0}, std::vector<float>{})),
               "expected no more than 4294967295");
  expect_holds(sentence(npy("<f4", {1, 1}, std::vector<float>{std::numeric_limits<float>::infinity()})), "inf");
}

} // namespace
} // namespace varve
