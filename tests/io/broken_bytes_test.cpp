#include "io/files.hpp"
#include "io/hdf5.hpp"
#include "io/idx.hpp"
#include "io/labels.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/sample_file.hpp"
#include "io/targets.hpp"
#include "io/text_file.hpp"

#include <random>
#include <string>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::Values;
using testing::write_bytes;

/// Reads what may be broken: it either works or throws an error of ours.
template <class Read>
bool is_refused(Read const& read) {
  try {
    read();
  } catch (Error const& error) {
    EXPECT_NE(std::string(error.what()), "");
    return true;
  }
  return false;
}

/// Number of files, groups, datasets, types and attributes that nobody closed.
std::ptrdiff_t num_open_objects() {
  auto const lock = hdf5::lock();
  return H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL);
}

void read_network(fs::path const& path) { load(*open_network(path)); }
void read_samples(fs::path const& path) { open_samples(path, 12, SampleRange{0, 8}); }
void read_answers(fs::path const& path) {
  require_classes(open_labels(path, {0, 8}, OtherSamples::refused), 8, path.string());
  open_targets(path, 3, {0, 8}, OtherSamples::refused)->read(0, 8);
}

/// Writes samples with labels and targets.
void save_answers(fs::path const& path) {
  SampleFileWriter writer(path, 12);
  writer.append(testing::random_samples(3, 8, 12, Values::doubles));
  writer.append_labels({{0, 1, 2, 3, 4, 5, 6, 7}, 0});
  writer.append_targets(testing::random_samples(4, 8, 3, Values::doubles));
  writer.commit();
}

/// Flips some bits of a file, a few hundred times over, and reads each result.
template <class Read>
void read_flipped(fs::path const& path, std::uint64_t seed, Read const& read) {
  auto const bytes = read_bytes(path);
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<std::size_t> place(0, bytes.size() - 1);
  std::uniform_int_distribution<int> bit(0, 7);
  std::uniform_int_distribution<int> count(1, 3);
  for (int turn = 0; turn < 400; ++turn) {
    auto changed = bytes;
    for (int flips = count(generator); flips > 0; --flips) {
      auto& letter = changed[place(generator)];
      letter = static_cast<char>(letter ^ (1 << bit(generator)));
    }
    write_bytes(path, changed);
    is_refused([&] { read(path); });
  }
}

/// Cuts a file at many lengths and expects each piece to be refused.
template <class Read>
void refuse_truncated(fs::path const& path, std::size_t step, Read const& read) {
  auto const bytes = read_bytes(path);
  for (std::size_t length = 0; length < bytes.size(); length += step) {
    write_bytes(path, bytes.substr(0, length));
    ASSERT_TRUE(is_refused([&] { read(path); })) << path << " cut at " << length << " of " << bytes.size();
  }
}

TEST(BrokenBytes, TruncatedHdf5FilesAreRefused) {
  TemporaryFolder const folder;
  save_network(testing::random_network(3), folder / "net.safetensors");
  refuse_truncated(folder / "net.safetensors", 101, read_network);
  save_samples(testing::random_samples(3, 8, 12, Values::doubles), folder / "samples.safetensors");
  refuse_truncated(folder / "samples.safetensors", 7, read_samples);
  save_answers(folder / "answers.safetensors");
  refuse_truncated(folder / "answers.safetensors", 101, read_answers);
}

TEST(BrokenBytes, TruncatedCompressedTextIsRefused) {
  TemporaryFolder const folder;
  for (std::string const ending : {".gz", ".xz", ".zst"}) {
    auto const path = folder / ("samples.tsv" + ending);
    save_samples(testing::random_samples(3, 8, 12, Values::doubles), path);
    refuse_truncated(path, 1, read_samples);
  }
}

TEST(BrokenBytes, FlippedBitsInHdf5FilesNeverCrash) {
  TemporaryFolder const folder;
  save_network(testing::random_challenge_network(3, 12, 2, Values::doubles), folder / "net.safetensors");
  read_flipped(folder / "net.safetensors", 11, read_network);
  save_samples(testing::random_samples(3, 8, 12, Values::doubles), folder / "samples.safetensors");
  read_flipped(folder / "samples.safetensors", 12, read_samples);
  save_answers(folder / "answers.safetensors");
  read_flipped(folder / "answers.safetensors", 14, read_answers);
  EXPECT_EQ(num_open_objects(), 0);
}

/// Writes two images of 3 x 4 pixels, or two labels, as IDX.
void save_idx(fs::path const& path, bool are_images) {
  std::string bytes = {0, 0, 8, static_cast<char>(are_images ? 3 : 1), 0, 0, 0, 2};
  if (are_images) bytes += std::string({0, 0, 0, 3, 0, 0, 0, 4}) + std::string(24, '\x7f');
  if (!are_images) bytes += "ab";
  TextWriter file(path);
  file.write(bytes);
  file.commit();
}
void read_idx_images(fs::path const& path) { open_idx_images(path)->read(0, 2); }
void read_labels(fs::path const& path) { open_labels(path, {0, 2}, OtherSamples::refused); }

TEST(BrokenBytes, BrokenIdxFilesNeverCrash) {
  TemporaryFolder const folder;
  for (std::string const ending : {"", ".gz", ".zst"}) {
    auto const images = folder / ("images" + ending);
    auto const labels = folder / ("labels" + ending);
    save_idx(images, true);
    refuse_truncated(images, 1, read_idx_images);
    save_idx(images, true);
    read_flipped(images, 15, read_idx_images);
    save_idx(labels, false);
    refuse_truncated(labels, 1, read_labels);
    save_idx(labels, false);
    read_flipped(labels, 16, read_labels);
  }
}

TEST(BrokenBytes, FlippedBitsInTextNeverCrash) {
  TemporaryFolder const folder;
  for (std::string const ending : {"", ".gz", ".xz", ".zst"}) {
    auto const path = folder / ("samples.tsv" + ending);
    save_samples(testing::random_samples(3, 8, 12, Values::doubles), path);
    read_flipped(path, 13, read_samples);
  }
}

} // namespace
} // namespace varve
