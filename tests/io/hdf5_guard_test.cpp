#include "io/files.hpp"
#include "io/hdf5_edit.hpp"
#include "io/hdf5_guard.hpp"
#include "io/open.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::expect_holds;
using testing::read_bytes;
using testing::sentence_of;
using testing::TemporaryFolder;
using testing::write_bytes;

void try_out(fs::path const& path, std::function<void()> const& walk) {
  auto const lock = hdf5::lock();
  hdf5::try_out(path, {"something", [&](hdf5::Share) { walk(); }});
}

TEST(Hdf5Guard, AChildThatDiesBecomesASentence) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "broken.h5", "some bytes");
  auto const sentence = sentence_of<InputError>([&] { try_out(path, [] { std::raise(SIGSEGV); }); });
  expect_holds(sentence, path.string() + " is a broken HDF5 file: reading its structure crashes (Segmentation fault)");
  auto const other = write_bytes(folder / "other.h5", "some bytes");
  expect_holds(sentence_of<InputError>([&] { try_out(other, [] { std::abort(); }); }), "crashes (Aborted)");
  auto const third = write_bytes(folder / "third.h5", "some bytes");
  expect_holds(sentence_of<InputError>([&] { try_out(third, [] { std::_Exit(0); }); }), "failed");
}

TEST(Hdf5Guard, AChildThatHangsBecomesASentence) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "broken.h5", "some bytes");
  auto const sentence = sentence_of<InputError>([&] {
    try_out(path, [] {
      for (int volatile turn = 0; turn >= 0;) turn = 1 - turn; // volatile: compilers must keep the endless loop
    });
  });
  expect_holds(sentence, "took more than 2 seconds of processor time");
}

#if !defined(__SANITIZE_ADDRESS__) // the sanitizer reserves its address space at the start
TEST(Hdf5Guard, AChildThatFillsTheMemoryBecomesASentence) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "broken.h5", "some bytes");
  auto const sentence = sentence_of<InputError>([&] {
    try_out(path, [] {
      std::vector<std::string> kept;
      for (;;) kept.emplace_back(1 << 20, 'x');
    });
  });
  expect_holds(sentence, "takes more than 64 MiB of memory");
}
#endif

TEST(Hdf5Guard, AnErrorOfTheChildIsThatOfTheParent) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "broken.h5", "some bytes");
  std::string const sentence(10000, 'x');
  for (int turn = 0; turn < 2; ++turn)
    EXPECT_EQ(sentence_of<InputError>([&] { try_out(path, [&] { throw InputError(sentence); }); }), sentence);
  auto const other = write_bytes(folder / "other.h5", "some bytes");
  EXPECT_EQ(sentence_of<UsageError>([&] { try_out(other, [] { throw UsageError("a sentence"); }); }), "a sentence");
}

TEST(Hdf5Guard, AFileIsTriedOnceUntilItChanges) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "good.h5", "some bytes");
  auto const walks = folder / "walks"; // what a child counts in memory is lost
  auto const walk = [&] { std::ofstream(walks, std::ios::app) << 'x'; };
  try_out(path, walk);
  try_out(path, walk);
  EXPECT_EQ(read_bytes(walks), "x");
  write_bytes(path, "more other bytes");
  try_out(path, walk);
  EXPECT_EQ(read_bytes(walks), "xx");
  try_out(folder / "missing.h5", walk);
  EXPECT_EQ(read_bytes(walks), "xx");
}

TEST(Hdf5Guard, AFileIsTriedOnceForEachThingThatIsReadOfIt) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "good.h5", "some bytes");
  auto const walks = folder / "walks";
  auto const lock = hdf5::lock();
  for (auto const* what : {"network", "record", "network"})
    hdf5::try_out(path, {what, [&](hdf5::Share) { std::ofstream(walks, std::ios::app) << what[0]; }});
  EXPECT_EQ(read_bytes(walks), "nr");
}

TEST(Hdf5Guard, SharesOfALargeFileAreWholeAndTheFirstErrorIsReported) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "large.h5", "some bytes");
  fs::resize_file(path, 100 << 20); // sparse
  auto const lock = hdf5::lock();
  auto const walked = folder / "walked";
  hdf5::try_out(path, {"items", [&](hdf5::Share share) {
                         auto const [first, last] = share.range(10);
                         std::ofstream(walked, std::ios::app) << std::string(last - first, 'x');
                       }});
  EXPECT_EQ(read_bytes(walked), std::string(10, 'x'));
  auto const sentence = sentence_of<InputError>([&] {
    hdf5::try_out(path, {"errors", [&](hdf5::Share share) {
                           if (share.number == 0) usleep(100000); // the others fail earlier
                           throw InputError("share " + std::to_string(share.number));
                         }});
  });
  EXPECT_EQ(sentence, "share 0");
}

