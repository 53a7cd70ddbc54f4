#include "engine/draw.hpp"
#include "io/container_edit.hpp"
#include "io/dense_file.hpp"
#include "io/files.hpp"
#include "io/network_file.hpp"
#include "io/random_data.hpp"
#include "io/sample_files.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What becomes of files of Varve of which a part is lost, and of small ones that say that they are large.
namespace varve {
namespace {

namespace fs = std::filesystem;
using test::ContainerEdit;
using test::ContainerParts;
using test::joined;
using test::Json;
using test::read_bytes;
using test::TemporaryFolder;
using test::Values;
using test::write_bytes;

/// A kind of file, and a small one of it.
struct Kind {
  char const* name;
  void (*write)(fs::path const& path);
  /// Reads all of a file; false if it is another content than that which was written.
  bool (*reads_the_same)(fs::path const& path);

  friend void PrintTo(Kind const& kind, std::ostream* out) { *out << kind.name; }
};

Network some_network() {
  auto layers = test::random_challenge_network(3, 5, 2, Values::doubles).layers();
  layers.push_back(layers.front()); // shares its weights
  return Network(std::move(layers));
}

TrainingRecord some_record() {
  TrainingRecord record{R"({"rate":0.5})", R"({"epoch":1})", {{}, 7}, std::vector<double>(11, -1.0)};
  auto const network = some_network();
  for (auto const& layer : network.layers())
    record.optimizer.layers.push_back({{std::vector<double>(layer.num_edges(), 0.1)}, {{0.25}}});
  return record;
}

SampleSet some_samples() { return test::random_samples(3, 8, 12, Values::doubles); }
SampleSet some_targets() { return test::random_samples(4, 8, 3, Values::floats); }
Labels some_labels() { return {{0, 1, 2, 3, 4, 5, 6, 7}, 0}; }

std::vector<double> some_matrix() {
  std::vector<double> numbers(15);
  for (std::size_t place = 0; place < numbers.size(); ++place) numbers[place] = 0.1 * static_cast<double>(place);
  return numbers;
}

std::vector<Kind> const kinds = {
    {"network",
     [](fs::path const& path) {
       auto const network = some_network();
       NetworkFileWriter writer(path, network.num_layers());
       for (auto const& layer : network.layers()) writer.append(layer);
       writer.commit();
     },
     [](fs::path const& path) { return load(NetworkFile(path)).layers() == some_network().layers(); }},
    {"checkpoint",
     [](fs::path const& path) {
       auto const best = test::random_challenge_network(5, 5, 2, Values::floats);
       NetworkFileWriter(path, some_network(), some_record(), &best).commit();
     },
     [](fs::path const& path) {
       NetworkFile const file(path);
       return load(file).layers() == some_network().layers() && file.training_record() == some_record() &&
              file.best() != nullptr &&
              load(*file.best()).layers() == test::random_challenge_network(5, 5, 2, Values::floats).layers();
     }},
    {"samples",
     [](fs::path const& path) {
       auto const writer = create_sample_file(path, 12);
       writer->append(some_samples());
       writer->append_labels(some_labels());
       writer->append_targets(some_targets());
       writer->commit();
     },
     [](fs::path const& path) {
       return read_sample_file(path) == some_samples() && read_sample_labels(path) == some_labels() &&
              to_set(open_sample_file(path, std::nullopt, SamplePart::targets)->read(0, 8)) == some_targets();
     }},
    {"matrix",
     [](fs::path const& path) {
       DenseFileWriter writer(path, 3, 5, Precision::double_precision);
       writer.write({0, 3, 0, 5}, some_matrix().data());
       writer.commit();
     },
     [](fs::path const& path) {
       DenseFile const file(path);
       std::vector<double> numbers(15);
       file.read({0, 3, 0, 5}, numbers.data());
       return numbers == some_matrix();
     }}};

class DamagedFiles : public ::testing::TestWithParam<Kind> {
protected:
  DamagedFiles() {
    GetParam().write(path_);
    bytes_ = read_bytes(path_);
    descriptor_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~DamagedFiles() override { close(descriptor_); }

  /// True if the file is an error now; otherwise it says what it said before.
  bool is_refused() const {
    try {
      EXPECT_TRUE(GetParam().reads_the_same(path_));
      return false;
    } catch (InputError const& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with(path_.string())) << error.what();
      return true;
    }
  }

