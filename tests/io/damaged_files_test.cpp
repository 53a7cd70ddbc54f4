#include "io/container_edit.hpp"
#include "io/dense_file.hpp"
#include "io/files.hpp"
#include "io/network_file.hpp"
#include "io/random_data.hpp"
#include "io/sample_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

/// What becomes of files of Varve of which a part is lost, and of small ones that say that they are large.
namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::ContainerEdit;
using testing::ContainerParts;
using testing::joined;
using testing::Json;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::Values;
using testing::write_bytes;

/// A kind of file, and a small one of it.
struct Kind {
  char const* name;
  void (*write)(fs::path const& path);
  /// Reads all of a file; false if it is another content than that which was written.
  bool (*reads_the_same)(fs::path const& path);

  friend void PrintTo(Kind const& kind, std::ostream* out) { *out << kind.name; }
};

Network some_network() {
  auto layers = testing::random_challenge_network(3, 5, 2, Values::doubles).layers();
  layers.push_back(layers.front()); // shares its weights
  return Network(std::move(layers));
}

TrainingRecord some_record() {
  TrainingRecord record{R"({"rate":0.5})", R"({"epoch":1})", {{}, 7}, std::vector<double>(11, -1.0)};
  for (auto const& layer : some_network().layers())
    record.optimizer.layers.push_back({{std::vector<double>(layer.num_edges(), 0.1)}, {{0.25}}});
  return record;
}

SampleSet some_samples() { return testing::random_samples(3, 8, 12, Values::doubles); }
SampleSet some_targets() { return testing::random_samples(4, 8, 3, Values::floats); }
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
       auto const best = testing::random_challenge_network(5, 5, 2, Values::floats);
       NetworkFileWriter(path, some_network(), some_record(), &best).commit();
     },
     [](fs::path const& path) {
       NetworkFile const file(path);
       return load(file).layers() == some_network().layers() && file.training_record() == some_record() &&
              file.best() != nullptr &&
              load(*file.best()).layers() == testing::random_challenge_network(5, 5, 2, Values::floats).layers();
     }},
    {"samples",
     [](fs::path const& path) {
       SampleFileWriter writer(path, 12);
       writer.append(some_samples());
       writer.append_labels(some_labels());
       writer.append_targets(some_targets());
       writer.commit();
     },
     [](fs::path const& path) {
       return read_sample_file(path) == some_samples() && read_sample_labels(path) == some_labels() &&
              SampleFileReader(path, std::nullopt, SamplePart::targets).read_set(0, 8) == some_targets();
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
  for (std::size_t place = 0; place < bytes_.size(); ++place) {
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
  for (std::size_t const length : {2U, 8U, 64U, 512U, 4096U}) {
    for (std::size_t place = 0; place < bytes_.size(); place += std::max<std::size_t>(1, length / 4)) {
      std::string const zeros(std::min(length, bytes_.size() - place), '\0');
      bool const changes = bytes_.compare(place, zeros.size(), zeros) != 0;
      bool const is_in_arrays = place >= bytes_.size() - ContainerParts::of(bytes_).arrays.size();
      EXPECT_TRUE(is_refused_with(place, zeros) || !changes || is_in_arrays);
      ASSERT_FALSE(HasFailure()) << length << " from byte " << place << " on";
    }
  }
}

TEST_P(DamagedFiles, EveryOtherLengthIsAnError) {
  for (std::size_t length = 0; length < bytes_.size(); ++length) {
    write_bytes(path_, bytes_.substr(0, length));
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

} // namespace
} // namespace varve
