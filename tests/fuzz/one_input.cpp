#include "fuzz/target.hpp"

#include "core/error.hpp"

#include <pthread.h>
#include <unistd.h>

#if __has_include(<sanitizer/common_interface_defs.h>)
#include <sanitizer/common_interface_defs.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <system_error>

namespace varve::fuzz {
namespace {

namespace fs = std::filesystem;

class ScratchFolder {
public:
  ScratchFolder() {
    std::error_code error;
    auto const parent = fs::is_directory("/dev/shm", error) ? fs::path("/dev/shm") : fs::temp_directory_path();
    std::string name = (parent / "varve-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made in " + parent.string());
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (getpid() == owner_) fs::remove_all(path_, ignored);
  }
  ScratchFolder(ScratchFolder const&) = delete;
  ScratchFolder& operator=(ScratchFolder const&) = delete;

  fs::path const& path() const { return path_; }

private:
  fs::path path_;
  pid_t owner_ = getpid();
};

std::map<std::string, Target>& known_targets() {
  static std::map<std::string, Target> targets;
  return targets;
}

} // namespace

bool add_target(char const* name, Target target) { return known_targets().emplace(name, target).second; }

Target find_target(std::string const& name) {
  auto const& targets = known_targets();
  auto const found = name.empty() ? targets.begin() : targets.find(name);
  if (found == targets.end()) throw std::logic_error("there is no fuzz target " + name);
  return found->second;
}

bool read_and_check(Target target, std::string_view bytes) {
  try {
    target(bytes);
    return true;
  } catch (Error const& error) {
    require(!std::string_view(error.what()).empty(), "the message of an error is empty");
    return false;
  }
}

fs::path const& scratch_folder() {
  static ScratchFolder const folder;
  return folder.path();
}

fs::path file_of(std::string_view bytes, std::string const& name) {
  auto const path = scratch_folder() / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error(path.string() + " cannot be written");
  return path;
}

} // namespace varve::fuzz

#if defined(VARVE_ADDRESS_SANITIZER)
namespace {

/// A child process may die, for that is what it is there for: then libFuzzer writes no finding.
void die_silently() {
  __sanitizer_set_death_callback(+[] {});
}

[[maybe_unused]] int const is_child_silent = pthread_atfork(nullptr, nullptr, die_silently);

} // namespace
#endif

/// The entry of libFuzzer.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t size) {
  static auto const target = varve::fuzz::find_target("");
  varve::fuzz::read_and_check(target, {reinterpret_cast<char const*>(bytes), size});
  return 0;
}
