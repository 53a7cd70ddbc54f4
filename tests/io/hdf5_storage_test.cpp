#include "io/files.hpp"
#include "io/hdf5_edit.hpp"
#include "io/network_file.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/sample_file.hpp"

#include <functional>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::expect_holds;
using testing::open_to_edit;
using testing::random_matrix;
using testing::read_bytes;
using testing::sentence_of;
using testing::TemporaryFolder;
using testing::Values;
using testing::write_bytes;

/// Samples that Varve wrote: "samples/values" holds one number per entry.
fs::path written_samples(TemporaryFolder const& folder, Values values = Values::doubles) {
  auto const path = folder / "samples.h5";
  fs::remove(path);
  write_sample_file(path, testing::random_samples(4, 40, 30, values));
  return path;
}

/// Where the bytes of a dataset of one chunk lie in its file, and how many there are.
std::pair<std::size_t, std::size_t> stored_bytes(fs::path const& path, std::string const& name) {
  testing::StoredDataset const dataset(path, name);
  unsigned mask = 0;
  haddr_t place = 0;
  hsize_t size = 0;
  hsize_t const origin = 0;
  EXPECT_GE(H5Dget_chunk_info_by_coord(dataset.id(), &origin, &mask, &place, &size), 0) << name;
  return {place, size};
}

bool has_checksums(fs::path const& path, std::string const& name) {
  testing::StoredDataset const dataset(path, name);
  hdf5::Properties const properties(H5Dget_create_plist(dataset.id()));
  unsigned flags = 0;
  std::size_t num_values = 0;
  return H5Pget_filter_by_id2(properties.id(), H5Z_FILTER_FLETCHER32, &flags, &num_values, nullptr, 0, nullptr,
                              nullptr) >= 0;
}

TEST(StoredNumbers, HaveChecksums) {
  TemporaryFolder const folder;
  for (auto const values : {Values::doubles, Values::floats, Values::one_for_all}) {
    auto const samples = written_samples(folder, values);
    NetworkFileWriter writer(folder / "net.h5");
    testing::Generator generator(3);
    writer.append({random_matrix(generator, 20, 10, 0.4, values), std::vector<double>(20, 0.5), Activation::relu()});
    writer.commit();
    for (std::string const list : {"values", "indices_1", "pointers_to_1"}) {
      EXPECT_TRUE(has_checksums(samples, "samples/" + list)) << list;
      EXPECT_TRUE(has_checksums(folder / "net.h5", "layers/000000/weights/" + list)) << list;
    }
    EXPECT_TRUE(has_checksums(folder / "net.h5", "layers/000000/bias"));
  }
}

TEST(StoredNumbers, AnyTurnedByteIsNoticed) {
  TemporaryFolder const folder;
  for (auto const values : {Values::doubles, Values::one_for_all}) {
    auto const path = written_samples(folder, values);
    auto const good = read_bytes(path);
    for (std::string const list : {"values", "indices_1", "pointers_to_1"}) {
      auto const [place, size] = stored_bytes(path, "samples/" + list);
      ASSERT_GT(size, 0U);
      for (std::size_t byte = place; byte < place + size; byte += 1 + size / 50) {
        auto bad = good;
        bad[byte] = static_cast<char>(bad[byte] ^ 0x10);
        write_bytes(path, bad);
        auto const sentence = sentence_of<InputError>([&] { read_sample_file(path); });
        expect_holds(sentence, path.string() + ": samples: " + list);
        write_bytes(path, good);
      }
    }
  }
}

TEST(StoredNumbers, ASharedBiasIsProtectedByTheChecksumOfItsHeader) {
  TemporaryFolder const folder;
  auto const path = folder / "net.h5";
  NetworkFileWriter writer(path);
  testing::Generator generator(3);
  double const bias = -0.2718281828;
  writer.append({random_matrix(generator, 20, 10, 0.4, Values::floats), {bias}, Activation::relu()});
  writer.commit();
  auto bytes = read_bytes(path);
  auto const place = bytes.find(std::string(reinterpret_cast<char const*>(&bias), sizeof(bias)));
  ASSERT_NE(place, std::string::npos);
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  write_bytes(path, bytes);
  expect_holds(sentence_of<InputError>([&] { NetworkFile(path).layer(0); }), path.string());
}

