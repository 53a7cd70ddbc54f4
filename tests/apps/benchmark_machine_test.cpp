#include "apps/benchmark_machine.hpp"

#include "io/files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace varve {
namespace {

using varve::test::TemporaryFolder;
using varve::test::write_bytes;

/// A folder that stands for /, with these files.
void fill(TemporaryFolder const& root, std::initializer_list<std::pair<char const*, char const*>> files) {
  for (auto const& [name, text] : files) {
    std::filesystem::create_directories((root / name).parent_path());
    write_bytes(root / name, text);
  }
}

TEST(GroupLimits, AreTheSmallestOfTheGroupAndItsParents) {
  TemporaryFolder const root;
  fill(root, {{"proc/self/cgroup", "0::/jobs/one\n"},
              {"sys/fs/cgroup/jobs/cpu.max", "150000 100000\n"},
              {"sys/fs/cgroup/jobs/memory.max", "max\n"},
              {"sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n"},
              {"sys/fs/cgroup/jobs/one/memory.max", "1048576\n"}});
  auto const limits = describe_group_limits(root.path());
  EXPECT_EQ(limits["processors"], 1.5);
  EXPECT_EQ(limits["memory_bytes"], 1048576.0);
}

TEST(GroupLimits, OfVersionOneAreReadToo) {
  TemporaryFolder const root;
  fill(root, {{"proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n"},
              {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n"},
              {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"},
              {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
              {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
              {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
              {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000\n"}});
  auto const limits = describe_group_limits(root.path());
  EXPECT_EQ(limits["processors"], 4.0);
  EXPECT_EQ(limits["memory_bytes"], 2000000.0);
}

TEST(GroupLimits, AreNullWhereNothingIsLimitedOrReadable) {
  TemporaryFolder const root;
  EXPECT_TRUE(describe_group_limits(root.path())["processors"].is_null());
  fill(root, {{"proc/self/cgroup", "0::/\nnonsense\n"},
              {"sys/fs/cgroup/cpu.max", "zero\n"},
              {"sys/fs/cgroup/memory.max", ""}});
  EXPECT_TRUE(describe_group_limits(root.path())["processors"].is_null());
  EXPECT_TRUE(describe_group_limits(root.path())["memory_bytes"].is_null());
}

TEST(Machine, OfAnEmptyRootSaysNullForWhatIsUnknown) {
  TemporaryFolder const root;
  auto const machine = describe_machine(root.path());
  EXPECT_TRUE(machine["processor"]["model"].is_null());
  EXPECT_TRUE(machine["processor"]["governor"].is_null());
  for (auto const* const key : {"family_number", "model_number", "instruction_sets"})
    EXPECT_TRUE(machine["processor"][key].is_null()) << key;
  EXPECT_TRUE(machine["system"]["load_average_1_minute"].is_null());
  EXPECT_FALSE(machine["build"]["compiler"].get<std::string>().empty());
}

TEST(Machine, ReadsTheProcessorAndItsClocks) {
  TemporaryFolder const root;
  fill(root, {{"proc/cpuinfo", "processor : 0\nmodel name\t: Abacus 9000\n"},
              {"proc/loadavg", "0.25 0.5 1.0 1/2 3\n"},
              {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"},
              {"sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3700000\n"}});
  auto const machine = describe_machine(root.path());
  EXPECT_EQ(machine["processor"]["model"], "Abacus 9000");
  EXPECT_EQ(machine["processor"]["governor"], "performance");
  EXPECT_EQ(machine["processor"]["max_clock_khz"], 3700000.0);
  EXPECT_EQ(machine["system"]["load_average_1_minute"], 0.25);
}

TEST(Machine, TellsProcessorsOfOneNameApart) {
  TemporaryFolder const root;
  fill(root, {{"proc/cpuinfo", "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: Abacus\n"
                               "flags\t\t: fpu sse2 fma avx avx2 avx512f avx512vl avx512_unheard_of\n\n"
                               "processor\t: 1\nmodel\t\t: 18\nflags\t\t: amx_tile\n"}});
  auto const processor = describe_machine(root.path())["processor"];
  EXPECT_EQ(processor["family_number"], "25");
  EXPECT_EQ(processor["model_number"], "17");
  EXPECT_EQ(processor["model"], "Abacus");
  EXPECT_EQ(processor["instruction_sets"].dump(), R"(["avx","fma","avx2","avx512f","avx512vl"])");
  TemporaryFolder const other;
  fill(other,
       {{"proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"}});
  auto const arm = describe_machine(other.path())["processor"];
  EXPECT_EQ(arm["family_number"], "0x41");
  EXPECT_EQ(arm["model_number"], "0xd4f");
  EXPECT_EQ(arm["instruction_sets"].dump(), R"(["asimd","sve"])");
}

TEST(Machine, CountsCoresThatRunSeveralUnits) {
  TemporaryFolder const root;
  EXPECT_TRUE(describe_machine(root.path())["processor"]["topology"]["cores"].is_null());
  fill(root, {{"sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"},
              {"sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1\n"},
              {"sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n"}});
  EXPECT_EQ(describe_machine(root.path())["processor"]["topology"]["cores"], 2);
}

} // namespace
} // namespace varve
