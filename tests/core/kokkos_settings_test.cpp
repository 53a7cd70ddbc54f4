#include "core/runtime.hpp"
#include "io/files.hpp"

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::expect_holds;
using test::sentence_of;

void require_arguments(std::vector<std::string> words, std::optional<int> num_devices = std::nullopt) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  require_valid_settings(arguments, num_devices);
}

/// A variable of the environment that is put back.
class Variable {
public:
  Variable(char const* name, char const* value) : name_(name) {
    if (char const* const before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

private:
  char const* name_;
  std::optional<std::string> before_;
};

TEST(KokkosSettings, GoodOnesAreTaken) {
  require_arguments({"--kokkos-num-threads=8", "--kokkos-device-id=3", "--kokkos-map-device-id-by=mpi_rank",
                     "--kokkos-disable-warnings", "--kokkos-print-configuration=no", "--kokkos-tools-libs=libtool.so"});
  require_arguments({"--kokkos-device-id=3"}, 4);
  Variable const threads("OMP_NUM_THREADS", "4, 2");
  Variable const stack("OMP_STACKSIZE", "16M");
  Variable const visible("KOKKOS_VISIBLE_DEVICES", "0,1");
  require_arguments({});
}

TEST(KokkosSettings, BadOptionsAreNamed) {
  for (std::string const value : {"banana", "0", "-5", "100000", "", "4x", "99999999999999999999", "1e3"}) {
    auto const option = "--kokkos-num-threads=" + value;
    auto const sentence = sentence_of<UsageError>([&] { require_arguments({option}); });
    expect_holds(sentence, "--kokkos-num-threads is '" + value + "'");
    expect_holds(sentence, "from 1 to 512");
  }
  expect_holds(sentence_of<UsageError>([] { require_arguments({"--kokkos-device-id=4"}, 4); }), "from 0 to 3");
  expect_holds(sentence_of<UsageError>([] { require_arguments({"--kokkos-device-id=-1"}); }), "'-1'");
  expect_holds(sentence_of<UsageError>([] { require_arguments({"--kokkos-map-device-id-by=rank"}); }), "mpi_rank");
  expect_holds(sentence_of<UsageError>([] { require_arguments({"--kokkos-disable-warnings=maybe"}); }), "yes or no");
  expect_holds(sentence_of<UsageError>([] { require_arguments({"--kokkos-num-threads"}); }), "equals sign");
  expect_holds(sentence_of<UsageError>([] { require_arguments({"--kokkos-threads=4"}); }),
               "no option --kokkos-threads");
  expect_holds(sentence_of<UsageError>([] { require_arguments({"--kokkos-"}); }), "no option");
}

TEST(KokkosSettings, BadVariablesAreNamed) {
  struct Case {
    char const* name;
    std::vector<char const*> values;
  };
  std::vector<Case> const cases = {{"KOKKOS_NUM_THREADS", {"banana", "0", "-5", "100000", ""}},
                                   {"KOKKOS_DEVICE_ID", {"gpu", "-1", ""}},
                                   {"KOKKOS_MAP_DEVICE_ID_BY", {"luck"}},
                                   {"KOKKOS_VISIBLE_DEVICES", {"0,x", "-1", "0,,1"}},
                                   {"KOKKOS_DISABLE_WARNINGS", {"maybe"}},
                                   {"OMP_NUM_THREADS", {"banana", "0", "-5", "100000", "4,0"}},
                                   {"OMP_STACKSIZE", {"100000G", "big", "-1M"}}};
  for (auto const& [name, values] : cases) {
    for (auto const* const value : values) {
      Variable const variable(name, value);
      auto const sentence = sentence_of<UsageError>([] { require_arguments({}); });
      expect_holds(sentence, std::string("the environment variable ") + name + " is '" + value + "'");
    }
  }
}

TEST(KokkosSettings, TellHowManyThreadsStartAndTheirStacks) {
  auto const asked = [](std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    return num_threads_for_kokkos(arguments);
  };
  {
    Variable const number("KOKKOS_NUM_THREADS", "7");
    EXPECT_EQ(asked({}), 7U);
    EXPECT_EQ(asked({"--kokkos-device-id=3", "--kokkos-num-threads=12"}), 12U) << "the command line wins";
  }
  std::vector<std::pair<char const*, std::size_t>> const stacks = {
      {"512B", 512}, {"64", 64U << 10U}, {" 2 k ", 2U << 10U}, {"16M", 16U << 20U}, {"1G", 1U << 30U}};
  for (auto const& [text, bytes] : stacks) {
    Variable const stack("OMP_STACKSIZE", text);
    EXPECT_EQ(stack_of_openmp_threads(), bytes) << text;
  }
  Variable const none("OMP_STACKSIZE", "");
  EXPECT_GE(stack_of_openmp_threads(), 16U << 10U) << "that of the system";
}

TEST(KokkosSettings, ThreadsWithoutRoomForTheirStacksAreNamed) {
  constexpr std::size_t tebibyte = std::size_t{1} << 40U;
  EXPECT_EQ(
      sentence_of<ResourceError>([] { require_room_for_threads(513, tebibyte); }),
      "513 threads with stacks of 1073741824 KiB cannot be started: Cannot allocate memory; lower OMP_NUM_THREADS "
      "or OMP_STACKSIZE, or raise the limit of memory (ulimit -v)"); // without a wish of its own a mapping gets no
                                                                     // address above 48 bits
  EXPECT_NO_THROW(require_room_for_threads(1, 512 * tebibyte)) << "the first thread runs already";
  EXPECT_NO_THROW(require_room_for_threads(3, std::size_t{1} << 20U));
}

} // namespace
} // namespace varve
