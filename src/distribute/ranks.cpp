#include "distribute/ranks.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/runtime.hpp"
#include "io/checksum.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr char const* same_files = "all ranks must read the same files";

std::string shown(nlohmann::ordered_json const& value) {
  if (value.is_string()) return value.get_ref<std::string const&>();
  return value.is_null() ? "not there" : json_text(value);
}

/// True if machines see files by their own names there, but the same files: NFS, Lustre, GPFS, BeeGFS, Ceph, SMB.
bool is_on_network(fs::path const& path) {
  constexpr std::array<std::uint64_t, 6> types = {0x6969, 0x0bd00bd0, 0x47504653, 0x19830326, 0x00c36400, 0xfe534d42};
  struct statfs system {};
  return statfs(path.c_str(), &system) == 0 &&
         std::ranges::find(types, static_cast<std::uint64_t>(system.f_type)) != types.end();
}

/// A text that two ranks have for one file only; empty if this rank cannot tell. On a file system of the network the
/// server sets the times, and no user sets that of the last change (ctime), so that no copy has the same.
std::string identity_of(fs::path const& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  auto const& [written, changed] = std::pair(status.st_mtim, status.st_ctim);
  auto const file = fmt::format("{} {} {}.{} {}.{}", status.st_ino, status.st_size, written.tv_sec, written.tv_nsec,
                                changed.tv_sec, changed.tv_nsec);
  if (is_on_network(path)) return file;
  std::string machine; // from its start to its end
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), machine);
  return machine.empty() ? machine : fmt::format("{} {} {}", machine, status.st_dev, file);
}

/// Equal on ranks that see the same files; another number on each rank that cannot tell.
std::uint64_t identity_of(std::vector<fs::path> const& files, int rank) {
  std::uint64_t sum = 0;
  for (auto const& file : files) {
    auto const identity = identity_of(file);
    sum = checksum(identity.empty() ? fmt::format("rank {}", rank) : identity, sum);
  }
  return sum;
}

std::uint64_t num_bytes(std::vector<fs::path> const& files) {
  std::uint64_t sum = 0;
  for (auto const& file : files) {
    std::error_code error; // a file that cannot be read is reported when it is
    auto const size = fs::file_size(file, error);
    if (!error) sum += size;
  }
  return sum;
}

/// The checksum of an input, which the first rank of those that see the same files computes.
std::uint64_t checksum_of(Communicator const& communicator, RankInput const& input) {
  auto const mine = identity_of(input.files, communicator.rank());
  auto const all = communicator.gather_everywhere({mine});
  if (std::ranges::all_of(all, [&](std::uint64_t one) { return one == mine; })) return 0;
  auto const first = std::ranges::find(all, mine) - all.begin();
  std::uint64_t sum = 0;
  communicator.together([&] {
    if (first == communicator.rank()) sum = files_checksum(input.files);
  });
  return communicator.gather_everywhere({sum})[static_cast<std::size_t>(first)];
}

} // namespace

std::vector<nlohmann::ordered_json> gather_json(Communicator const& communicator, nlohmann::ordered_json const& mine) {
  std::vector<nlohmann::ordered_json> all;
  for (auto const& text : communicator.gather(json_text(mine))) all.push_back(nlohmann::ordered_json::parse(text));
  return all;
}

void require_agreement(Communicator const& communicator, nlohmann::ordered_json const& mine, ErrorKind kind,
                       std::string const& ending) {
  if (communicator.size() == 1) return;
  auto const text = json_text(mine); // in which names of files that are no UTF-8 are others
  auto const here = nlohmann::ordered_json::parse(text);
  auto const theirs = nlohmann::ordered_json::parse(communicator.broadcast(text));
  communicator.together([&] {
    for (auto const& [name, value] : here.items()) {
      auto const other = theirs.value(name, nlohmann::ordered_json());
      if (other == value) continue;
      throw Error(kind, fmt::format("{} is {} here and {} on rank 0; {}", name, shown(value), shown(other), ending));
    }
  });
}

void require_same_inputs(Communicator const& communicator, nlohmann::ordered_json facts,
                         std::vector<RankInput> const& inputs) {
  if (communicator.size() == 1) return;
  for (auto const& input : inputs) facts[fmt::format("the number of bytes of {}", input.name)] = num_bytes(input.files);
  require_agreement(communicator, facts, ErrorKind::input, same_files);
  nlohmann::ordered_json checksums;
  for (auto const& input : inputs)
    checksums[fmt::format("the checksum of {}", input.name)] = fmt::format("{:016x}", checksum_of(communicator, input));
  require_agreement(communicator, checksums, ErrorKind::input, same_files);
}

RankDevice device_of_this_rank(Backend backend) {
  return {host_name(), device_name(backend), device_identity(backend)};
}

std::size_t num_ranks_with(Communicator const& communicator, std::string const& text) {
  auto const mine = checksum(text);
  return static_cast<std::size_t>(std::ranges::count(communicator.gather_everywhere({mine}), mine));
}

std::string kind_of(RankDevice const& device) { return device.device.substr(0, device.device.find(" (device ")); }

void require_own_devices(std::vector<RankDevice> const& devices) {
  std::vector<std::string> identities;
  for (auto const& device : devices) identities.push_back(device.identity);
  auto const ranks = first_repeated(identities);
  if (!ranks) return;
  auto const& shared = devices[ranks->second];
  fail<ResourceError>("ranks {} and {} on {} would share {}; start as many ranks as there are devices, or add --tuning "
                      "share-devices=on",
                      ranks->first, ranks->second, shared.host, shared.device);
}

RankPlaces place_ranks(Communicator const& communicator, Backend backend, bool share_devices) {
  auto const own = device_of_this_rank(backend);
  std::vector<RankDevice> devices;
  for (auto const& one : gather_json(communicator, {own.host, own.device, own.identity}))
    devices.push_back({one[0], one[1], one[2]});
  communicator.together([&] {
    if (!share_devices) require_own_devices(devices);
  });
  return {own, devices, num_ranks_with(communicator, own.identity.empty() ? own.host : own.identity),
          num_ranks_with(communicator, own.host)};
}

namespace {

std::atomic<bool> signal_has_come = false; // atomic, because a signal may arrive in any thread
static_assert(std::atomic<bool>::is_always_lock_free, "only then may a signal handler change it");

constexpr std::array<int, 2> watched_signals = {SIGTERM, SIGUSR1};

extern "C" void remember_signal(int) { signal_has_come = true; }

} // namespace

StopSignal::StopSignal() {
  signal_has_come = false;
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART; // restarts interrupted reads and writes
  for (std::size_t place = 0; place < before_.size(); ++place)
    sigaction(watched_signals[place], &action, &before_[place]);
}

StopSignal::~StopSignal() {
  for (std::size_t place = 0; place < before_.size(); ++place)
    sigaction(watched_signals[place], &before_[place], nullptr);
}

bool StopSignal::has_come() { return signal_has_come; }

} // namespace varve
