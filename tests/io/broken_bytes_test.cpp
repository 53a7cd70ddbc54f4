#include "io/files.hpp"
#include "io/foreign_files.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/text_file.hpp"

#include <random>
#include <string>

/// Text and IDX, plain and compressed; containers have damaged_files_test.cpp.
namespace varve {
namespace {

namespace fs = std::filesystem;
using test::read_bytes;
using test::TemporaryFolder;
using test::Values;
using test::write_bytes;

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

void read_samples(fs::path const& path) { open_samples(path, 12, SampleRange{0, 8}); }

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
void refuse_truncated(fs::path const& path, Read const& read) {
  auto const bytes = read_bytes(path);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    write_bytes(path, bytes.substr(0, length));
    ASSERT_TRUE(is_refused([&] { read(path); })) << path << " cut at " << length << " of " << bytes.size();
  }
}

TEST(BrokenBytes, TruncatedCompressedTextIsRefused) {
  TemporaryFolder const folder;
  for (std::string const ending : {".gz", ".xz", ".zst"}) {
    auto const path = folder / ("samples.tsv" + ending);
    save_samples(test::random_samples(3, 8, 12, Values::doubles), path);
    refuse_truncated(path, read_samples);
  }
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
    refuse_truncated(images, read_idx_images);
    save_idx(images, true);
    read_flipped(images, 15, read_idx_images);
    save_idx(labels, false);
    refuse_truncated(labels, read_labels);
    save_idx(labels, false);
    read_flipped(labels, 16, read_labels);
  }
}

TEST(BrokenBytes, FlippedBitsInTextNeverCrash) {
  TemporaryFolder const folder;
  for (std::string const ending : {"", ".gz", ".xz", ".zst"}) {
    auto const path = folder / ("samples.tsv" + ending);
    save_samples(test::random_samples(3, 8, 12, Values::doubles), path);
    read_flipped(path, 13, read_samples);
  }
}

} // namespace
} // namespace varve
