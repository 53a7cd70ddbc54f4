#include "core/host.hpp"

#include "io/files.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

std::string bytes(std::size_t mebibytes) { return std::to_string(mebibytes * mebibyte) + "\n"; }

/// A made-up tree of proc and sys on a machine that has 8000 MiB available.
class HostMemory : public ::testing::Test {
protected:
  HostMemory() { write("proc/meminfo", "MemTotal: 16384000 kB\nMemFree: 100 kB\nMemAvailable: 8192000 kB\n"); }

  void write(std::string const& name, std::string const& text) const {
    fs::create_directories((folder_ / name).parent_path());
    test::write_bytes(folder_ / name, text);
  }
  void mount(std::string const& line) const {
    write("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n" + line + "\n");
  }
  void mount_version_2(std::string const& top = "/") const {
    mount("31 25 0:27 " + top + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate");
  }
  void mount_version_1(std::string const& top = "/") const {
    mount("33 25 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n36 25 0:33 " + top +
          " /sys/fs/cgroup/memory rw shared:14 - cgroup cgroup rw,memory");
  }
  /// A group of version 2 that holds `used` MiB, of which `cached` can be dropped.
  void group(std::string const& name, std::string const& limit, std::size_t used, std::size_t cached = 0) const {
    std::string const path = "sys/fs/cgroup/" + name;
    write(path + "/memory.max", limit);
    write(path + "/memory.current", bytes(used));
    write(path + "/memory.stat",
          "anon 1\nfile 999999999999\ninactive_file " + bytes(cached) + "active_file 0\npgfault 5\n");
  }
  std::size_t available() const { return available_host_memory(folder_.path()) / mebibyte; }

  test::TemporaryFolder folder_;
};

TEST_F(HostMemory, WithoutGroupsIsTheMachines) {
  EXPECT_EQ(available(), 8000U);
  mount_version_2();
  EXPECT_EQ(available(), 8000U) << "the process is in no group";
}

TEST_F(HostMemory, OfAGroupIsItsLimitLessWhatIsUsedAndCannotBeDropped) {
  mount_version_2();
  write("proc/self/cgroup", "0::/job\n");
  group("job", "max\n", 100);
  EXPECT_EQ(available(), 8000U);
  group("job", bytes(1000), 300);
  EXPECT_EQ(available(), 700U);
  group("job", bytes(1000), 300, 200);
  EXPECT_EQ(available(), 900U);
  group("job", bytes(1000), 1001);
  EXPECT_EQ(available(), 0U);
  group("job", bytes(1000000), 300);
  EXPECT_EQ(available(), 8000U) << "a limit beyond the machine is none";
  write("sys/fs/cgroup/job/memory.high", bytes(500));
  EXPECT_EQ(available(), 200U);
}

TEST_F(HostMemory, OfGroupsAroundCountsToo) {
  mount_version_2();
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  group("slurm/job_7/step_0", "max\n", 10);
  group("slurm/job_7", bytes(2000), 400);
  group("slurm", bytes(9000), 3000);
  EXPECT_EQ(available(), 1600U);
  group("slurm", bytes(9000), 8500);
  EXPECT_EQ(available(), 500U);
  group("slurm/job_7/step_0", bytes(50), 10);
  EXPECT_EQ(available(), 40U);
}

TEST_F(HostMemory, OfAContainerIsThatOfTheMount) {
  mount_version_2(); // container with its own name space: its group is the root of the mount
  write("proc/self/cgroup", "0::/\n");
  group("", bytes(600), 100);
  EXPECT_EQ(available(), 500U);

  mount_version_2(
      "/docker/1234"); // container without its own name space: the mount shows a part of the host's hierarchy
  write("proc/self/cgroup", "0::/docker/1234/inner\n");
  EXPECT_EQ(available(), 500U);
  group("inner", bytes(300), 0);
  EXPECT_EQ(available(), 300U);

  write("proc/self/cgroup", "0::/elsewhere\n");
  EXPECT_EQ(available(), 500U) << "the group of the process is not mounted";
}

TEST_F(HostMemory, OfVersion1) {
  mount_version_1();
  write("proc/self/cgroup", "11:cpu:/other\n4:hugetlb,memory:/slurm/job_7\n0::/unified\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", bytes(100));
  EXPECT_EQ(available(), 8000U);
  write("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", bytes(3000));
  write("sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", bytes(1000));
  write("sys/fs/cgroup/memory/slurm/memory.stat",
        "inactive_file 9\ntotal_inactive_file " + bytes(100) + "total_active_file " + bytes(50));
  EXPECT_EQ(available(), 2150U);
  write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", bytes(300));
  EXPECT_EQ(available(), 200U);
}

TEST_F(HostMemory, OfDamagedFilesIsTheMachines) {
  mount("31 25 0:27 / /sys/fs/cgroup rw - cgroup2\nnonsense\n - \n36 - cgroup cgroup rw,memory");
  write("proc/self/cgroup", "nonsense\n::\n0::/job\n");
  group("job", "many\n", 300);
  EXPECT_EQ(available(), 8000U);
}

TEST_F(HostMemory, ProcessorsAreNamedWhereTheKernelDoes) {
  EXPECT_EQ(processor_name(folder_.path()), "");
  write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU: fast @ 2GHz\n\nprocessor\t: 1\nmodel name\t: Other\n");
  EXPECT_EQ(processor_name(folder_.path()), "Some CPU: fast @ 2GHz");
}

TEST_F(HostMemory, TheLongestWaitForAProcessorIsThatOfAThread) {
  EXPECT_EQ(longest_wait_for_processor(folder_.path()), 0.0);
  write("proc/self/task/7/schedstat", "9000000000 250000000 12\n");
  write("proc/self/task/8/schedstat", "0 1500000000 3\n");
  write("proc/self/task/9/schedstat", "nonsense\n");
  EXPECT_DOUBLE_EQ(longest_wait_for_processor(folder_.path()), 1.5);
  EXPECT_GE(longest_wait_for_processor(), 0.0);
}

TEST(HostMemoryHere, IsMoreThanNothingAndNoMoreThanTheMachine) {
  EXPECT_GT(available_host_memory(), 0U);
  EXPECT_LT(available_host_memory(), std::size_t{1} << 60U);
}

TEST(HostMemoryHere, IsWhatLimitsOfTheProcessLeave) {
  constexpr std::size_t left = std::size_t{64} << 20U;
  auto const [addresses, data] = memory_in_use();
  for (auto const& [resource, used] : {std::pair(RLIMIT_AS, addresses), std::pair(RLIMIT_DATA, data)}) {
    rlimit before{};
    ASSERT_EQ(getrlimit(resource, &before), 0);
    rlimit limit = before;
    limit.rlim_cur = used + left;
    ASSERT_EQ(setrlimit(resource, &limit), 0);
    auto const available = available_host_memory();
    setrlimit(resource, &before);
    EXPECT_LE(available, left);
    EXPECT_GT(available, left / 2);
  }
}

} // namespace
} // namespace varve
