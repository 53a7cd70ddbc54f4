#include "io/files.hpp"
#include "io/hdf5_chunks.hpp"
#include "io/hdf5_edit.hpp"
#include "io/hdf5_matrix.hpp"
#include "io/hdf5_plain.hpp"
#include "io/matrix_dataset.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::expect_holds;
using testing::sentence_of;
using testing::StoredDataset;
using testing::TemporaryFolder;

constexpr hsize_t num_rows = 70;
constexpr hsize_t num_columns = 90;

enum class Filter { shuffle, deflate, fletcher32 };

/// A dataset "x" of num_rows x num_columns numbers, in chunks unless their rows are 0.
fs::path write_matrix(fs::path const& path, hid_t stored, std::array<hsize_t, 2> const& chunk,
                      std::vector<Filter> const& filters, std::uint64_t user_block = 0) {
  fs::remove(path);
  auto const lock = hdf5::lock();
  hdf5::Properties const creation(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_userblock(creation.id(), user_block);
  hdf5::File const file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), H5P_DEFAULT));
  std::array<hsize_t, 2> const sizes = {num_rows, num_columns};
  hdf5::Dataspace const space(H5Screate_simple(2, sizes.data(), nullptr));
  hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
  if (chunk[0] > 0) H5Pset_chunk(properties.id(), 2, chunk.data());
  for (auto const filter : filters) {
    if (filter == Filter::shuffle) H5Pset_shuffle(properties.id());
    if (filter == Filter::deflate) H5Pset_deflate(properties.id(), 6);
    if (filter == Filter::fletcher32) H5Pset_fletcher32(properties.id());
  }
  hdf5::Dataset const dataset(
      H5Dcreate2(file.id(), "x", stored, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  std::vector<double> values(num_rows * num_columns);
  for (std::size_t place = 0; place < values.size(); ++place) values[place] = 0.1 * static_cast<double>(place) - 3.0;
  EXPECT_GE(H5Dwrite(dataset.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  return path;
}

std::vector<MatrixBlock> const blocks = {
    {0, num_rows, 0, num_columns},     {0, 32, 0, 48},       {1, 31, 5, 43},         {31, 2, 47, 2}, {32, 38, 48, 42},
    {num_rows - 1, 1, 0, num_columns}, {0, num_rows, 89, 1}, {7, 20, 0, num_columns}};

template <class Scalar>
std::vector<Scalar> read_by_hdf5(hdf5::Dataset const& dataset, MatrixBlock const& block) {
  std::array<hsize_t, 2> const first = {block.first_row, block.first_column};
  std::array<hsize_t, 2> const count = {block.num_rows, block.num_columns};
  hdf5::Dataspace const stored(H5Dget_space(dataset.id()));
  hdf5::Dataspace const memory(H5Screate_simple(2, count.data(), nullptr));
  std::vector<Scalar> values(block.size());
  auto const type = sizeof(Scalar) == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
  EXPECT_GE(H5Sselect_hyperslab(stored.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr), 0);
  EXPECT_GE(H5Dread(dataset.id(), type, memory.id(), stored.id(), H5P_DEFAULT, values.data()), 0);
  return values;
}

/// How many numbers the chunks hold that a block touches.
std::uint64_t numbers_of_chunks(MatrixBlock const& block, std::array<hsize_t, 2> const& chunk) {
  auto const count = [](std::uint64_t first, std::uint64_t size, hsize_t step) {
    return ((first + size - 1) / step - first / step + 1) * step;
  };
  return count(block.first_row, block.num_rows, chunk[0]) * count(block.first_column, block.num_columns, chunk[1]);
}

template <class Scalar>
void expect_same_blocks(fs::path const& path, std::array<hsize_t, 2> const& chunk, std::string const& where) {
  StoredDataset const stored(path, "x");
  std::size_t num_read = 0;
  for (auto const& block : blocks) {
    std::vector<Scalar> values(block.size());
    bool const is_read = hdf5::read_chunks(stored.dataset, block, values.data());
    EXPECT_EQ(is_read, numbers_of_chunks(block, chunk) <= 2 * block.size()) << where;
    num_read += is_read ? 1U : 0U;
    if (!is_read) continue;
    EXPECT_EQ(values, read_by_hdf5<Scalar>(stored.dataset, block)) << where;
  }
  EXPECT_GT(num_read, 0U) << where;
}

TEST(Blocks, HaveTheBitsThatHdf5Gives) {
  TemporaryFolder const folder;
  using enum Filter;
  for (auto const& filters : std::vector<std::vector<Filter>>{
           {shuffle}, {fletcher32}, {deflate, fletcher32}, {shuffle, deflate}, {shuffle, deflate, fletcher32}}) {
    for (auto const& chunk : std::vector<std::array<hsize_t, 2>>{{16, 16}, {7, 90}, {32, 48}, {70, 5}, {70, 90}}) {
      auto const where = ::testing::PrintToString(std::tuple(filters.size(), chunk[0], chunk[1]));
      auto const path = folder / "x.h5";
      expect_same_blocks<float>(write_matrix(path, H5T_IEEE_F32LE, chunk, filters), chunk, where);
      expect_same_blocks<double>(write_matrix(path, H5T_IEEE_F64LE, chunk, filters), chunk, where);
    }
  }
}

TEST(Blocks, ThatAreNotKnownAreLeftToHdf5) {
  TemporaryFolder const folder;
  MatrixBlock const all{0, num_rows, 0, num_columns};
  std::vector<double> values(all.size());
  auto const is_read = [&](fs::path const& path, MatrixBlock const& block) {
    StoredDataset const stored(path, "x");
    return hdf5::read_chunks(stored.dataset, block, values.data());
  };
  auto const path = folder / "x.h5";
  EXPECT_TRUE(is_read(write_matrix(path, H5T_IEEE_F64LE, {16, 16}, {Filter::deflate}), all));
  EXPECT_FALSE(is_read(path, {0, num_rows + 1, 0, num_columns}));
  EXPECT_FALSE(is_read(path, {0, 1, 1, num_columns}));
  EXPECT_FALSE(is_read(write_matrix(path, H5T_IEEE_F64BE, {16, 16}, {Filter::deflate}), all));
  EXPECT_FALSE(is_read(write_matrix(path, H5T_IEEE_F32LE, {16, 16}, {Filter::deflate}), all));
  EXPECT_FALSE(is_read(write_matrix(path, H5T_STD_I64LE, {16, 16}, {Filter::deflate}), all));
  EXPECT_FALSE(is_read(write_matrix(path, H5T_IEEE_F64LE, {16, 16}, {}), all));
  EXPECT_FALSE(is_read(write_matrix(path, H5T_IEEE_F64LE, {0, 0}, {}), all));
}

TEST(Blocks, OfChunksLargerThanTheirFileAreRefusedBeforeRoomIsMadeForThem) {
  TemporaryFolder const folder;
  auto const path = write_matrix(folder / "x.h5", H5T_IEEE_F32LE, {32, 48}, {Filter::fletcher32});
  testing::claim_chunk_size(path, "x", {32, 48}, 4'000'000'000U);
  MatrixDataset const matrix(path.string());
  std::vector<float> values(num_rows * num_columns);
  EXPECT_NO_THROW(matrix.read({0, 32, 0, num_columns}, values.data()));
  EXPECT_NO_THROW(matrix.read({0, num_rows, 0, 48}, values.data()));
  for (MatrixBlock const& block : {MatrixBlock{0, num_rows, 0, num_columns}, {40, 1, 50, 1}, {63, 2, 47, 2}}) {
    expect_holds(sentence_of<InputError>([&] { matrix.read(block, values.data()); }),
                 "found a chunk of 4000000000 bytes in a file of ");
  }
}

TEST(Blocks, OfCorruptChunksAreRefused) {
  TemporaryFolder const folder;
  auto const path = write_matrix(folder / "x.h5", H5T_IEEE_F32LE, {32, 48}, {Filter::deflate, Filter::fletcher32});
  std::array<hsize_t, 2> const begin = {32, 48};
  unsigned mask = 0;
  haddr_t place = 0;
  hsize_t size = 0;
  {
    StoredDataset const stored(path, "x");
    ASSERT_GE(H5Dget_chunk_info_by_coord(stored.id(), begin.data(), &mask, &place, &size), 0);
  }
  auto bytes = testing::read_bytes(path);
  bytes[place + size / 2] = static_cast<char>(bytes[place + size / 2] ^ 0x10);
  testing::write_bytes(path, bytes);
  MatrixDataset const matrix(path.string());
  std::vector<float> values(num_rows * num_columns);
  EXPECT_NO_THROW(matrix.read({0, 32, 0, num_columns}, values.data()));
  expect_holds(sentence_of<InputError>([&] {
                 matrix.read({0, num_rows, 0, num_columns}, values.data());
               }),
               "found a chunk that does not inflate to 6144 bytes");
}

TEST(Blocks, OfChunksOfOneNumberAreReadInParts) {
  TemporaryFolder const folder;
  std::array<hsize_t, 2> const sizes = {300, 400};
  std::vector<float> numbers(sizes[0] * sizes[1]);
  for (std::size_t place = 0; place < numbers.size(); ++place) numbers[place] = static_cast<float>(place);
  for (bool const is_list : {false, true}) {
    auto const path = folder / "ones.h5";
    {
      auto const file = hdf5::create_file(path, path);
      std::array<hsize_t, 2> const chunk = {1, 1};
      hsize_t const length = numbers.size();
      hdf5::Dataspace const space(is_list ? H5Screate_simple(1, &length, nullptr)
                                          : H5Screate_simple(2, sizes.data(), nullptr));
      hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
      H5Pset_chunk(properties.id(), is_list ? 1 : 2, chunk.data());
      hdf5::Dataset const dataset(
          H5Dcreate2(file.id(), "x", H5T_IEEE_F32LE, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
      ASSERT_GE(H5Dwrite(dataset.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
    }
    StoredDataset const stored(path, "x");
    hdf5::MatrixShape const shape{sizes[0], sizes[1], sizeof(float), is_list};
    MatrixBlock const block{2, 297, 3, 396};
    std::vector<float> values(block.size());
    hdf5::StoredChunks chunks(stored.dataset, "ones");
    hdf5::read_block(stored.dataset, chunks, shape, block, values.data(), "ones");
    for (std::size_t place = 0; place < values.size(); ++place)
      ASSERT_EQ(values[place], numbers[(2 + place / 396) * sizes[1] + 3 + place % 396]) << is_list << " at " << place;
  }
}

/// Where the numbers of "x" lie; nullopt if HDF5 has to read them.
std::optional<hdf5::PlainPlace> place_in(StoredDataset const& stored, std::size_t element_size) {
  return hdf5::plain_place(stored.dataset, {num_rows, num_columns, element_size, false});
}

/// Where HDF5 says that the numbers of "x" begin.
std::uint64_t begin_in(fs::path const& path) { return H5Dget_offset(StoredDataset(path, "x").id()); }

template <class Scalar>
void expect_plain_blocks(fs::path const& path) {
  StoredDataset const stored(path, "x");
  hdf5::MatrixShape const shape{num_rows, num_columns, sizeof(Scalar), false};
  auto const place = place_in(stored, sizeof(Scalar));
  ASSERT_TRUE(place);
  for (auto const& block : blocks) {
    std::vector<Scalar> values(block.size());
    EXPECT_TRUE(hdf5::read_plain(*place, shape, block, values.data()));
    EXPECT_EQ(values, read_by_hdf5<Scalar>(stored.dataset, block));
  }
}

TEST(PlainMatrices, HaveTheBitsThatHdf5Gives) {
  TemporaryFolder const folder;
  for (std::uint64_t const user_block : {0U, 512U}) { // bytes of another program before those of HDF5
    auto const path = folder / "x.h5";
    expect_plain_blocks<float>(write_matrix(path, H5T_IEEE_F32LE, {0, 0}, {}, user_block));
    expect_plain_blocks<double>(write_matrix(path, H5T_IEEE_F64LE, {0, 0}, {}, user_block));
  }
}

TEST(PlainMatrices, AreThoseThatLieInTheFileAsInMemory) {
  TemporaryFolder const folder;
  auto const path = folder / "x.h5";
  auto const is_plain = [&](hid_t type, std::array<hsize_t, 2> const& chunk, std::size_t element_size) {
    StoredDataset const stored(write_matrix(path, type, chunk, {}), "x");
    return place_in(stored, element_size).has_value();
  };
  EXPECT_TRUE(is_plain(H5T_IEEE_F32LE, {0, 0}, 4));
  EXPECT_FALSE(is_plain(H5T_IEEE_F32BE, {0, 0}, 4));
  EXPECT_FALSE(is_plain(H5T_IEEE_F64LE, {16, 16}, 8));
  auto const lock = hdf5::lock();
  auto const file = testing::open_to_edit(write_matrix(path, H5T_IEEE_F32LE, {0, 0}, {}));
  hdf5::Dataset const written(H5Dopen2(file.id(), "x", H5P_DEFAULT));
  EXPECT_FALSE(hdf5::plain_place(written, {num_rows, num_columns, 4, false})) << "the file is being written";
}

TEST(PlainMatrices, ThatEndTooEarlyAreNotRead) {
  TemporaryFolder const folder;
  auto const path = write_matrix(folder / "x.h5", H5T_IEEE_F64LE, {0, 0}, {});
  StoredDataset const stored(path, "x");
  auto const place = place_in(stored, 8);
  ASSERT_TRUE(place);
  fs::resize_file(path, place->begin + 8 * num_columns * 3);
  hdf5::MatrixShape const shape{num_rows, num_columns, 8, false};
  std::vector<double> values(num_rows * num_columns);
  EXPECT_TRUE(hdf5::read_plain(*place, shape, {0, 3, 0, num_columns}, values.data()));
  EXPECT_FALSE(hdf5::read_plain(*place, shape, {0, 4, 0, 5}, values.data()));
}

TEST(PlainMatrices, ThatLieBeyondTheEndOfTheirFileAreRefused) {
  TemporaryFolder const folder;
  for (std::uint64_t const user_block : {0U, 512U}) {
    auto const path = write_matrix(folder / "x.h5", H5T_IEEE_F32BE, {0, 0}, {}, user_block);
    std::vector<float> values(num_rows * num_columns);
    EXPECT_NO_THROW(MatrixDataset(path.string()).read({0, num_rows, 0, num_columns}, values.data()));
    auto bytes = testing::read_bytes(path);
    auto const claim_begin = [&](std::uint64_t found, std::uint64_t begin) {
      std::array<std::uint64_t, 2> const layout = {found, values.size() * sizeof(float)};
      auto const at = bytes.find(std::string(reinterpret_cast<char const*>(layout.data()), sizeof layout));
      ASSERT_NE(at, std::string::npos);
      bytes.replace(at, sizeof begin, reinterpret_cast<char const*>(&begin), sizeof begin);
      testing::write_bytes(path, bytes);
    };
    auto const begin = begin_in(path) - user_block;
    auto const last = bytes.size() - user_block - values.size() * sizeof(float); // so that it still ends in the file
    claim_begin(begin, last);
    EXPECT_NO_THROW(MatrixDataset{path.string()});
    claim_begin(last, last + 1);
    expect_holds(sentence_of<InputError>([&] { MatrixDataset{path.string()}; }),
                 "x: found 25199 bytes stored for 25200 bytes of elements");
  }
}

TEST(PlainMatrices, AndThoseInChunksAreReadByMatrixDatasets) {
  TemporaryFolder const folder;
  using enum Filter;
  for (auto const& [chunk, filters] : std::vector<std::pair<std::array<hsize_t, 2>, std::vector<Filter>>>{
           {{0, 0}, {}}, {{16, 16}, {}}, {{16, 16}, {shuffle, deflate}}, {{32, 48}, {fletcher32}}}) {
    for (auto const stored : {H5T_IEEE_F32LE, H5T_IEEE_F64LE}) {
      MatrixDataset const matrix(write_matrix(folder / "x.h5", stored, chunk, filters).string());
      for (auto const& block : blocks) {
        std::vector<float> values(block.size());
        matrix.read(block, values.data());
        for (std::uint64_t place = 0; place < block.size(); ++place) {
          auto const row = block.first_row + place / block.num_columns;
          auto const number = row * num_columns + block.first_column + place % block.num_columns;
          ASSERT_EQ(values[place], static_cast<float>(0.1 * static_cast<double>(number) - 3.0));
        }
      }
    }
  }
}

} // namespace
} // namespace varve
