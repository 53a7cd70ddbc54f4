#include "core/host.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t no_limit = SIZE_MAX;

/// MemAvailable in bytes, or the free pages if the kernel does not report it.
std::size_t available_on_machine(fs::path const& root) {
  std::ifstream meminfo(root / "proc/meminfo");
  for (std::string key; meminfo >> key;) {
    std::size_t kibibytes = 0;
    if (key == "MemAvailable:" && meminfo >> kibibytes) return kibibytes * 1024;
    meminfo.ignore(256, '\n');
  }
  return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// True if `name` is an element of a comma-separated list.
bool names(std::string const& list, std::string const& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

/// The number in a file; none if the file is missing or contains "max".
std::size_t read_number(fs::path const& path, std::size_t none) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? number : none;
}

/// Bytes that the limits of one control group, of version 1 or 2, leave to its processes. The file caches in its usage
/// count as free, because the kernel can reclaim them.
std::size_t available_in_group(fs::path const& group, bool is_version_2) {
  auto const limit =
      is_version_2 ? std::min(read_number(group / "memory.max", no_limit), read_number(group / "memory.high", no_limit))
                   : read_number(group / "memory.limit_in_bytes", no_limit);
  if (limit == no_limit) return no_limit;
  auto used = read_number(group / (is_version_2 ? "memory.current" : "memory.usage_in_bytes"), 0);
  std::string const prefix = is_version_2 ? "" : "total_";
  std::ifstream statistics(group / "memory.stat");
  std::string name;
  for (std::size_t bytes = 0; statistics >> name >> bytes;)
    if (name == prefix + "inactive_file" || name == prefix + "active_file") used -= std::min(used, bytes);
  return limit - std::min(limit, used);
}

/// A mounted control group hierarchy that accounts memory: the mount point and the group mounted there.
struct GroupMount {
  fs::path point;
  fs::path top;
  bool is_version_2;
};

/// Parses one line of mountinfo: number, parent, device, root of the mount, mount point, options ... - type, source,
/// options. Returns nullopt unless it mounts memory control groups.
std::optional<GroupMount> parse_mount(std::string const& line) {
  auto const dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream before(line.substr(0, dash));
  std::istringstream after(line.substr(dash + 3));
  std::string number, parent, device, top, point, type, source, options;
  before >> number >> parent >> device >> top >> point;
  after >> type >> source >> options;
  bool const is_version_2 = type == "cgroup2";
  bool const has_memory = is_version_2 || (type == "cgroup" && names(options, "memory"));
  return has_memory ? std::optional(GroupMount{point, top, is_version_2}) : std::nullopt;
}

/// The group of this process in one hierarchy, from a line number:controllers:path of /proc/self/cgroup.
std::optional<fs::path> find_group(fs::path const& root, bool is_version_2) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    auto const first = line.find(':');
    auto const second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    auto const controllers = line.substr(first + 1, second - first - 1);
    if (is_version_2 ? controllers.empty() : names(controllers, "memory")) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The least number of bytes left by the group of this process and its parents up to the mount point. (In a container
/// the path of the group may be the host's, which is not visible: then only the mounted group is read.)
std::size_t available_below(GroupMount const& mount, fs::path const& root) {
  auto const group = find_group(root, mount.is_version_2);
  if (!group) return no_limit;
  auto const inside = group->lexically_relative(mount.top);
  bool const is_mounted = !inside.empty() && *inside.begin() != "..";
  fs::path folder = root / mount.point.relative_path();
  std::size_t available = available_in_group(folder, mount.is_version_2);
  if (!is_mounted) return available;
  for (auto const& name : inside) {
    folder /= name;
    available = std::min(available, available_in_group(folder, mount.is_version_2));
  }
  return available;
}

/// Bytes that a limit of this process leaves, of which it uses `used`.
std::size_t left_of_limit(decltype(RLIMIT_DATA) resource, std::size_t used) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return no_limit;
  return limit.rlim_cur - std::min<rlim_t>(limit.rlim_cur, used);
}

} // namespace

std::size_t available_host_memory(fs::path const& root) {
  auto const [addresses, data] = memory_in_use();
  auto const in_process = std::min(left_of_limit(RLIMIT_AS, addresses), left_of_limit(RLIMIT_DATA, data));
  std::size_t available = std::min(available_on_machine(root), in_process);
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);)
    if (auto const mount = parse_mount(line)) available = std::min(available, available_below(*mount, root));
  return available;
}

std::pair<std::size_t, std::size_t> memory_in_use() {
  std::size_t all = 0;
  std::size_t data = 0;
  std::size_t other = 0;
  std::ifstream("/proc/self/statm") >> all >> other >> other >> other >> other >> data;
  auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return {all * page, data * page};
}

void limit_memory_to_available() {
  constexpr std::size_t stack_bytes = std::size_t{1} << 20U;
  pthread_attr_t attributes;
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0 || pthread_getattr_default_np(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  auto const left = capped_add(available_host_memory(), num_host_threads() * stack_bytes);
  auto const most = capped_add(memory_in_use().second, left);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, most);
  setrlimit(RLIMIT_DATA, &limit);
}

std::string processor_name(fs::path const& root) {
  std::ifstream processors(root / "proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    auto const colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

double longest_wait_for_processor(fs::path const& root) {
  double longest = 0.0;
  std::error_code failed; // no such folder, or a thread that ends; the loop then ends as well
  for (fs::directory_iterator thread(root / "proc/self/task", failed), end; thread != end; thread.increment(failed)) {
    std::ifstream times(thread->path() / "schedstat");
    double computing = 0.0, waiting = 0.0; // nanoseconds
    if (times >> computing >> waiting) longest = std::max(longest, waiting * 1e-9);
  }
  return longest;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

} // namespace varve
