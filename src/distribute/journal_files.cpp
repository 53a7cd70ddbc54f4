#include "distribute/journal_files.hpp"

#include "core/error.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// The rank in a file name: 3 for FILE.3; nullopt for other names.
std::optional<int> rank_of_file(fs::path const& path, std::string const& file) {
  auto const begin = path.filename().string() + ".";
  if (!file.starts_with(begin)) return std::nullopt;
  auto const number = std::string_view(file).substr(begin.size());
  int rank = 0;
  auto const [next, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  bool const is_rank = error == std::errc() && next == number.data() + number.size() && rank > 0;
  return is_rank && journal_of_rank(path, rank).filename() == file ? std::optional(rank) : std::nullopt;
}

} // namespace

fs::path journal_of_rank(fs::path const& path, int rank) {
  return rank == 0 ? path : fs::path(fmt::format("{}.{}", path.string(), rank));
}

std::vector<fs::path> journals_left(fs::path const& path, int rank, int num_ranks) {
  std::vector<int> ranks;
  std::error_code error;
  for (auto const& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", error)) {
    auto const found = rank_of_file(path, entry.path().filename().string());
    if (found && *found >= num_ranks && *found % num_ranks == rank) ranks.push_back(*found);
  }
  std::ranges::sort(ranks);
  std::vector<fs::path> files;
  for (int const left : ranks) files.push_back(journal_of_rank(path, left));
  return files;
}

void require_same_run(nlohmann::ordered_json const& head, nlohmann::ordered_json const& run, fs::path const& file) {
  for (auto const& [name, value] : run.items()) {
    if (head.contains(name) && head[name] == value) continue;
    throw InputError(fmt::format("{} is the journal of another run: {} is {} there and {} here", file.string(), name,
                                 member_text(head, name), json_text(value)));
  }
}

} // namespace varve