  /// Puts other bytes at a place, expects an error or the same content, and puts back what was there. Returns whether
  /// it was an error.
  bool is_refused_with(std::size_t place, std::string const& other) const {
    write(place, other);
    bool const refused = is_refused();
    write(place, bytes_.substr(place, other.size()));
    return refused;
  }

  void write(std::size_t place, std::string const& bytes) const {
    ASSERT_EQ(pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(place)),
              static_cast<ssize_t>(bytes.size()));
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_ / "file";
  std::string bytes_;
  int descriptor_ = -1;
};

TEST_P(DamagedFiles, EveryChangedByteIsAnErrorOrSaysNothing) {
  std::size_t num_accepted = 0;
  test::Draw draw;
  for (std::size_t place = 0; place < bytes_.size(); ++place) {
    if (!draw.next()) continue;
    auto const byte = static_cast<unsigned char>(bytes_[place]);
    for (unsigned const other : {byte ^ 1U << place % 8, 0U, unsigned{' '}}) {
      if (other == byte) continue;
      ASSERT_FALSE(HasFailure()) << "at byte " << place;
      num_accepted += is_refused_with(place, std::string(1, static_cast<char>(other))) ? 0 : 1;
    }
  }
  auto const parts = ContainerParts::of(bytes_);
  std::size_t num_padded = 0; // bytes of which nothing depends, and the numbers in the names of their arrays
  for (auto const& [name, array] : parts.header.items())
    num_padded += name.starts_with("padding.") ? parts.bytes_of(array).size() + 2 : 0;
  EXPECT_LE(num_accepted, 3 * num_padded);
}

TEST_P(DamagedFiles, HolesOfZerosAreErrorsOrSayNothing) {
  auto const begin_of_arrays = bytes_.size() - ContainerParts::of(bytes_).arrays.size();
  test::Draw draw;
  for (std::size_t const length : {8U, 64U, 512U, 4096U}) {
    for (std::size_t place = 0; place < bytes_.size(); place += length / 4) {
      if (!draw.next()) continue;
      std::string const zeros(std::min(length, bytes_.size() - place), '\0');
      bool const changes = bytes_.compare(place, zeros.size(), zeros) != 0;
      EXPECT_TRUE(is_refused_with(place, zeros) || !changes || place >= begin_of_arrays);
      ASSERT_FALSE(HasFailure()) << length << " from byte " << place << " on";
    }
  }
}

TEST_P(DamagedFiles, EveryOtherLengthIsAnError) {
  test::Draw draw;
  for (std::size_t length = bytes_.size(); length-- > 0;) {
    if (!draw.next()) continue;
    fs::resize_file(path_, length);
    ASSERT_TRUE(is_refused()) << length;
  }
  for (std::size_t const more : {std::size_t{1}, std::size_t{4096}}) {
    write_bytes(path_, bytes_ + std::string(more, '\0'));
    EXPECT_TRUE(is_refused());
  }
  write_bytes(path_, bytes_);
  EXPECT_FALSE(is_refused());
}

INSTANTIATE_TEST_SUITE_P(EveryKind, DamagedFiles, ::testing::ValuesIn(kinds),
                         [](auto const& kind) { return std::string(kind.param.name); });

/// Numbers of /proc/self/status, in bytes.
std::uint64_t status_of_process(std::string const& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == name + ":" && file >> kibibytes) return kibibytes << 10U;
  }
  return 0;
}

/// The most memory that a process takes to read a file, besides what it has before, and whether the file was refused.
struct Cost {
  std::uint64_t bytes = 0;
  bool is_refused = false;

