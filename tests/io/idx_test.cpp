#include "io/foreign_files.hpp"

#include "io/files.hpp"
#include "io/open.hpp"
#include "io/text_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::sentence_about;
using test::sentence_of;
using test::TemporaryFolder;
using test::write_bytes;

/// The bytes of an IDX file.
std::string idx(std::vector<std::uint32_t> const& dimensions, std::string const& elements, char type = 8) {
  std::string bytes = {0, 0, type, static_cast<char>(dimensions.size())};
  for (auto const dimension : dimensions) {
    for (int const shift : {24, 16, 8, 0}) bytes += static_cast<char>(dimension >> shift & 0xffU);
  }
  return bytes + elements;
}

/// Four images of 2 x 3 pixels; the second is black.
std::string const pixels = {0, 1, 0, 0, 0, 127, 0, 0, 0, 0, 0,      0, //
                            5, 6, 7, 8, 9, 10,  0, 0, 0, 0, '\xff', 0};

SampleSet all_of(SampleReader& reader) { return to_set(reader.read(0, reader.num_samples())); }

TEST(Idx, ImagesBecomeSamples) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "images", idx({4, 2, 3}, pixels));
  EXPECT_TRUE(is_idx(path));
  auto const reader = open_idx_images(path);
  EXPECT_EQ(reader->num_samples(), 4U);
  EXPECT_EQ(reader->num_neurons(), 6U);
  EXPECT_EQ(reader->num_entries(), 9U);
  EXPECT_EQ(reader->first_sample(), 0U);
  EXPECT_FALSE(reader->has_one_value());
  auto const samples = all_of(*reader);
  require_valid(samples.matrix, "images");
  EXPECT_EQ(samples.matrix.row_pointers, (std::vector<EdgeOffset>{0, 2, 2, 8, 9}));
  EXPECT_EQ(samples.matrix.column_indices, (std::vector<NeuronIndex>{1, 5, 0, 1, 2, 3, 4, 5, 4}));
  EXPECT_EQ(samples.matrix.values[0], double(1.0F / 255.0F));
  EXPECT_EQ(samples.matrix.values[1], double(127.0F / 255.0F));
  EXPECT_EQ(samples.matrix.values.back(), 1.0);
  auto const raw = all_of(*open_idx_images(path, std::nullopt, PixelScale::raw));
  EXPECT_EQ(raw.matrix.values, (std::vector<double>{1, 127, 5, 6, 7, 8, 9, 10, 255}));
  EXPECT_EQ(open_samples(path, 6), samples);
  EXPECT_EQ(open_samples(path, std::nullopt), samples);
  EXPECT_TRUE(holds_samples(path));
}

TEST(Idx, PartsAndRangesAreThoseOfTheWhole) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "images", idx({4, 2, 3}, pixels));
  auto const all = open_samples(path, 6);
  for (auto const& [first, last] : {SampleRange{0, 4}, SampleRange{1, 2}, SampleRange{2, 4}, SampleRange{3, 3}}) {
    auto const reader = open_idx_images(path, SampleRange{first, last});
    auto expected = samples_of(all, first, last);
    EXPECT_EQ(reader->num_entries(), expected.matrix.num_entries());
    make_iso_if_equal(expected.matrix);
    EXPECT_EQ(all_of(*reader), expected);
    EXPECT_EQ(open_samples(path, 6, SampleRange{first, last}), expected);
  }
  auto const reader = open_idx_images(path);
  EXPECT_EQ(to_set(reader->read(2, 4)), samples_of(all, 2, 4));
  EXPECT_EQ(to_set(reader->read(0, 3)), samples_of(all, 0, 3)); // again from the start
  EXPECT_EQ(reader->read(4, 4).num_samples(), 0U);
  EXPECT_EQ(sentence_of<UsageError>([&] {
              open_idx_images(path, SampleRange{2, 5});
            }),
            "the samples 3:5 were asked for, but " + path.string() + " holds the samples 1:4");
}

TEST(Idx, ImagesMayBeLargerThanABuffer) {
  TemporaryFolder const folder;
  constexpr std::uint32_t num_pixels = 300000;
  std::string elements(2 * num_pixels, '\0');
  elements[num_pixels - 1] = 9;
  elements[num_pixels + 270000] = 9;
  auto const path = write_bytes(folder / "images", idx({2, num_pixels}, elements));
  auto const reader = open_idx_images(path);
  EXPECT_TRUE(reader->has_one_value());
  auto const samples = all_of(*reader);
  EXPECT_EQ(samples.matrix.column_indices, (std::vector<NeuronIndex>{num_pixels - 1, 270000}));
  EXPECT_EQ(samples.matrix.values, std::vector<double>{double(9.0F / 255.0F)});
}

