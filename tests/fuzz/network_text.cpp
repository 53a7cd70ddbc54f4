#include "fuzz/target.hpp"

#include "io/open.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace varve::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_files = 8;

/// Takes the bytes up to `mark`, or all of them, off the front of `rest`; the mark goes as well.
std::string_view take_until(std::string_view& rest, std::string_view mark) {
  auto const length = std::min(rest.find(mark), rest.size());
  auto const taken = rest.substr(0, length);
  rest.remove_prefix(std::min(length + mark.size(), rest.size()));
  return taken;
}

/// A folder of the files that an input holds: each is a line @NAME and the lines up to the next one that begins with @.
fs::path folder_of(std::string_view bytes) {
  auto const folder = scratch_folder() / "network";
  fs::remove_all(folder);
  fs::create_directory(folder);
  if (bytes.starts_with('@')) bytes.remove_prefix(1);
  for (std::size_t number = 0; number < max_files && !bytes.empty(); ++number) {
    auto contents = take_until(bytes, "\n@");
    std::string name(take_until(contents, "\n").substr(0, 200));
    std::ranges::replace(name, '/', '_');
    std::ranges::replace(name, '\0', '_');
    if (name.empty() || name == "." || name == "..") continue;
    file_of(contents, "network/" + name);
  }
  return folder;
}

} // namespace

/// A network in text: a folder of layer files.
VARVE_FUZZ_TARGET(network_text) {
  ChallengeOptions options;
  options.bias = -0.25;
  auto const folder = folder_of(bytes);
  auto const network = open_network(folder, options);
  network_checksum(folder, options);
  for (std::size_t number = 0; number < network->num_layers(); ++number) require_valid(network->layer(number), number);
}

} // namespace varve::fuzz
