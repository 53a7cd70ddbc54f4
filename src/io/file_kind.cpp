#include "io/file_kind.hpp"

#include "core/error.hpp"
#include "io/container.hpp"
#include "io/idx.hpp"
#include "io/input_files.hpp"
#include "io/line_error.hpp"
#include "io/matrix_market.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <system_error>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// How files of other programs begin.
constexpr std::array signatures = {std::pair("\x89HDF\r\n\x1a\n"sv, "an HDF5 file"),
                                   std::pair("\x93NUMPY"sv, "an array of NumPy"),
                                   std::pair("PK\x03\x04"sv, "a zip archive, as those of SciPy")};

} // namespace

bool is_container_name(fs::path const& path) { return path.extension() == ".safetensors"; }

FileKind kind_of(fs::path const& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return FileKind::absent;
  if (fs::is_directory(path, error)) return FileKind::folder;
  if (container::is_container(path)) return FileKind::container;
  auto const head = bytes_of_file(path, 0, 8);
  for (auto const& [signature, what] : signatures) {
    if (!head.starts_with(signature)) continue;
    throw InputError(fmt::format("{0} is {1}, which Varve's Python package reads: varve-convert {0} NAME.safetensors",
                                 path.string(), what));
  }
  if (is_container_name(path)) fail_at(path.string(), "no safetensors file", "one by the ending of its name");
  if (is_idx(path)) return FileKind::idx;
  return is_matrix_market(path) ? FileKind::matrix_market : FileKind::text;
}

} // namespace varve
