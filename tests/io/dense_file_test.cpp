#include "io/files.hpp"
#include "io/hdf5_edit.hpp"
#include "io/input_files.hpp"
#include "io/matrix_dataset.hpp"
#include "io/matrix_writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::expect_holds;
using testing::sentence_of;
using testing::TemporaryFolder;

/// Numbers that float cannot hold exactly.
std::vector<double> numbers(std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.1 * static_cast<double>(i) - 3.0;
  return values;
}

/// A file of another program with a dataset of these sizes, in chunks unless `chunk` is 0.
fs::path write_plain(fs::path const& path, std::string const& name, std::vector<hsize_t> const& sizes, hsize_t chunk,
                     std::vector<double> const& values, hid_t stored = H5T_IEEE_F64LE) {
  auto const lock = hdf5::lock();
  bool const is_there = fs::exists(path);
  hdf5::File const file(is_there ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                                 : H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  hdf5::Dataspace const space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
  hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
  std::vector<hsize_t> const chunks(sizes.size(), chunk);
  if (chunk > 0) H5Pset_chunk(properties.id(), static_cast<int>(sizes.size()), chunks.data());
  hdf5::Properties const links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.id(), 1);
  hdf5::Dataset const dataset(
      H5Dcreate2(file.id(), name.c_str(), stored, space.id(), links.id(), properties.id(), H5P_DEFAULT));
  EXPECT_GE(dataset.id(), 0);
  if (!values.empty()) {
    EXPECT_GE(H5Dwrite(dataset.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  }
  return path;
}

/// Gives the root group a binsparse descriptor.
void describe(fs::path const& path, std::string const& format, std::string const& shape) {
  testing::replace_text(path, "/", "binsparse",
                        R"({"binsparse": {"version": "0.1", "format": ")" + format + R"(", "shape": )" + shape +
                            R"(, "number_of_stored_values": 12, "data_types": {"values": "float64"}}})");
}

void expect_blocks(std::string const& name, std::vector<double> const& values, std::uint64_t num_columns) {
  MatrixDataset const matrix(name);
  ASSERT_EQ(matrix.num_columns(), num_columns);
  ASSERT_EQ(matrix.num_rows() * num_columns, values.size());
  for (MatrixBlock const block : {MatrixBlock{0, matrix.num_rows(), 0, num_columns}, MatrixBlock{1, 2, 0, num_columns},
                                  MatrixBlock{0, matrix.num_rows(), 1, 2}, MatrixBlock{2, 1, 3, 1}}) {
    std::vector<float> floats(block.size());
    std::vector<double> doubles(block.size());
    matrix.read(block, floats.data());
    matrix.read(block, doubles.data());
    for (std::uint64_t i = 0; i < block.size(); ++i) {
      auto const place =
          (block.first_row + i / block.num_columns) * num_columns + block.first_column + i % block.num_columns;
      EXPECT_EQ(floats[i], static_cast<float>(values[place]));
      if (matrix.stored() == Precision::double_precision) {
        EXPECT_EQ(doubles[i], values[place]);
      } else {
        EXPECT_EQ(doubles[i], static_cast<double>(static_cast<float>(values[place])));
      }
    }
  }
}

TEST(MatrixDatasets, AreReadInBlocksHoweverTheyAreStored) {
  TemporaryFolder const folder;
  auto const values = numbers(12);
  expect_blocks(write_plain(folder / "contiguous.safetensors", "x", {3, 4}, 0, values), values, 4);
  expect_blocks(write_plain(folder / "chunks.safetensors", "x", {3, 4}, 2, values), values, 4);
  expect_blocks(write_plain(folder / "floats.safetensors", "x", {3, 4}, 2, values, H5T_IEEE_F32LE), values, 4);
  expect_blocks(write_plain(folder / "big-endian.safetensors", "x", {3, 4}, 0, values, H5T_IEEE_F64BE), values, 4);
  auto const list = write_plain(folder / "list.safetensors", "values", {12}, 0, values);
  describe(list, "DMATR", "[3, 4]");
  expect_blocks(list, values, 4);
}

TEST(MatrixDatasets, AreNamedByFileAndDataset) {
  TemporaryFolder const folder;
  auto const path = write_plain(folder / "two.safetensors", "first", {3, 4}, 0, numbers(12));
  write_plain(path, "deep/second", {4, 5}, 0, numbers(20));
  write_plain(path, "list", {7}, 0, numbers(7));
  expect_blocks(path.string() + ":deep/second", numbers(20), 5);
  expect_blocks(path.string(), numbers(12), 4); // the only one of two dimensions in the root group
  write_plain(path, "third", {4, 5}, 0, numbers(20));
  expect_holds(sentence_of<InputError>([&] { MatrixDataset{path.string()}; }), "found 2 datasets of two dimensions");
  write_plain(path, "matrix", {4, 5}, 0, numbers(20));
  expect_blocks(path.string(), numbers(20), 5);
  fs::copy_file(path, folder / "with:colon");
  EXPECT_EQ(parse_matrix_name((folder / "with:colon").string()).dataset, "");
  expect_blocks((folder / "with:colon").string() + ":first", numbers(12), 4);
}

TEST(MatrixDatasets, RefuseWhatIsNoMatrix) {
  TemporaryFolder const folder;
  auto const refuse = [&](std::string const& name, std::string const& part) {
    expect_holds(sentence_of<InputError>([&] { MatrixDataset{(folder / name).string()}; }), part);
  };
  write_plain(folder / "x.safetensors", "cube", {2, 3, 4}, 0, numbers(24));
  write_plain(folder / "x.safetensors", "cubes", {2, 3, 4}, 2, numbers(24));
  write_plain(folder / "x.safetensors", "list", {6}, 0, numbers(6));
  write_plain(folder / "x.safetensors", "whole", {2, 3}, 0, numbers(6), H5T_STD_I32LE);
  write_plain(folder / "x.safetensors", "empty", {0, 3}, 0, {});
  write_plain(folder / "x.safetensors", "group/inside", {2, 3}, 0, numbers(6));
  refuse("x.safetensors:cube", "found a dataset of 3 dimensions, expected 2");
  refuse("x.safetensors:cubes", "found chunks of 3 dimensions");
  refuse("x.safetensors:list", "found a dataset of 1 dimensions, expected 2");
  refuse("x.safetensors:whole", "expected floating point of 32 or 64 bits");
  refuse("x.safetensors:empty", "found a matrix of 0 x 3");
  refuse("x.safetensors:group", "a group without a binsparse descriptor");
  refuse("x.safetensors:none", "found no dataset \"none\"");
  refuse("missing.safetensors", "cannot be read");
  testing::write_bytes(folder / "text.safetensors", "no HDF5");
  refuse("text.safetensors", "is no whole HDF5 file");
  // far more numbers than were ever written
  write_plain(folder / "huge.safetensors", "x", {1U << 20U, 1U << 20U}, 1024, {});
  refuse("huge.safetensors", "were ever written");
}

TEST(MatrixDatasets, RefuseDescriptorsThatDoNotFit) {
  TemporaryFolder const folder;
  auto const path = write_plain(folder / "x.safetensors", "values", {12}, 0, numbers(12));
  auto const refuse = [&](std::string const& format, std::string const& shape, std::string const& part) {
    describe(path, format, shape);
    expect_holds(sentence_of<InputError>([&] { MatrixDataset{path.string()}; }), part);
  };
  refuse("DMATR", "[3, 5]", "found 12 values, expected 3 x 5");
  refuse("DMATR", "[4294967296, 4294967299]", "found 12 values"); // wraps to 12 in 64 bits
  refuse("DMATR", "[12]", "expected two numbers");
  refuse("DMATR", "[-3, -4]", "expected two numbers");
  refuse("CSR", "[3, 4]", "expected \"DMATR\"");
  refuse("DMATC", "[3, 4]", "found \"format\": \"DMATC\" in the binsparse descriptor");
}

TEST(MatrixDatasets, RefuseADamagedIndexOfChunks) {
  TemporaryFolder const folder;
  auto const path = write_plain(folder / "chunks.safetensors", "x", {4, 4}, 2, numbers(16));
  auto bytes = testing::read_bytes(path);
  // The entry of the index for the chunk at row 2, column 0: its bytes, its filters, and its place in 3 dimensions.
  std::array<std::uint64_t, 4> const entry = {2 * 2 * sizeof(double), 2, 0, 0};
  std::string const wanted(reinterpret_cast<char const*>(entry.data()), sizeof(entry));
  auto const place = bytes.find(wanted);
  ASSERT_NE(place, std::string::npos);
  bytes[place + 2 * sizeof(std::uint64_t)] ^= 2; // column 2: now two entries name that chunk, and none this one
  testing::write_bytes(path, bytes);
  MatrixDataset const matrix(path.string());
  std::vector<double> values(16);
  auto const sentence = sentence_of<InputError>([&] { matrix.read({0, 4, 0, 4}, values.data()); });
  expect_holds(sentence, "a chunk of it is not found, though its index lists 4 of 4: the file is damaged");
}

TEST(MatrixDatasets, OfVarveHaveAllTheirChunks) {
  TemporaryFolder const folder;
  auto const path = folder / "holes.safetensors";
  MatrixWriter(path, 4, 4, Precision::double_precision).commit();
  testing::remove_link(path, "matrix");
  write_plain(path, "matrix", {4, 4}, 2, {});
  {
    auto const lock = hdf5::lock();
    auto const file = testing::open_to_edit(path);
    hdf5::Dataset const dataset(H5Dopen2(file.id(), "matrix", H5P_DEFAULT));
    std::array<double, 4> const chunk = {1.0, 1.0, 1.0, 1.0};
    for (hsize_t const column : {0U, 2U}) {
      std::array<hsize_t, 2> const first = {0, column};
      ASSERT_GE(H5Dwrite_chunk(dataset.id(), H5P_DEFAULT, 0, first.data(), sizeof(chunk), chunk.data()), 0);
    }
  }
  MatrixDataset const matrix(path.string());
  std::vector<double> values(16);
  auto const sentence = sentence_of<InputError>([&] { matrix.read({0, 4, 0, 4}, values.data()); });
  expect_holds(sentence, "a chunk of it is not found, though its index lists 2 of 4: the file is damaged");
}

// Of a file without checksums, which a child process tries out first.
TEST(MatrixDatasets, AreReadFromPipes) {
  TemporaryFolder const folder;
  auto const bytes = testing::read_bytes(write_plain(folder / "x.safetensors", "x", {3, 4}, 0, numbers(12)));
  auto const fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (bool const by_input : {false, true}) {
    InputFiles const inputs;
    std::jthread const writer([&] { testing::write_bytes(fifo, bytes); });
    int const before = dup(STDIN_FILENO);
    if (by_input) {
      int const opened = open(fifo.c_str(), O_RDONLY);
      dup2(opened, STDIN_FILENO);
      close(opened);
    }
    EXPECT_NO_THROW(expect_blocks(by_input ? "/dev/stdin" : fifo.string(), numbers(12), 4));
    if (before >= 0) dup2(before, STDIN_FILENO);
    close(before);
  }
}

TEST(MatrixDatasets, HoldFiniteNumbersThatThePrecisionCanHold) {
  TemporaryFolder const folder;
  auto values = numbers(12);
  values[6] = 1e300;
  auto const large = write_plain(folder / "large.safetensors", "x", {3, 4}, 0, values);
  MatrixDataset const matrix(large.string());
  std::vector<float> floats(12);
  std::vector<double> doubles(12);
  EXPECT_NO_THROW(matrix.read({0, 3, 0, 4}, doubles.data()));
  auto const sentence = sentence_of<InputError>([&] { matrix.read({1, 2, 1, 3}, floats.data()); });
  expect_holds(sentence, "found 1e+300 in row 1, column 2 (from 0), expected a finite number that float can hold");
  values[6] = std::numeric_limits<double>::quiet_NaN();
  MatrixDataset const broken(write_plain(folder / "nan.safetensors", "x", {3, 4}, 0, values).string());
  EXPECT_THROW(broken.read({0, 3, 0, 4}, doubles.data()), InputError);
  EXPECT_NO_THROW(broken.read({2, 1, 0, 4}, doubles.data()));
}

TEST(MatrixWriters, WriteBlocksInAnyOrderAndAppearOnCommit) {
  TemporaryFolder const folder;
  auto const path = folder / "c.safetensors";
  auto const values = numbers(600 * 520);
  {
    MatrixWriter writer(path, 600, 520, Precision::double_precision);
    for (std::uint64_t const row : {512U, 0U, 100U}) { // across the edges of chunks
      std::uint64_t const last = row == 0 ? 100 : row == 100 ? 512 : 600;
      for (std::uint64_t const column : {300U, 0U}) {
        MatrixBlock const block{row, last - row, column, column == 0 ? 300U : 220U};
        std::vector<double> part;
        for (auto i = row; i < last; ++i)
          for (auto j = column; j < column + block.num_columns; ++j) part.push_back(values[i * 520 + j]);
        writer.write(block, part.data());
      }
    }
    EXPECT_FALSE(fs::exists(path));
    writer.commit();
  }
  expect_blocks(path.string(), values, 520);
  expect_blocks(path.string() + ":matrix", values, 520);
  EXPECT_EQ(folder.num_entries(), 1);
}

/// The numbers of a block of a matrix of so many columns.
template <class Scalar>
std::vector<Scalar> part_of_matrix(std::vector<Scalar> const& values, std::uint64_t num_columns,
                                   MatrixBlock const& block) {
  std::vector<Scalar> part;
  for (auto row = block.first_row; row < block.first_row + block.num_rows; ++row) {
    auto const first = values.begin() + static_cast<std::ptrdiff_t>(row * num_columns + block.first_column);
    part.insert(part.end(), first, first + static_cast<std::ptrdiff_t>(block.num_columns));
  }
  return part;
}

/// Writes a matrix in blocks of at most these rows and columns, by `writer` or by MatrixChunks.
template <class Write>
void write_in_blocks(std::uint64_t rows, std::uint64_t columns, std::uint64_t block_rows, std::uint64_t block_columns,
                     Write const& write) {
  for (std::uint64_t row = 0; row < rows; row += block_rows) {
    for (std::uint64_t column = 0; column < columns; column += block_columns)
      write(MatrixBlock{row, std::min(block_rows, rows - row), column, std::min(block_columns, columns - column)});
  }
}

std::vector<float> as_floats(std::vector<double> const& values) { return {values.begin(), values.end()}; }

TEST(MatrixWriters, GiveTheSameBytesWhateverTheBlocks) {
  TemporaryFolder const folder;
  constexpr std::uint64_t rows = 1100;
  constexpr std::uint64_t columns = 700;
  auto const values = as_floats(numbers(rows * columns));
  std::string whole;
  for (std::uint64_t const block : {2000U, 512U, 37U}) {
    auto const path = folder / std::to_string(block);
    MatrixWriter writer(path, rows, columns, Precision::single_precision);
    write_in_blocks(rows, columns, block, block,
                    [&](MatrixBlock const& part) { writer.write(part, part_of_matrix(values, columns, part).data()); });
    writer.commit();
    auto const bytes = testing::read_bytes(path);
    if (whole.empty()) whole = bytes;
    EXPECT_TRUE(bytes == whole) << "in blocks of " << block;
    testing::StoredDataset const stored(path, "matrix"); // by HDF5 alone, which checks the checksums
    std::vector<float> read(values.size());
    ASSERT_GE(H5Dread(stored.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data()), 0);
    EXPECT_EQ(read, values);
  }
}

TEST(MatrixWriters, LetOtherProcessesWriteWholeChunks) {
  TemporaryFolder const folder;
  auto const path = folder / "c.safetensors";
  auto const values = as_floats(numbers(1100 * 700));
  MatrixWriter writer(path, 1100, 700, Precision::single_precision);
  MatrixBlock const upper{0, 1024, 0, 700};
  MatrixBlock const lower{1024, 76, 0, 700};
  EXPECT_TRUE(writer.places().has_whole_chunks(upper));
  EXPECT_TRUE(writer.places().has_whole_chunks(lower));
  EXPECT_FALSE(writer.places().has_whole_chunks({0, 1000, 0, 700}));
  EXPECT_FALSE(writer.places().has_whole_chunks({512, 512, 1, 699}));
  {
    MatrixChunks other(MatrixPlaces::from_bytes(writer.places().to_bytes()));
    other.write(upper, reinterpret_cast<char const*>(part_of_matrix(values, 700, upper).data()));
    other.finish();
  }
  writer.write(lower, part_of_matrix(values, 700, lower).data());
  writer.commit();
  expect_blocks(path.string(), {values.begin(), values.end()}, 700);
  auto const bytes = MatrixPlaces{}.to_bytes();
  EXPECT_THROW(MatrixPlaces::from_bytes(bytes.substr(1)), InputError);
  EXPECT_THROW(MatrixPlaces::from_bytes(bytes + "x"), InputError);
}

TEST(MatrixWriters, KeepFewUnfinishedChunksInMemory) {
  TemporaryFolder const folder;
  auto const path = folder / "c.safetensors";
  constexpr std::uint64_t size = 9 * 512; // 81 MiB, of which 64 may wait
  std::vector<float> values(size * size);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8191);
  MatrixWriter writer(path, size, size, Precision::single_precision);
  for (std::uint64_t const half : {0U, 1U}) {
    write_in_blocks(size, size, 512, size, [&](MatrixBlock part) {
      part.first_row += half * 256;
      part.num_rows = 256;
      writer.write(part, part_of_matrix(values, size, part).data());
    });
  }
  writer.commit();
  MatrixDataset const matrix(path.string());
  std::vector<float> read(values.size());
  matrix.read({0, size, 0, size}, read.data());
  EXPECT_TRUE(read == values);
}

TEST(MatrixWriters, LeaveNothingWithoutCommit) {
  TemporaryFolder const folder;
  {
    MatrixWriter writer(folder / "c.safetensors", 3, 4, Precision::single_precision);
    std::vector<float> const values(12, 1.0F);
    writer.write({0, 3, 0, 4}, values.data());
    std::vector<double> const doubles(12, 1.0);
    EXPECT_THROW(writer.write({0, 3, 0, 4}, doubles.data()), std::logic_error);
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(MatrixWriters, GiveEachChunkAChecksum) {
  TemporaryFolder const folder;
  auto const path = folder / "c.safetensors";
  std::vector<float> const values(12, 1.25F);
  MatrixWriter writer(path, 3, 4, Precision::single_precision);
  writer.write({0, 3, 0, 4}, values.data());
  writer.commit();
  auto bytes = testing::read_bytes(path);
  std::array<char, 4> const pattern = {'\0', '\0', '\xa0', '\x3f'}; // 1.25
  auto const place = bytes.find(std::string(pattern.data(), pattern.size()));
  ASSERT_NE(place, std::string::npos);
  bytes[place] = '\1';
  testing::write_bytes(path, bytes);
  MatrixDataset const matrix(path.string());
  std::vector<float> read(12);
  expect_holds(sentence_of<InputError>([&] { matrix.read({0, 3, 0, 4}, read.data()); }), "its numbers cannot be read");
}

} // namespace
} // namespace varve
