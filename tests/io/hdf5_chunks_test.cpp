#include "io/hdf5_chunks.hpp"

#include "core/host_threads.hpp"
#include "io/chunk_decoder.hpp"
#include "io/files.hpp"
#include "io/hdf5_edit.hpp"
#include "io/network_file.hpp"
#include "io/random_data.hpp"
#include "io/sample_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::expect_holds;
using testing::sentence_of;
using testing::StoredDataset;
using testing::TemporaryFolder;

/// Filters of a list, in the order in which HDF5 applies them.
enum class Filter { shuffle, deflate, fletcher32, nbit };
using Filters = std::vector<Filter>;

std::vector<Filters> const known_filters = {{Filter::shuffle},
                                            {Filter::deflate},
                                            {Filter::fletcher32},
                                            {Filter::shuffle, Filter::deflate},
                                            {Filter::shuffle, Filter::fletcher32},
                                            {Filter::deflate, Filter::fletcher32},
                                            {Filter::shuffle, Filter::deflate, Filter::fletcher32}};

hdf5::Properties list_properties(Filters const& filters, hsize_t chunk) {
  hdf5::Properties properties(H5Pcreate(H5P_DATASET_CREATE));
  EXPECT_GE(H5Pset_chunk(properties.id(), 1, &chunk), 0);
  for (auto const filter : filters) {
    if (filter == Filter::shuffle) H5Pset_shuffle(properties.id());
    if (filter == Filter::deflate) H5Pset_deflate(properties.id(), 6);
    if (filter == Filter::fletcher32) H5Pset_fletcher32(properties.id());
    if (filter == Filter::nbit) H5Pset_nbit(properties.id());
  }
  return properties;
}

/// Small numbers, among them the same ones again and again, and the largest and smallest of 64 bits.
std::vector<std::int64_t> some_numbers(std::size_t count, bool with_negative) {
  std::mt19937_64 random(count);
  std::vector<std::int64_t> numbers(count);
  for (auto& number : numbers) number = static_cast<std::int64_t>(random() % 100);
  for (std::size_t entry = 0; entry < count; entry += 7)
    numbers[entry] = static_cast<std::int64_t>(random() >> (random() % 60));
  if (with_negative)
    for (std::size_t entry = 0; entry < count; entry += 5) numbers[entry] = -numbers[entry];
  return numbers;
}

