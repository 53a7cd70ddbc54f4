#include "io/dense_file.hpp"

#include "io/container_edit.hpp"
#include "io/files.hpp"
#include "io/input_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::edit;
using test::expect_holds;
using test::sentence_about;
using test::TemporaryFolder;

/// Numbers that float cannot hold exactly.
std::vector<double> numbers(std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.1 * static_cast<double>(i) - 3.0;
  return values;
}

std::vector<float> as_floats(std::vector<double> const& values) { return {values.begin(), values.end()}; }

/// Writes a whole matrix.
template <class Scalar>
fs::path write(fs::path const& path, std::uint64_t num_rows, std::uint64_t num_columns,
               std::vector<Scalar> const& values) {
  DenseFileWriter writer(path, num_rows, num_columns,
                         sizeof(Scalar) == 4 ? Precision::single_precision : Precision::double_precision);
  writer.write({0, num_rows, 0, num_columns}, values.data());
  writer.commit();
  return path;
}

void expect_blocks(fs::path const& path, std::vector<double> const& values, std::uint64_t num_columns) {
  DenseFile const matrix(path);
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

TEST(DenseFiles, AreReadInBlocks) {
  TemporaryFolder const folder;
  auto const values = numbers(12);
  expect_blocks(write(folder / "doubles", 3, 4, values), values, 4);
  expect_blocks(write(folder / "floats", 3, 4, as_floats(values)), values, 4);
  auto const many = numbers(300 * 700); // of several pieces, in which rows begin anywhere
  expect_blocks(write(folder / "many", 300, 700, many), many, 700);
  expect_blocks(write(folder / "wide", 3, 70000, many), many, 70000);
  DenseFile const none(write(folder / "none", 0, 4, std::vector<float>()));
  EXPECT_EQ(none.num_rows(), 0U);
  EXPECT_EQ(none.num_columns(), 4U);
}

TEST(DenseFiles, RefuseWhatIsNoMatrix) {
  TemporaryFolder const folder;
  auto const path = folder / "x.safetensors";
  auto const after = [&](auto const& change) {
    write(path, 2, 3, numbers(6));
    edit(path, change);
    return sentence_about(path, [&] { DenseFile{path}; });
  };
  auto const with_shape = [&](std::vector<std::uint64_t> const& shape) {
    return after([&](auto& file) { file.arrays["matrix"].shape = shape; });
  };
  EXPECT_EQ(with_shape({1, 2, 3}), ": found a matrix of the shape 1 x 2 x 3, expected 2 x 3");
  EXPECT_EQ(with_shape({6}), ": found a matrix of the shape 6, expected 2 x 3");
  EXPECT_EQ(with_shape({3, 2}), ": found a matrix of the shape 3 x 2, expected 2 x 3");
  EXPECT_EQ(after([](auto& file) { file.set("matrix", std::vector<std::uint32_t>(6)); }),
            ": matrix: found numbers of the type U32, expected F32 or F64");
  EXPECT_EQ(after([](auto& file) { file.arrays.erase("matrix"); }), " has no array \"matrix\"");
  EXPECT_EQ(after([](auto& file) { file.set("other", std::vector<float>(6)); }),
            ": found the array \"other\", expected those that its description names");
  auto const described = [&](char const* key, test::Json const& value) {
    return after([&](auto& file) { file.description[key] = value; });
  };
  EXPECT_EQ(described("kind", "samples"), ": found the kind \"samples\", expected \"matrix\"");
  EXPECT_EQ(described("format", "DMATR"), ": found the key \"format\", expected one of kind, version, shape");
  for (test::Json const& shape : {test::Json{2}, test::Json{-2, -3}, test::Json("2x3")})
    EXPECT_EQ(described("shape", shape), ": found the shape " + shape.dump() + ", expected [rows, columns]");
  EXPECT_EQ(described("shape", {4294967296, 4294967299}),
            ": found the shape 4294967296 x 4294967299, expected no more than 4294967295");
  EXPECT_EQ(sentence_about(folder / "missing", [&] { DenseFile{folder / "missing"}; }),
            " cannot be read: No such file or directory");
}

TEST(DenseFiles, AreReadFromPipes) {
  TemporaryFolder const folder;
  auto const bytes = test::read_bytes(write(folder / "x.safetensors", 3, 4, numbers(12)));
  auto const fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (bool const by_input : {false, true}) {
    InputFiles const inputs;
    std::jthread const writer([&] { test::write_bytes(fifo, bytes); });
    int const before = dup(STDIN_FILENO);
    if (by_input) {
      int const opened = open(fifo.c_str(), O_RDONLY);
      dup2(opened, STDIN_FILENO);
      close(opened);
    }
    EXPECT_NO_THROW(expect_blocks(by_input ? fs::path("/dev/stdin") : fifo, numbers(12), 4));
    if (before >= 0) dup2(before, STDIN_FILENO);
    close(before);
  }
}

TEST(DenseFiles, HoldFiniteNumbersThatThePrecisionCanHold) {
  TemporaryFolder const folder;
  auto values = numbers(12);
  values[6] = 1e300;
  DenseFile const matrix(write(folder / "large.safetensors", 3, 4, values));
  std::vector<float> floats(12);
  std::vector<double> doubles(12);
  EXPECT_NO_THROW(matrix.read({0, 3, 0, 4}, doubles.data()));
  expect_holds(sentence_about(matrix.path(),
                              [&] {
                                matrix.read({1, 2, 1, 3}, floats.data());
                              }),
               "found 1e+300 in row 1, column 2 (from 0), expected a finite number that float can hold");
  values[6] = std::numeric_limits<double>::quiet_NaN();
  DenseFile const broken(write(folder / "nan.safetensors", 3, 4, values));
  EXPECT_THROW(broken.read({0, 3, 0, 4}, doubles.data()), InputError);
  EXPECT_NO_THROW(broken.read({2, 1, 0, 4}, doubles.data()));
  EXPECT_THROW(broken.read({2, 2, 0, 4}, doubles.data()), std::logic_error);
}

TEST(DenseFileWriters, WriteBlocksInAnyOrderAndAppearOnCommit) {
  TemporaryFolder const folder;
  auto const path = folder / "c.safetensors";
  auto const values = numbers(600 * 520);
  {
    DenseFileWriter writer(path, 600, 520, Precision::double_precision);
    for (std::uint64_t const row : {512U, 0U, 100U}) { // across the edges of pieces
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
  expect_blocks(path, values, 520);
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

/// Writes a matrix in blocks of at most these rows and columns.
template <class Write>
void write_in_blocks(std::uint64_t rows, std::uint64_t columns, std::uint64_t block_rows, std::uint64_t block_columns,
                     Write const& write) {
  for (std::uint64_t row = 0; row < rows; row += block_rows) {
    for (std::uint64_t column = 0; column < columns; column += block_columns)
      write(MatrixBlock{row, std::min(block_rows, rows - row), column, std::min(block_columns, columns - column)});
  }
}

TEST(DenseFileWriters, GiveTheSameBytesWhateverTheBlocks) {
  TemporaryFolder const folder;
  constexpr std::uint64_t rows = 1100;
  constexpr std::uint64_t columns = 700;
  auto const values = as_floats(numbers(rows * columns));
  std::string whole;
  for (std::uint64_t const block : {2000U, 512U, 37U}) {
    auto const path = folder / std::to_string(block);
    DenseFileWriter writer(path, rows, columns, Precision::single_precision);
    write_in_blocks(rows, columns, block, block,
                    [&](MatrixBlock const& part) { writer.write(part, part_of_matrix(values, columns, part).data()); });
    writer.commit();
    auto const bytes = test::read_bytes(path);
    if (whole.empty()) whole = bytes;
    EXPECT_TRUE(bytes == whole) << "in blocks of " << block;
    EXPECT_EQ(test::ContainerEdit(path).arrays.at("matrix").bytes, container::bytes_of(values));
  }
}

TEST(DenseFileWriters, LetOtherProcessesWrite) {
  TemporaryFolder const folder;
  auto const path = folder / "c.safetensors";
  auto const values = as_floats(numbers(1100 * 700));
  DenseFileWriter writer(path, 1100, 700, Precision::single_precision);
  MatrixBlock const left{0, 1000, 0, 333};
  MatrixBlock const right{0, 1000, 333, 367};
  {
    DenseFileWriter other(writer.place());
    EXPECT_EQ(other.place(), writer.place());
    other.write(right, part_of_matrix(values, 700, right).data());
    other.finish();
  }
  writer.write(left, part_of_matrix(values, 700, left).data());
  writer.commit();
  auto expected = values; // what nobody has written is 0
  std::fill(expected.begin() + 1000 * 700, expected.end(), 0.0F);
  expect_blocks(path, {expected.begin(), expected.end()}, 700);
  auto const bytes = writer.place();
  for (auto const& broken : {bytes.substr(1), bytes + "x", std::string()})
    EXPECT_THROW(DenseFileWriter{broken}, InputError);
  EXPECT_THROW(DenseFileWriter{bytes}, ResourceError); // the partial file has gone
}

TEST(DenseFileWriters, LeaveNothingWithoutCommit) {
  TemporaryFolder const folder;
  {
    DenseFileWriter writer(folder / "c.safetensors", 3, 4, Precision::single_precision);
    std::vector<float> const values(12, 1.0F);
    writer.write({0, 3, 0, 4}, values.data());
    std::vector<double> const doubles(12, 1.0);
    EXPECT_THROW(writer.write({0, 3, 0, 4}, doubles.data()), std::logic_error);
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(DenseFiles, NoticeDamagedBytes) {
  TemporaryFolder const folder;
  auto const path = write(folder / "c.safetensors", 2, 20000, std::vector<float>(40000, 1.25F));
  auto bytes = test::read_bytes(path);
  auto const place = bytes.find(std::string("\0\0\xa0\x3f", 4)); // 1.25
  ASSERT_NE(place, std::string::npos);
  bytes[place + 100000] = '\1';
  test::write_bytes(path, bytes);
  DenseFile const matrix(path);
  std::vector<float> read(40000);
  EXPECT_EQ(sentence_about(path,
                           [&] {
                             matrix.read({0, 2, 0, 20000}, read.data());
                           }),
            ": matrix: found bytes from 65536 on whose SHA-256 is not what the file says, expected the right one; the "
            "file is damaged");
  EXPECT_NO_THROW(matrix.read({0, 1, 0, 16384}, read.data())) << "the first piece is whole";
}

} // namespace
} // namespace varve
