#include "io/input_files.hpp"

#include "io/checksum.hpp"
#include "io/files.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "io/random_data.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::expect_holds;
using test::random_samples;
using test::read_bytes;
using test::sentence_of;
using test::TemporaryFolder;
using test::Values;
using test::write_bytes;

/// Times of files change in steps of some milliseconds.
void let_time_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(InputFiles, WhatChangesIsNamed) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "in", "text");
  auto const sentence_after = [&](auto const& change) {
    InputFiles const inputs;
    EXPECT_EQ(readable_place(path), path);
    EXPECT_NO_THROW(require_unchanged_inputs());
    let_time_pass();
    change();
    auto const sentence = sentence_of<InputError>([] { require_unchanged_inputs(); });
    if (fs::exists(path)) {
      EXPECT_EQ(sentence_of<InputError>([&] { readable_place(path); }), sentence) << "a second time";
    }
    write_bytes(path, "text");
    return sentence.substr(path.string().size());
  };
  EXPECT_EQ(sentence_after([&] { write_bytes(path, "other"); }),
            " changed while it was read: it had 4 bytes and has 5 now");
  EXPECT_EQ(sentence_after([&] { write_bytes(path, "next"); }), " changed while it was read: it was written meanwhile");
  EXPECT_EQ(sentence_after([&] {
              write_bytes(folder / "new", "text");
              fs::rename(folder / "new", path);
            }),
            " changed while it was read: it is another file now");
  EXPECT_EQ(sentence_after([&] { fs::remove(path); }), " changed while it was read: No such file or directory");
}

TEST(InputFiles, NothingAppearsThatWasMadeOfWhatHasChanged) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "in", "text");
  InputFiles const inputs;
  readable_place(path);
  OutputFile file(folder / "out");
  OutputFolder all(folder / "all");
  write_bytes(path, "other");
  EXPECT_THROW(file.commit(), InputError);
  EXPECT_THROW(all.commit(), InputError);
  EXPECT_FALSE(fs::exists(folder / "out"));
  EXPECT_FALSE(fs::exists(folder / "all"));
}

/// Writes bytes into a pipe, once.
std::jthread feed(fs::path const& pipe, std::string bytes) {
  return std::jthread([pipe, bytes = std::move(bytes)] { write_bytes(pipe, bytes); });
}

TEST(InputFiles, PipesAreReadOnceAndGiveTheirBytesAsOftenAsNeeded) {
  TemporaryFolder const folder;
  auto const samples = random_samples(4, 3000, 60, Values::doubles); // more than a pipe holds
  for (std::string const ending : {".tsv", ".tsv.gz", ".tsv.xz", ".tsv.zst", ".safetensors"}) {
    auto const file = folder / ("file" + ending);
    auto const pipe = folder / ("pipe" + ending);
    save_samples(samples, file);
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    for (std::size_t const memory : {std::size_t{0}, std::size_t{1} << 40}) {
      auto const writer = feed(pipe, read_bytes(file));
      InputFiles const inputs;
      EXPECT_TRUE(is_pipe(pipe));
      EXPECT_TRUE(holds_samples(pipe));
      auto const reader = open_sample_reader(pipe, 60, std::nullopt, memory);
      EXPECT_EQ(to_set(reader->read(0, 3000)), samples) << ending;
      EXPECT_EQ(file_checksum(pipe), file_checksum(file)) << ending;
      EXPECT_NO_THROW(require_unchanged_inputs());
    }
  }
}

TEST(InputFiles, MayBeReplacedOnceTheyAreReleased) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "file", "one");
  InputFiles const inputs;
  EXPECT_EQ(readable_place(path), path);
  release_input(path);
  release_input(folder / "another");
  write_bytes(path, "something else");
  EXPECT_NO_THROW(require_unchanged_inputs());
  EXPECT_EQ(readable_place(path), path);
  write_bytes(path, "again");
  EXPECT_THROW(release_input(path), InputError);
}

TEST(InputFiles, FoldersAndDevicesAreNoFiles) {
  TemporaryFolder const folder;
  EXPECT_EQ(sentence_of<InputError>([] { readable_place("/dev/zero"); }),
            "/dev/zero is a device, expected a file or a pipe");
  EXPECT_EQ(sentence_of<InputError>([] { file_checksum("/dev/zero"); }),
            "/dev/zero is a device, expected a file or a pipe");
  EXPECT_EQ(sentence_of<InputError>([&] { file_checksum(folder.path()); }),
            folder.path().string() + " is a folder, expected a file");
  expect_holds(sentence_of<InputError>([&] { open_samples(folder.path(), 4); }), "is a folder, expected a file");
  expect_holds(sentence_of<InputError>([&] { open_samples("/dev/full", 4); }), "is a device");
  expect_holds(sentence_of<InputError>([&] { open_network("/dev/zero"); }), "is a device");
  EXPECT_EQ(open_samples("/dev/null", 4).num_samples(), 0U);

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof(address.sun_path) - 1);
  int const socket_number = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(socket_number, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  expect_holds(sentence_of<InputError>([&] { open_samples(folder / "socket", 4); }), "is a socket");
  close(socket_number);
}

} // namespace
} // namespace varve
