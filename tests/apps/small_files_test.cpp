#include "apps/shared_folder.hpp"
#include "io/byte_stream.hpp"
#include "io/hdf5_edit.hpp"
#include "io/network_file.hpp"
#include "io/sample_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::succeed;
using ::testing::HasSubstr;
using varve::testing::TemporaryFolder;
using varve::testing::write_bytes;

/// A run of the command that has ended, and the most memory that it or a child of it had at a time.
struct Measured {
  int exit_code = -1;
  std::string err;
  std::uint64_t bytes = 0;
};

Measured measure(std::vector<std::string> words) {
  TemporaryFolder const folder;
  auto const err = (folder / "err").string();
  words.insert(words.begin(), VARVE_COMMAND);
  pid_t const process = test::start(words, (folder / "out").string(), err);
  int status = 0;
  rusage usage{};
  wait4(process, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, varve::testing::read_bytes(err),
          static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

/// Small files that say that they are large. None may cost more than 64 MiB, or 8 times its uncompressed content.
class SmallFiles : public test::SharedFolder<SmallFiles> {
public:
  static void make_files() {
    test::generate_small(good("net.safetensors"), good("img.safetensors"), 2, 20);
    succeed({"convert", good("img.safetensors"), good("img.tsv")});
    usual_ = std::max(measure({"infer", "--network", good("net.safetensors"), "--input", good("img.tsv")}).bytes,
                      measure({"info", good("net.safetensors")}).bytes);
  }

protected:
  static std::string good(std::string const& name) { return path(name); }
  std::string bad(std::string const& name) const { return (bad_ / name).string(); }

  /// The same few bytes many times over, compressed.
  std::string repeated(std::string const& name, std::string const& text, std::size_t bytes) const {
    OutputFile file(bad(name));
    auto const sink = make_byte_sink(file, Compression::zstd);
    std::string block;
    while (block.size() < (std::size_t{1} << 20)) block += text;
    for (std::size_t written = 0; written < bytes; written += block.size()) sink->write(block);
    sink->finish();
    file.commit();
    return bad(name);
  }

  static void expect_refused(std::vector<std::string> const& words, std::string const& part) {
    auto const ended = measure(words);
    EXPECT_EQ(ended.exit_code, 3) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(part));
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_LT(ended.bytes, usual_ + (std::uint64_t{64} << 20)) << "usually " << usual_;
#endif
  }

private:
  static inline std::uint64_t usual_ = 0;
  TemporaryFolder bad_;
};

TEST_F(SmallFiles, OneImageOfALargeNumber) {
  auto const images = write_bytes(bad("big.tsv"), "100000000\t1\t1\n").string();
  expect_refused({"infer", "--network", good("net.safetensors"), "--input", images}, "a text of 14 bytes for 100000000 rows");
  expect_refused({"info", images, "--neurons", "32"}, "a text of 14 bytes for 100000000 rows");
  expect_refused({"convert", images, bad("x.safetensors"), "--neurons", "32"}, "a text of 14 bytes for 100000000 rows");
}

TEST_F(SmallFiles, OneEdgeAgainAndAgain) {
  std::filesystem::create_directory(bad("net"));
  repeated("net/n32-l1.tsv.zst", "1\t1\t1\n", std::size_t{200} << 20);
  expect_refused({"info", bad("net"), "--bias", "-0.2"}, "n32-l1.tsv.zst:2: found input 1, output 1 a second time");
  auto const images = repeated("img.tsv.zst", "1\t1\t1\n", std::size_t{200} << 20);
  expect_refused({"infer", "--network", good("net.safetensors"), "--input", images},
                 "img.tsv.zst:2: found image 1, pixel 1 a second");
}

TEST_F(SmallFiles, OneCategoryAgainAndAgain) {
  auto const truth = repeated("truth.tsv.zst", "1\n", std::size_t{100} << 20);
  expect_refused({"infer", "--network", good("net.safetensors"), "--input", good("img.safetensors"), "--truth", truth},
                 "truth.tsv.zst:2: found sample 1 a second time");
}

TEST_F(SmallFiles, AnEmptyLayerOfManyNeurons) {
  std::filesystem::create_directory(bad("net"));
  write_bytes(bad("net/n200000000-l1.tsv"), "");
  expect_refused({"info", bad("net"), "--bias", "-0.2"}, "a text of 0 bytes for 200000000 rows");
}

TEST_F(SmallFiles, MoreEntriesThanTheMatrixHasPlaces) {
  auto const network = bad("net.safetensors");
  std::filesystem::copy_file(good("net.safetensors"), network);
  varve::testing::replace_text(network, "layers/000000/weights", "binsparse", R"({"version": "0.1", "format": "CSR",
    "shape": [32, 32], "number_of_stored_values": 268435456, "data_types": {"values": "float64"}})");
  for (std::string const name : {"indices_1", "values"}) {
    auto const lock = hdf5::lock();
    auto const file = varve::testing::open_to_edit(network);
    auto const place = "layers/000000/weights/" + name;
    ASSERT_GE(H5Ldelete(file.id(), place.c_str(), H5P_DEFAULT), 0);
    hsize_t const length = hsize_t{1} << 28;
    hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
    hdf5::Dataset const list(
        H5Dcreate2(file.id(), place.c_str(), H5T_STD_U8LE, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_GE(list.id(), 0);
  }
  expect_refused({"info", network}, "268435456 stored values in a matrix of the shape 32 x 32");
}

/// Replaces a list by one number in a chunk of 256 MiB.
void write_large_chunk(std::string const& path, char const* place) {
  auto const lock = hdf5::lock();
  auto const file = varve::testing::open_to_edit(path);
  H5Ldelete(file.id(), place, H5P_DEFAULT);
  hsize_t const length = 1;
  hsize_t const unlimited = H5S_UNLIMITED;
  hsize_t const chunk = hsize_t{1} << 25;
  hdf5::Dataspace const space(H5Screate_simple(1, &length, &unlimited));
  hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(properties.id(), 1, &chunk);
  H5Pset_deflate(properties.id(), 1);
  hdf5::Dataset const list(
      H5Dcreate2(file.id(), place, H5T_IEEE_F64LE, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  double const value = 1.0;
  H5Dwrite(list.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
}

TEST_F(SmallFiles, AChunkThatDecompressesToGigabytes) {
  auto const network = bad("net.safetensors");
  std::filesystem::copy_file(good("net.safetensors"), network);
  pid_t const writer = fork(); // a program that is started counts what the one that starts it has used
  if (writer == 0) {
    write_large_chunk(network, "layers/000000/weights/values");
    _exit(0);
  }
  int status = -1;
  waitpid(writer, &status, 0);
  ASSERT_EQ(status, 0);
  expect_refused({"info", network}, "values: found chunks of 268435456 bytes for 1 elements");
}

} // namespace
} // namespace varve
