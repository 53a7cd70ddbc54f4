#include "io/output_file.hpp"

#include "io/files.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/sample_reader.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varve {
namespace {

using Calls = std::vector<std::string>;

// What the calls of the operating system below are told; zero until a test begins.
Calls* recorded_calls = nullptr; ///< null: calls are not recorded
int sync_error = 0;              ///< fsync fails with this error; 0: it does what it does
std::string counted;             ///< the path whose openings are counted
std::atomic<int> num_opened = 0;

/// The last part of a path, without the random digits of a partial output.
std::string short_name(std::string const& path) {
  auto const name = path.substr(path.rfind('/') + 1);
  constexpr std::string_view mark = ".partial-";
  auto const place = name.find(mark);
  return place == std::string::npos ? name : name.substr(0, place + mark.size());
}

std::string name_of_descriptor(int descriptor) {
  std::string name(4096, '\0');
  auto const link = "/proc/self/fd/" + std::to_string(descriptor);
  auto const length = readlink(link.c_str(), name.data(), name.size());
  return short_name(name.substr(0, length < 0 ? 0 : static_cast<std::size_t>(length)));
}

/// Opens a file as the operating system does. Records files that are created and those that must be no links.
int open_recorded(char const* name, int flags, mode_t mode) {
  if (recorded_calls != nullptr && (flags & (O_CREAT | O_NOFOLLOW)) != 0) {
    auto call = "open " + short_name(name);
    if ((flags & O_CREAT) != 0) call += " O_CREAT";
    if ((flags & O_EXCL) != 0) call += " O_EXCL";
    if ((flags & O_NOFOLLOW) != 0) call += " O_NOFOLLOW";
    recorded_calls->push_back(call);
  }
  if (name == counted) ++num_opened;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, name, flags, mode));
}

mode_t mode_of(int flags, va_list& rest) {
  bool const has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

} // namespace
} // namespace varve

// In this program these take the place of those of the C library.
extern "C" int open(char const* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto const mode = varve::mode_of(flags, rest);
  va_end(rest);
  return varve::open_recorded(name, flags, mode);
}

extern "C" int open64(char const* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  auto const mode = varve::mode_of(flags, rest);
  va_end(rest);
  return varve::open_recorded(name, flags, mode);
}

extern "C" int fsync(int descriptor) {
  if (varve::recorded_calls != nullptr)
    varve::recorded_calls->push_back("fsync " + varve::name_of_descriptor(descriptor));
  if (varve::sync_error == 0) return static_cast<int>(syscall(SYS_fsync, descriptor));
  errno = varve::sync_error;
  return -1;
}

extern "C" int rename(char const* from, char const* to) noexcept {
  if (varve::recorded_calls != nullptr)
    varve::recorded_calls->push_back("rename " + varve::short_name(from) + " " + varve::short_name(to));
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

namespace varve {
namespace {

using test::sentence_of;
using test::TemporaryFolder;

/// What `work` calls.
template <class Work>
Calls calls_of(Work const& work) {
  Calls calls;
  recorded_calls = &calls;
  work();
  recorded_calls = nullptr;
  return calls;
}

TEST(SyncedOutputs, AFileIsOnTheDiskBeforeItsNameAndItsNameBeforeCommitReturns) {
  TemporaryFolder const folder;
  auto const calls = calls_of([&] {
    OutputFile file(folder / "out.txt");
    file.write("text");
    file.commit();
  });
  EXPECT_EQ(calls, (Calls{"open out.txt.partial- O_CREAT O_EXCL O_NOFOLLOW", "fsync out.txt.partial-",
                          "rename out.txt.partial- out.txt", "fsync " + short_name(folder.path())}));
}

TEST(SyncedOutputs, AFolderIsOnTheDiskWithItsFilesBeforeItsName) {
  TemporaryFolder const folder;
  auto const calls = calls_of([&] {
    OutputFolder network(folder / "net");
    OutputFile layer(network.partial_path() / "n32-l1.tsv", Appears::with_folder);
    layer.write("text");
    layer.commit();
    network.commit();
  });
  EXPECT_EQ(calls,
            (Calls{"open net.partial- O_NOFOLLOW", "open n32-l1.tsv O_CREAT O_EXCL O_NOFOLLOW", "fsync n32-l1.tsv",
                   "fsync net.partial-", "rename net.partial- net", "fsync " + short_name(folder.path())}));
}

TEST(SyncedOutputs, ADiskThatFailsLeavesTheOlderFile) {
  TemporaryFolder const folder;
  auto const path = test::write_bytes(folder / "out.txt", "older");
  {
    OutputFile file(path);
    file.write("newer");
    sync_error = EIO;
    EXPECT_EQ(sentence_of<ResourceError>([&] { file.commit(); }),
              path.string() + " cannot be written: Input/output error");
    sync_error = 0;
  }
  EXPECT_EQ(test::read_bytes(path), "older");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(SyncedOutputs, AFileSystemThatCannotSyncIsTaken) {
  TemporaryFolder const folder;
  OutputFile file(folder / "out.txt");
  file.write("text");
  sync_error = EINVAL;
  EXPECT_NO_THROW(file.commit());
  sync_error = 0;
  EXPECT_EQ(test::read_bytes(folder / "out.txt"), "text");
}

/// Calls `read`; returns how often it opens the file.
template <class Read>
int openings_of(std::filesystem::path const& path, Read const& read) {
  counted = path.string();
  num_opened = 0;
  read();
  counted.clear();
  return num_opened;
}

TEST(OpenedInputs, AreOpenedAFewTimesHoweverManyLayersOrPartsAreRead) {
  TemporaryFolder const folder;
  auto const network = test::random_challenge_network(1, 8, 480, test::Values::floats);
  save_network(network, folder / "net.safetensors");
  auto const samples = test::random_samples(2, 3000, 8, test::Values::doubles);
  save_samples(samples, folder / "samples.safetensors");
  EXPECT_LE(openings_of(folder / "net.safetensors", [&] { load(*open_network(folder / "net.safetensors")); }), 3);
  EXPECT_LE(openings_of(folder / "samples.safetensors",
                        [&] {
                          auto const reader = open_sample_reader(folder / "samples.safetensors", 8, std::nullopt, 0);
                          for (std::size_t first = 0; first < 3000; ++first) reader->read(first, first + 1);
                        }),
            3);
}

} // namespace
} // namespace varve