/// A file with the list "list", written with this stored type (HDF5 cuts the numbers to its range). `old`: in the first
/// format of HDF5, which other programs write; its chunks lie in a tree. Lists with chunks of 7 numbers may grow, as do
/// those that are shorter than a chunk.
fs::path write_list(TemporaryFolder const& folder, hid_t stored, std::vector<std::int64_t> const& numbers,
                    hdf5::Properties const& properties, bool old = false) {
  auto const path = folder / "list.h5";
  fs::remove(path);
  auto const lock = hdf5::lock();
  auto const file = old ? hdf5::File(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT))
                        : hdf5::create_file(path, path);
  hsize_t const length = numbers.size();
  hsize_t chunk = 1;
  H5Pget_chunk(properties.id(), 1, &chunk);
  hsize_t const most = chunk == 7 || chunk > length ? H5S_UNLIMITED : length;
  hdf5::Dataspace const space(H5Screate_simple(1, &length, &most));
  hdf5::Dataset const list(
      H5Dcreate2(file.id(), "list", stored, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  EXPECT_GE(H5Dwrite(list.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
  return path;
}

template <class Element>
hid_t memory_type() {
  if (std::is_same_v<Element, double>) return H5T_NATIVE_DOUBLE;
  if (std::is_same_v<Element, std::int64_t>) return H5T_NATIVE_INT64;
  return std::is_same_v<Element, std::uint32_t> ? H5T_NATIVE_UINT32 : H5T_NATIVE_UINT64;
}

/// The numbers [first, first + count) of a list as HDF5 reads them itself.
template <class Element>
std::vector<Element> read_by_hdf5(hdf5::Dataset const& list, hsize_t first, hsize_t count) {
  std::vector<Element> elements(count);
  hdf5::Dataspace const stored(H5Dget_space(list.id()));
  hdf5::Dataspace const memory(H5Screate_simple(1, &count, nullptr));
  EXPECT_GE(H5Sselect_hyperslab(stored.id(), H5S_SELECT_SET, &first, nullptr, &count, nullptr), 0);
  EXPECT_GE(H5Dread(list.id(), memory_type<Element>(), memory.id(), stored.id(), H5P_DEFAULT, elements.data()), 0);
  return elements;
}

/// Expects that every part of the list is read here, and with the bits that HDF5 gives.
template <class Element>
void expect_same_bits(hdf5::Dataset const& list, std::size_t length, std::string const& where) {
  std::pair<std::size_t, std::size_t> const parts[] = {
      {0, length}, {0, 1}, {length - 1, 1}, {length / 3, length / 2}, {99, 2}, {100, 100}, {101, 199}};
  for (auto const& [first, count] : parts) {
    std::vector<Element> elements(count);
    EXPECT_TRUE(hdf5::read_chunks(list, first, std::span(elements))) << where << " from " << first;
    auto const expected = read_by_hdf5<Element>(list, first, count);
    EXPECT_EQ(std::memcmp(elements.data(), expected.data(), count * sizeof(Element)), 0) << where << " from " << first;
  }
}

TEST(Chunks, GiveTheBitsThatHdf5Gives) {
  TemporaryFolder const folder;
  constexpr std::size_t length = 1037; // the last chunk is not full
  std::vector<hid_t> const unsigned_types = {H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_U64LE};
  std::vector<hid_t> const signed_types = {H5T_STD_I8LE, H5T_STD_I16LE, H5T_STD_I32LE, H5T_STD_I64LE};
  std::vector<hid_t> const real_types = {H5T_IEEE_F32LE, H5T_IEEE_F64LE};
  for (auto const& filters : known_filters) {
    for (hsize_t const chunk : {hsize_t{7}, hsize_t{100}, hsize_t{1037}, hsize_t{5000}}) {
      auto const properties = list_properties(filters, chunk);
      auto const check = [&]<class Element>(hid_t type, bool with_negative, Element /*tells the type*/) {
        for (bool const old : {false, true}) {
          auto const path = write_list(folder, type, some_numbers(length, with_negative), properties, old);
          StoredDataset const list(path, "list");
          auto const where = ::testing::PrintToString(std::tuple(H5Tget_size(type), filters.size(), chunk, old));
          expect_same_bits<Element>(list.dataset, length, where);
        }
      };
      for (auto const type : unsigned_types) {
        check(type, false, std::uint32_t{});
        check(type, false, std::uint64_t{});
        check(type, false, double{});
      }
      for (auto const type : signed_types) {
        check(type, true, std::int64_t{});
        check(type, true, double{});
      }
      for (auto const type : real_types) check(type, true, double{});
    }
  }
}

TEST(Chunks, AreManyAndDecodedByManyThreads) {
  TemporaryFolder const folder;
  std::size_t const length = 100 * 1000 * num_host_threads() + 17;
  auto const path = write_list(folder, H5T_STD_U32LE, some_numbers(length, false),
                               list_properties({Filter::shuffle, Filter::deflate, Filter::fletcher32}, 1000));
  StoredDataset const list(path, "list");
  std::vector<std::uint32_t> elements(length);
  ASSERT_TRUE(hdf5::read_chunks(list.dataset, 0, std::span(elements)));
  EXPECT_EQ(elements, read_by_hdf5<std::uint32_t>(list.dataset, 0, length));
}

/// Whether the list of a file is read here.
bool is_read(fs::path const& path, std::size_t length) {
  StoredDataset const list(path, "list");
  std::vector<std::uint32_t> elements(length);
  return hdf5::read_chunks(list.dataset, 0, std::span(elements));
}

TEST(Chunks, ThatAreNotKnownAreLeftToHdf5) {
  TemporaryFolder const folder;
  auto const numbers = some_numbers(500, false);
  auto const is_read_with = [&](hid_t type, hdf5::Properties const& properties) {
    return is_read(write_list(folder, type, numbers, properties), numbers.size());
  };
  EXPECT_TRUE(is_read_with(H5T_STD_U32LE, list_properties({Filter::deflate}, 100)));
  EXPECT_FALSE(is_read_with(H5T_STD_U32BE, list_properties({Filter::deflate}, 100)));
  EXPECT_FALSE(is_read_with(H5T_STD_I32LE, list_properties({Filter::deflate}, 100))); // may be negative
  EXPECT_FALSE(is_read_with(H5T_IEEE_F32LE, list_properties({Filter::deflate}, 100)));
  EXPECT_FALSE(is_read_with(H5T_STD_U32LE, list_properties({}, 100)));
  EXPECT_FALSE(is_read_with(H5T_STD_U32LE, list_properties({Filter::nbit}, 100)));
  EXPECT_FALSE(is_read_with(H5T_STD_U32LE, list_properties({Filter::deflate, Filter::shuffle}, 100)));
  EXPECT_FALSE(is_read_with(H5T_STD_U32LE, list_properties({Filter::fletcher32, Filter::deflate}, 100)));
  EXPECT_FALSE(is_read_with(H5T_STD_U32LE, list_properties({Filter::deflate, Filter::deflate}, 100)));
  auto const partial = list_properties({Filter::deflate}, 300);
  EXPECT_GE(H5Pset_chunk_opts(partial.id(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS), 0);
  EXPECT_FALSE(is_read_with(H5T_STD_U32LE, partial));
  EXPECT_FALSE(is_read_with(H5T_STD_U32LE, hdf5::Properties(H5Pcreate(H5P_DATASET_CREATE)))); // contiguous
  EXPECT_FALSE(is_read(folder / "list.h5", numbers.size() + 1));                              // too few
}

TEST(Chunks, ThatAreMissingOrStoredWithoutAFilterAreLeftToHdf5) {
  TemporaryFolder const folder;
  auto const path = folder / "list.h5";
  std::array<std::uint32_t, 100> const chunk{};
  for (unsigned const skipped : {0U, 1U}) {
    fs::remove(path);
    {
      auto const lock = hdf5::lock();
      auto const file = hdf5::create_file(path, path);
      hsize_t const length = 200;
      hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
      auto const properties = list_properties({Filter::shuffle}, 100);
      hdf5::Dataset const list(
          H5Dcreate2(file.id(), "list", H5T_STD_U32LE, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
      hsize_t const begin = 100;
      ASSERT_GE(H5Dwrite_chunk(list.id(), H5P_DEFAULT, skipped, &begin, sizeof(chunk), chunk.data()), 0);
    }
    StoredDataset const list(path, "list");
    std::vector<std::uint32_t> elements(100);
    EXPECT_FALSE(hdf5::read_chunks(list.dataset, 0, std::span(elements)));
    EXPECT_EQ(hdf5::read_chunks(list.dataset, 100, std::span(elements)), skipped == 0);
  }
}

TEST(Chunks, OfAFileThatIsBeingWrittenAreLeftToHdf5) {
  TemporaryFolder const folder;
  auto const path =
      write_list(folder, H5T_STD_U32LE, some_numbers(500, false), list_properties({Filter::deflate}, 100));
  auto const lock = hdf5::lock();
  auto const file = testing::open_to_edit(path);
  hdf5::Dataset const list(H5Dopen2(file.id(), "list", H5P_DEFAULT));
  std::vector<std::uint32_t> elements(500);
  EXPECT_FALSE(hdf5::read_chunks(list, 0, std::span(elements)));
}

/// Whether "samples/NAME", or a list of a layer, is read here.
template <class Element>
bool reads_own(fs::path const& path, std::string const& name) {
  StoredDataset const list(path, name);
  std::vector<Element> elements(hdf5::length_of(list.dataset, name));
  return hdf5::read_chunks(list.dataset, 0, std::span(elements));
}

TEST(Chunks, OfFilesThatVarveWritesAreReadHere) {
  TemporaryFolder const folder;
  write_sample_file(folder / "samples.h5", testing::random_samples(4, 400, 300, testing::Values::doubles));
  testing::Generator generator(3);
  NetworkFileWriter writer(folder / "net.h5");
  writer.append({testing::random_matrix(generator, 200, 100, 0.4, testing::Values::floats),
                 std::vector<double>(200, 0.5), Activation::relu()});
  writer.commit();
  for (auto const& [file, group] :
       {std::pair("samples.h5", "samples/"), std::pair("net.h5", "layers/000000/weights/")}) {
    EXPECT_TRUE(reads_own<std::uint64_t>(folder / file, std::string(group) + "pointers_to_1")) << file;
    EXPECT_TRUE(reads_own<std::uint32_t>(folder / file, std::string(group) + "indices_1")) << file;
    EXPECT_TRUE(reads_own<double>(folder / file, std::string(group) + "values")) << file;
  }
}

TEST(Chunks, AreRefusedIfTheyAreCorrupt) {
  TemporaryFolder const folder;
  for (Filters const& filters : {Filters{Filter::fletcher32}, Filters{Filter::shuffle, Filter::deflate},
                                 Filters{Filter::deflate, Filter::fletcher32}}) {
    auto const path = write_list(folder, H5T_STD_U32LE, some_numbers(1000, false), list_properties(filters, 100));
    auto const good = testing::read_bytes(path);
    hsize_t const begin = 400;
    unsigned mask = 0;
    haddr_t place = 0;
    hsize_t size = 0;
    {
      StoredDataset const list(path, "list");
      ASSERT_GE(H5Dget_chunk_info_by_coord(list.id(), &begin, &mask, &place, &size), 0);
    }
    for (std::size_t byte = place + 2; byte < place + size; byte += 1 + size / 20) {
      auto bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ 0x10);
      testing::write_bytes(path, bad);
      EXPECT_FALSE(is_read(path, 1000)) << byte - place << " of " << size;
      StoredDataset const list(path, "list");
      auto const read = [&] { hdf5::read_indices<std::uint32_t>(list.dataset, 0, 1000, "the list"); };
      // HDF5 finds wrong checksums itself; what does not inflate must not come to it
      auto const sentence = sentence_of<InputError>(read);
      EXPECT_TRUE(sentence.starts_with("the list: its content cannot be read (HDF5: ") ||
                  sentence.starts_with("the list: found a chunk that does not inflate to 400 bytes"))
          << sentence;
    }
  }
}

TEST(Chunks, LargerThanTheirFileAreRefusedBeforeRoomIsMadeForThem) {
  TemporaryFolder const folder;
  auto const path =
      write_list(folder, H5T_STD_U32LE, some_numbers(1000, false), list_properties({Filter::fletcher32}, 100), true);
  testing::claim_chunk_size(path, "list", {400}, 4'294'967'267U);
  StoredDataset const list(path, "list");
  auto const read = [&](std::uint64_t first, std::uint64_t count) {
    return sentence_of<InputError>([&] { hdf5::read_indices<std::uint32_t>(list.dataset, first, count, "the list"); });
  };
  EXPECT_NO_THROW(hdf5::read_indices<std::uint32_t>(list.dataset, 0, 400, "the list"));
  EXPECT_NO_THROW(hdf5::read_indices<std::uint32_t>(list.dataset, 500, 500, "the list"));
  for (auto const& [first, count] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 1000}, {399, 2}, {499, 1}, {450, 550}})
    expect_holds(read(first, count), "the list: found a chunk of 4294967267 bytes in a file of ");
}

TEST(Chunks, OfOneNumberAreReadInPartsOrRefusedIfNeverWritten) {
  TemporaryFolder const folder;
  auto const numbers = some_numbers(200'000, false);
  auto const path = write_list(folder, H5T_STD_U64BE, numbers, list_properties({}, 1));
  StoredDataset const list(path, "list");
  auto const read = hdf5::read_indices<std::uint64_t>(list.dataset, 3, 199'990, "the list");
  ASSERT_EQ(read.size(), 199'990U);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), numbers.begin() + 3, [](std::uint64_t one, std::int64_t other) {
    return one == static_cast<std::uint64_t>(other);
  }));

  auto const never = folder / "never.h5";
  hsize_t const length = 200'000;
  {
    auto const file = hdf5::create_file(never, never);
    hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
    auto const properties = list_properties({}, 1);
    hdf5::Dataset const made(
        H5Dcreate2(file.id(), "list", H5T_STD_U64LE, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
  }
  auto const file = hdf5::open_file(never);
  expect_holds(sentence_of<InputError>([&] { hdf5::open_dataset(file.id(), "list", "a file"); }),
               "a file: list: found 200000 elements of which no more than 0 were ever written, expected all");
}

/// Replaces what is stored of the chunk that begins at `begin`.
void write_chunk(fs::path const& path, hsize_t begin, std::vector<char> const& bytes, std::uint32_t skipped = 0) {
  auto const lock = hdf5::lock();
  hdf5::File const file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  hdf5::Dataset const list(H5Dopen2(file.id(), "list", H5P_DEFAULT));
  EXPECT_GE(H5Dwrite_chunk(list.id(), H5P_DEFAULT, skipped, &begin, bytes.size(), bytes.data()), 0);
}

std::vector<char> deflated(std::vector<char> const& bytes) {
  std::vector<char> result(compressBound(bytes.size()));
  uLongf size = result.size();
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(result.data()), &size, reinterpret_cast<Bytef const*>(bytes.data()),
                     bytes.size()),
            Z_OK);
  result.resize(size);
  return result;
}

/// The numbers of a list of 1000 by the way that HDF5 takes part in, for its type is not one that is read here.
std::vector<std::uint64_t> read_with_hdf5(fs::path const& path) {
  StoredDataset const list(path, "list");
  return hdf5::read_indices<std::uint64_t>(list.dataset, 0, 1000, "the list");
}

TEST(Chunks, WithFewerBytesThanTheirNumbersAreRefused) { // HDF5 1.10 reads on behind them
  TemporaryFolder const folder;
  std::vector<char> const bytes(800, 1);
  for (Filters const& filters : {Filters{Filter::deflate}, Filters{Filter::shuffle, Filter::deflate}}) {
    auto const path = write_list(folder, H5T_STD_U64BE, some_numbers(1000, false), list_properties(filters, 100));
    write_chunk(path, 400, deflated(bytes));
    EXPECT_NO_THROW(read_with_hdf5(path));
    for (std::ptrdiff_t const size : {1, 200, 799}) {
      write_chunk(path, 400, deflated({bytes.begin(), bytes.begin() + size}));
      expect_holds(sentence_of<InputError>([&] { read_with_hdf5(path); }),
                   "the list: found a chunk that does not inflate to 800 bytes");
    }
    auto const all_skipped = static_cast<std::uint32_t>((1U << filters.size()) - 1);
    write_chunk(path, 400, bytes, all_skipped);
    EXPECT_EQ(read_with_hdf5(path)[400], 0x0101010101010101U);
    write_chunk(path, 400, std::vector<char>(100, 1), all_skipped);
    expect_holds(sentence_of<InputError>([&] { read_with_hdf5(path); }),
                 "the list: found a chunk of 100 bytes, expected 800");
  }
}

TEST(Chunks, ThatWereNeverWrittenAreZeros) {
  TemporaryFolder const folder;
  auto const make = [&](bool says_other) {
    auto const path = folder / "list.h5";
    fs::remove(path);
    auto const lock = hdf5::lock();
    auto const file = hdf5::create_file(path, path);
    hsize_t const length = 1000;
    hsize_t const first = 100;
    hsize_t const count = 700;
    auto const properties = list_properties({}, 100);
    std::uint64_t const fill = 7;
    if (says_other) H5Pset_fill_value(properties.id(), H5T_NATIVE_UINT64, &fill);
    hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
    hdf5::Dataset const list(
        H5Dcreate2(file.id(), "list", H5T_STD_U64BE, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
    H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, &first, nullptr, &count, nullptr);
    hdf5::Dataspace const memory(H5Screate_simple(1, &count, nullptr));
    std::vector<std::uint64_t> const ones(count, 1);
    EXPECT_GE(H5Dwrite(list.id(), H5T_NATIVE_UINT64, memory.id(), space.id(), H5P_DEFAULT, ones.data()), 0);
    return path;
  };
  std::vector<std::uint64_t> expected(1000, 0);
  std::fill_n(expected.begin() + 100, 700, 1U);
  EXPECT_EQ(read_with_hdf5(make(false)), expected);
  expect_holds(sentence_of<InputError>([&] { read_with_hdf5(make(true)); }),
               "the list: found a chunk that was never written, expected all or zeros in its place");
}

TEST(Chunks, WithOtherFiltersAreRefused) { // how many bytes they give is not known before HDF5 has read them
  TemporaryFolder const folder;
  auto const properties = list_properties({}, 100);
  H5Pset_nbit(properties.id());
  auto const path = write_list(folder, H5T_STD_U64BE, some_numbers(1000, false), properties);
  expect_holds(sentence_of<InputError>([&] { read_with_hdf5(path); }),
               "the list: found the filter 5 of HDF5, expected shuffle, deflate (once) or fletcher32");
}

TEST(Fletcher32, IsThatOfHdf5) {
  TemporaryFolder const folder;
  for (hsize_t const length : {1U, 2U, 3U, 511U, 512U, 513U, 1500U, 70001U}) {
    auto const numbers = some_numbers(length, false);
    auto const path = write_list(folder, H5T_STD_U8LE, numbers, list_properties({Filter::fletcher32}, length));
    StoredDataset const list(path, "list");
    std::vector<char> bytes(length + 4);
    hsize_t const begin = 0;
    std::uint32_t mask = 0;
    ASSERT_GE(H5Dread_chunk(list.id(), H5P_DEFAULT, &begin, &mask, bytes.data()), 0);
    auto const sum = fletcher32(std::span<char const>(bytes).first(length));
    for (std::size_t byte = 0; byte < 4; ++byte)
      EXPECT_EQ(static_cast<unsigned char>(bytes[length + byte]), sum >> (8 * byte) & 0xffU) << length;
  }
}

TEST(ChunkDecoder, RefusesBytesThatAreNoChunk) {
  ChunkFormat format{{ElementType::Kind::unsigned_integer, 4}, 10};
  std::vector<std::uint32_t> elements(10);
  std::vector<char> const bytes(40);
  EXPECT_TRUE(ChunkDecoder(format).decode(std::span(bytes), 0, std::span(elements)));
  EXPECT_FALSE(ChunkDecoder(format).decode(std::span(bytes).first(39), 0, std::span(elements)));
  EXPECT_FALSE(ChunkDecoder(format).decode(std::span(bytes), 1, std::span(elements)));
  EXPECT_FALSE(ChunkDecoder(format).decode(std::span(bytes), 11, std::span(elements).first(0)));
  format.has_checksum = true;
  EXPECT_FALSE(ChunkDecoder(format).decode(std::span(bytes).first(4), 0, std::span(elements)));
  format = {{ElementType::Kind::floating, 2}, 20}; // half precision: HDF5 knows it
  EXPECT_FALSE(ChunkDecoder(format).decode(std::span(bytes), 0, std::span(elements)));
}

} // namespace
} // namespace varve