TEST(StoredNumbers, FilesWithoutChecksumsAreReadAsBefore) {
  TemporaryFolder const folder;
  auto const path = written_samples(folder);
  auto const samples = read_sample_file(path);
  std::vector<double> const values = samples.matrix.values;
  testing::replace_list(path, "samples/values", H5T_IEEE_F64LE, values); // contiguous, as older files
  {
    auto const lock = hdf5::lock();
    auto const file = open_to_edit(path);
    ASSERT_GE(H5Ldelete(file.id(), "samples/values", H5P_DEFAULT), 0);
    hsize_t const length = values.size();
    hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
    hdf5::Dataset const dataset(
        H5Dcreate2(file.id(), "samples/values", H5T_IEEE_F64LE, space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_GE(H5Dwrite(dataset.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  }
  ASSERT_FALSE(has_checksums(path, "samples/values"));
  EXPECT_EQ(read_sample_file(path), samples);
}

/// The sentence about a file in which one dataset or group was replaced.
std::string refusal(TemporaryFolder const& folder, std::string const& name,
                    std::function<void(hid_t file, hsize_t num_entries)> const& make) {
  auto const path = written_samples(folder);
  auto const num_entries = read_sample_header(path).num_entries;
  {
    auto const lock = hdf5::lock();
    auto const file = open_to_edit(path);
    EXPECT_GE(H5Ldelete(file.id(), name.c_str(), H5P_DEFAULT), 0);
    make(file.id(), num_entries);
  }
  auto const sentence = sentence_of<InputError>([&] { read_sample_file(path); });
  expect_holds(sentence, path.string() + ": ");
  return sentence;
}

TEST(OtherFiles, ExternalLinksAreRefused) {
  TemporaryFolder const folder;
  fs::copy_file(written_samples(folder), folder / "other.h5");
  auto const link_to = [&](std::string const& name, std::string const& file_name) {
    return [&folder, name, file_name](hid_t file, hsize_t) {
      EXPECT_GE(H5Lcreate_external((folder / file_name).c_str(), ("/" + name).c_str(), file, name.c_str(), H5P_DEFAULT,
                                   H5P_DEFAULT),
                0);
    };
  };
  for (std::string const target : {"other.h5", "missing.h5"}) {
    expect_holds(refusal(folder, "samples/values", link_to("samples/values", target)),
                 "samples: found a link to another file as the dataset \"values\", expected it in this file");
    expect_holds(refusal(folder, "samples", link_to("samples", target)),
                 "found a link to another file as the group \"samples\", expected it in this file");
  }
  auto const through_soft_link = [&](hid_t file, hsize_t) {
    EXPECT_GE(H5Lcreate_external((folder / "other.h5").c_str(), "/samples", file, "aside", H5P_DEFAULT, H5P_DEFAULT),
              0);
    EXPECT_GE(H5Lcreate_soft("/aside/values", file, "samples/values", H5P_DEFAULT, H5P_DEFAULT), 0);
  };
  expect_holds(refusal(folder, "samples/values", through_soft_link), "found a link to another file");
}

TEST(OtherFiles, ExternalStorageIsRefused) {
  TemporaryFolder const folder;
  auto const make = [](hid_t file, hsize_t length) {
    hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
    EXPECT_GE(H5Pset_external(properties.id(), "/etc/passwd", 0, length), 0);
    hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
    hdf5::Dataset const dataset(
        H5Dcreate2(file, "samples/values", H5T_STD_U8LE, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
    EXPECT_GE(dataset.id(), 0);
  };
  expect_holds(refusal(folder, "samples/values", make),
               "in another file (external storage), expected them in this file");
}

TEST(OtherFiles, VirtualDatasetsAreRefused) {
  TemporaryFolder const folder;
  auto const make = [](hid_t file, hsize_t length) {
    hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
    hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
    EXPECT_GE(H5Pset_virtual(properties.id(), space.id(), "other.h5", "samples/values", space.id()), 0);
    hdf5::Dataset const dataset(
        H5Dcreate2(file, "samples/values", H5T_IEEE_F64LE, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT));
    EXPECT_GE(dataset.id(), 0);
  };
  expect_holds(refusal(folder, "samples/values", make),
               "in other datasets (virtual storage), expected them in this file");
}

TEST(OtherFiles, SoftLinksWithinTheFileAreFollowed) {
  TemporaryFolder const folder;
  auto const path = written_samples(folder);
  auto const samples = read_sample_file(path);
  {
    auto const lock = hdf5::lock();
    auto const file = open_to_edit(path);
    ASSERT_GE(H5Lmove(file.id(), "samples/values", file.id(), "aside", H5P_DEFAULT, H5P_DEFAULT), 0);
    ASSERT_GE(H5Lcreate_soft("/aside", file.id(), "samples/values", H5P_DEFAULT, H5P_DEFAULT), 0);
  }
  EXPECT_EQ(read_sample_file(path), samples);
}

/// Samples of which "samples/values" are replaced by as many ones of another floating-point type.
fs::path samples_with_values_of(TemporaryFolder const& folder, hdf5::Datatype const& type) {
  auto const path = written_samples(folder);
  hsize_t const length = read_sample_file(path).matrix.values.size();
  testing::remove_link(path, "samples/values");
  auto const lock = hdf5::lock();
  auto const file = open_to_edit(path);
  hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
  hdf5::Dataset const values(
      H5Dcreate2(file.id(), "samples/values", type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  std::vector<double> const ones(length, 1.0);
  EXPECT_GE(H5Dwrite(values.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, ones.data()), 0);
  return path;
}

TEST(StoredNumbers, MayBeOfHalfPrecision) {
  TemporaryFolder const folder;
  hdf5::Datatype const half(H5Tcopy(H5T_IEEE_F32LE));
  H5Tset_fields(half.id(), 15, 10, 5, 0, 10);
  H5Tset_size(half.id(), 2);
  H5Tset_ebias(half.id(), 15);
  auto const samples = read_sample_file(samples_with_values_of(folder, half));
  EXPECT_EQ(samples.matrix.values, std::vector<double>(samples.matrix.column_indices.size(), 1.0));
}

TEST(StoredNumbers, AreOfATypeThatComputersUse) {
  TemporaryFolder const folder;
  hdf5::Datatype const strange(H5Tcopy(H5T_IEEE_F64LE));
  H5Tset_fields(strange.id(), 63, 54, 9, 0, 54);
  auto const path = samples_with_values_of(folder, strange);
  expect_holds(sentence_of<InputError>([&] { read_sample_file(path); }),
               "values: found a type of numbers of 8 bytes that no computer uses");
}

} // namespace
} // namespace varve