TEST(Idx, CompressedFilesAndThoseWithoutItemsAreRead) {
  TemporaryFolder const folder;
  for (std::string const ending : {".gz", ".xz", ".zst"}) {
    auto const path = folder / ("images" + ending);
    TextWriter file(path);
    file.write(idx({4, 2, 3}, pixels));
    file.commit();
    EXPECT_TRUE(is_idx(path));
    EXPECT_EQ(open_idx_images(path)->num_entries(), 9U);
  }
  auto const none = write_bytes(folder / "none", idx({0, 2, 3}, ""));
  EXPECT_EQ(all_of(*open_idx_images(none)).num_neurons(), 6U);
  EXPECT_EQ(read_idx_labels(write_bytes(folder / "no-labels", idx({0}, ""))), Labels{});
  EXPECT_FALSE(is_idx(write_bytes(folder / "text", "1\t2\t1\n")));
  EXPECT_FALSE(is_idx(write_bytes(folder / "empty", "")));
}

TEST(Idx, LabelsAreBytes) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "labels", idx({5}, std::string("\x03\x00\x09\xff\x04", 5)));
  EXPECT_EQ(num_idx_labels(path), 5U);
  EXPECT_EQ(read_idx_labels(path), (Labels{{3, 0, 9, 255, 4}, 0}));
  EXPECT_EQ(read_idx_labels(path, SampleRange{1, 3}), (Labels{{0, 9}, 1}));
  EXPECT_EQ(open_labels(path, {0, 5}, OtherSamples::refused), read_idx_labels(path));
  EXPECT_EQ(open_labels(path, {2, 4}, OtherSamples::ignored), (Labels{{9, 255}, 2}));
  EXPECT_EQ(sentence_about(path,
                           [&] {
                             open_labels(path, {0, 4}, OtherSamples::refused);
                           }),
            ": found labels of the samples 1:5, expected labels of the samples 1:4");
}

TEST(Idx, BrokenFilesAreNamed) {
  TemporaryFolder const folder;
  auto const path = folder / "images";
  auto const sentence = [&](std::string const& bytes) {
    write_bytes(path, bytes);
    return sentence_about(path, [&] { open_samples(path, 6); });
  };
  auto const whole = idx({4, 2, 3}, pixels);
  EXPECT_EQ(sentence(whole.substr(0, 15)), ": found an end within the header of an IDX file, expected all of it");
  EXPECT_EQ(sentence(whole.substr(0, 2)), ": found an end within the header of an IDX file, expected all of it");
  EXPECT_EQ(sentence(whole.substr(0, whole.size() - 1)),
            ": found an end after 3 items, expected 4 items of 2 x 3 bytes as its header says");
  EXPECT_EQ(sentence(whole + '\0'),
            ": found bytes behind the last item, expected 4 items of 2 x 3 bytes as its header says");
  EXPECT_EQ(sentence(idx({4, 2, 3}, pixels, 0x0d)),
            ": found elements of the IDX type 0x0d, expected 0x08, unsigned bytes");
  EXPECT_EQ(sentence(idx({}, "")),
            ": found an IDX file without dimensions, expected 1 for labels, 2 or more for images");
  EXPECT_EQ(sentence(idx({4}, "abcd")),
            ": found an IDX file of one dimension, which holds labels, expected two or more dimensions for images");
  EXPECT_EQ(sentence(idx({4, 0, 3}, "")), ": found items of 0 x 3 bytes, expected 1 to 4294967295 bytes");
  EXPECT_EQ(sentence(idx({1, 0xffffffffU, 0xffffffffU, 0xffffffffU}, "")),
            ": found items of 4294967295 x 4294967295 x 4294967295 bytes, expected 1 to 4294967295 bytes");
  EXPECT_EQ(sentence(idx({0xffffffffU, 0xffffffffU}, "abc")),
            ": found an end after 0 items, expected 4294967295 items of 4294967295 bytes as its header says");
  EXPECT_EQ(sentence(idx({12, 2}, pixels)), " holds samples of 2 neurons, the network has 6 inputs");
}

TEST(Idx, BrokenLabelsAreNamed) {
  TemporaryFolder const folder;
  auto const path = folder / "labels";
  auto const sentence = [&](std::string const& bytes) {
    write_bytes(path, bytes);
    return sentence_about(path, [&] { open_labels(path, {0, 3}, OtherSamples::refused); });
  };
  EXPECT_EQ(sentence(idx({3}, "ab")), ": found an end after 2 items, expected 3 items of 1 bytes as its header says");
  EXPECT_EQ(sentence(idx({3}, "abcd")),
            ": found bytes behind the last item, expected 3 items of 1 bytes as its header says");
  EXPECT_EQ(sentence(idx({0xffffffffU}, "abcd")),
            ": found labels of the samples 1:4294967295, expected labels of the samples 1:3");
  EXPECT_EQ(sentence(idx({3, 1}, "abc")),
            ": found an IDX file of 2 dimensions, which holds images, expected one dimension for labels");
}

} // namespace
} // namespace varve