  template <class Read>
  static Cost of(Read const& read) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    if (auto const child = fork(); child != 0) {
      Cost cost;
      EXPECT_EQ(::read(ends[0], &cost, sizeof(cost)), static_cast<ssize_t>(sizeof(cost)));
      close(ends[0]);
      close(ends[1]);
      EXPECT_EQ(waitpid(child, nullptr, 0), child);
      return cost;
    }
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5; // the peak that the parent had is not that of the child
    Cost cost;
    auto const before = status_of_process("VmRSS");
    try {
      read();
    } catch (InputError const&) {
      cost.is_refused = true;
    }
    cost.bytes = status_of_process("VmHWM") - before;
    _exit(write(ends[1], &cost, sizeof(cost)) == sizeof(cost) ? 0 : 1);
  }
};

/// A network of so many layers, all of which have the weights of the first.
ContainerEdit tied_network(std::size_t num_layers) {
  ContainerEdit file;
  file.description = {{"kind", "network"}, {"version", 1}, {"layers", Json::array()}};
  auto& layers = file.description["layers"];
  for (std::size_t number = 0; number < num_layers; ++number) {
    layers.push_back({{"shape", {2, 2}}, {"activation", "relu"}});
    if (number > 0) layers.back()["weights_of"] = 0;
    file.set(fmt::format("layers.{}.bias", number), std::vector<float>{0.5});
  }
  file.set("layers.0.pointers", std::vector<std::uint32_t>{0, 1, 2});
  file.set("layers.0.indices", std::vector<std::uint16_t>{0, 1});
  file.set("layers.0.values", std::vector<float>{1, 2});
  return file;
}

/// A text many times over.
std::string repeated(std::string const& text, std::size_t count) {
  std::string all;
  for (std::size_t number = 0; number < count; ++number) all += text;
  return all;
}

void expect_cheap(std::string const& what, std::string const& bytes, bool is_refused) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "file", bytes);
  auto const cost = Cost::of([&] { load(NetworkFile(path)); });
  EXPECT_EQ(cost.is_refused, is_refused) << what;
#if !defined(VARVE_ADDRESS_SANITIZER)
  EXPECT_LT(cost.bytes, std::max<std::uint64_t>(std::uint64_t{64} << 20U, 8 * bytes.size()))
      << what << " of " << bytes.size() << " bytes";
#endif
}

TEST(SmallFiles, CostNoMoreThanTheyHold) {
  expect_cheap("layers that share weights", tied_network(1500).parts().bytes(), false);
  auto tied = tied_network(2);
  auto const with_shapes = [&](std::uint64_t outputs, std::uint64_t inputs) {
    for (auto& layer : tied.description["layers"]) layer["shape"] = {outputs, inputs};
    return tied.parts().bytes();
  };
  expect_cheap("many outputs", with_shapes(4294967295, 4294967295), true);
  expect_cheap("many inputs", with_shapes(2, 4294967295), true); // of a layer of 2 outputs
  auto const described = [](std::string const& text) {
    ContainerParts parts;
    parts.header["__metadata__"]["varve"] = text;
    parts.hash();
    return parts.bytes();
  };
  for (auto const& [text, count] : {std::pair("{},", 500'000U), std::pair("{},", 3'000'000U), std::pair("0,", 500'000U),
                                    std::pair("[[]],", 250'000U), std::pair(R"({"a":0},)", 250'000U)}) {
    expect_cheap(text, described(R"({"kind":"network","version":1,"layers":[)" + repeated(text, count) + "0]}"), true);
  }
  expect_cheap("a kind", described(R"({"kind":")" + std::string(12'000'000, 'a') + "\"}"), true);
  std::string arrays;
  std::string texts;
  for (int number = 0; number < 200'000; ++number) {
    arrays += fmt::format(R"("{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", number);
    texts += fmt::format(R"("{}":"",)", number);
  }
  expect_cheap("arrays", joined("{" + arrays + R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), true);
  auto parts = tied_network(1).parts();
  auto const header = parts.header.dump();
  expect_cheap("arrays besides a network", joined("{" + arrays + header.substr(1), parts.arrays), true);
  expect_cheap("metadata", joined(R"({"__metadata__":{)" + texts + R"("":""}})", ""), true);
}

} // namespace
} // namespace varve