/// A network as other programs write it: old structures without checksums, texts of variable length in a global heap.
void write_old_network(fs::path const& path) {
  {
    auto const lock = hdf5::lock();
    hdf5::File const file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    hdf5::write_integer(file.id(), "version", 1, path);
    auto const layers = hdf5::create_group(file.id(), "layers", path);
    auto const layer = hdf5::create_group(layers.id(), "000000", path);
    hdf5::write_scalar(layer.id(), "bias", -0.5, path);
    auto const weights = hdf5::create_group(layer.id(), "weights", path);
    hdf5::write_list(weights.id(), "pointers_to_1", H5T_STD_I64LE, std::vector<double>{0, 1, 2}, false, path);
    hdf5::write_list(weights.id(), "indices_1", H5T_STD_I64LE, std::vector<double>{1, 0}, false, path);
    hdf5::write_list(weights.id(), "values", H5T_IEEE_F64LE, std::vector<double>{0.5, 0.25}, false, path);
  }
  std::string const descriptor = R"({"binsparse": {"version": "0.1.0", "format": "CSR", "shape": [2, 2],
    "number_of_stored_values": 2, "data_types": {"values": "float64"}}})";
  testing::replace_text(path, "/", "format", "varve-network", true);
  testing::replace_text(path, "layers/000000", "activation", "relu", true);
  testing::replace_text(path, "layers/000000/weights", "binsparse", descriptor, true);
}

TEST(Hdf5Guard, NoChangedByteOfTheGlobalHeapCrashesOrHangs) {
  TemporaryFolder const folder;
  auto const path = folder / "net.h5";
  write_old_network(path);
  ASSERT_EQ(load(*open_network(path)).num_edges(), 2U);
  auto const bytes = read_bytes(path);
  auto const heap = bytes.find("GCOL");
  ASSERT_NE(heap, std::string::npos);
  std::size_t num_refused = 0;
  for (std::size_t place = heap; place < heap + 96; ++place) { // its head and the sizes of its first objects
    for (int const change : {0x01, 0xff}) {
      auto changed = bytes;
      changed[place] = static_cast<char>(changed[place] ^ change);
      auto const mutant = write_bytes(folder / fmt::format("{}-{}-net.h5", place, change), changed);
      try {
        load(*open_network(mutant));
      } catch (InputError const& error) {
        EXPECT_NE(std::string(error.what()).find("net.h5"), std::string::npos) << error.what();
        ++num_refused;
      }
      fs::remove(mutant);
    }
  }
  EXPECT_GT(num_refused, 20U);
}

TEST(Hdf5Guard, ChunksFarLargerThanTheListAreRefused) {
  TemporaryFolder const folder;
  auto const path = folder / "net.h5";
  write_old_network(path);
  {
    auto const lock = hdf5::lock();
    auto const file = testing::open_to_edit(path);
    ASSERT_GE(H5Ldelete(file.id(), "layers/000000/weights/values", H5P_DEFAULT), 0);
    hsize_t const length = 2;
    hsize_t const unlimited = H5S_UNLIMITED;
    hsize_t const chunk = hsize_t{1} << 27;
    hdf5::Dataspace const space(H5Screate_simple(1, &length, &unlimited));
    hdf5::Properties const properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(properties.id(), 1, &chunk);
    hdf5::Dataset const values(H5Dcreate2(file.id(), "layers/000000/weights/values", H5T_IEEE_F64LE, space.id(),
                                          H5P_DEFAULT, properties.id(), H5P_DEFAULT));
    ASSERT_GE(values.id(), 0);
  }
  expect_holds(sentence_of<InputError>([&] { open_network(path); }), "values: found chunks of 1073741824 bytes");
}

TEST(Hdf5Guard, ListsThatWereNeverWrittenAreRefused) {
  TemporaryFolder const folder;
  auto const path = folder / "samples.h5";
  save_samples({{1, 2, {0, 1}, {0}, {1.0}}, 0}, path);
  testing::remove_link(path, "samples/pointers_to_1");
  testing::replace_text(path, "samples", "binsparse", R"({"version": "0.1", "format": "CSR", "shape": [99999999, 2],
    "number_of_stored_values": 1, "data_types": {"values": "float32"}})");
  {
    auto const lock = hdf5::lock();
    auto const file = testing::open_to_edit(path);
    hsize_t const length = 100000000;
    hdf5::Dataspace const space(H5Screate_simple(1, &length, nullptr));
    hdf5::Dataset const pointers(H5Dcreate2(file.id(), "samples/pointers_to_1", H5T_STD_U64LE, space.id(), H5P_DEFAULT,
                                            H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_GE(pointers.id(), 0);
  }
  expect_holds(sentence_of<InputError>([&] { open_samples(path, 2); }),
               "pointers_to_1: found 100000000 elements of which");
}

} // namespace
} // namespace varve
