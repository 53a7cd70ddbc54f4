#include "distribute/tile_store.hpp"

#include "core/error.hpp"
#include "distribute/journal_files.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <system_error>
#include <unordered_set>

namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr int tiles_version = 1;
constexpr std::size_t head_size = sizeof(std::uint64_t);

std::uint64_t task_of(std::string_view record) {
  std::uint64_t task = 0;
  std::memcpy(&task, record.data(), sizeof(task));
  return task;
}

} // namespace

TileStore::TileStore(fs::path const& folder, ProductTiles const& tiles, std::size_t element_size)
    : tiles_(tiles), element_size_(element_size) {
  files_.emplace_back(folder.empty() ? fs::path(".") : folder, RecordFile::Purpose::temporary);
}

TileStore::TileStore(fs::path const& journal, nlohmann::ordered_json const& run, ProductTiles const& tiles,
                     std::size_t element_size, int rank, int num_ranks)
    : tiles_(tiles), element_size_(element_size) {
  files_.emplace_back(journal_of_rank(journal, rank), RecordFile::Purpose::append);
  for (auto const& left : journals_left(journal, rank, num_ranks)) files_.emplace_back(left, RecordFile::Purpose::read);
  for (std::size_t number = 0; number < files_.size(); ++number)
    if (files_[number].num_records() > 0) find_tiles(number, run);
  if (files_.front().num_records() == 0) files_.front().append(json_text({{"version", tiles_version}, {"run", run}}));
}

/// Reads which tiles a journal holds. Throws InputError if it belongs to another run or a record holds no tile.
void TileStore::find_tiles(std::size_t number, nlohmann::ordered_json const& run) {
  auto const& file = files_[number];
  auto const head = parse_json(file.read(0), file.path().string());
  if (!head.is_object() || !head.contains("run") || !head["run"].is_object() || !head.contains("version"))
    throw InputError(fmt::format("{} does not begin with the description of a run", file.path().string()));
  if (head["version"] != tiles_version) {
    throw InputError(fmt::format("{} has version {} of the journal, expected {}", file.path().string(),
                                 json_text(head["version"]), tiles_version));
  }
  require_same_run(head["run"], run, file.path());
  for (std::size_t record = 1; record < file.num_records(); ++record) {
    auto const content = file.read(record);
    bool const has_task = content.size() >= head_size && tiles_.has_task(task_of(content));
    auto const task = has_task ? task_of(content) : 0;
    if (!has_task || content.size() - head_size != tiles_.block(task).size() * element_size_) {
      throw InputError(fmt::format("{}: record {} has {} bytes, expected a tile of this product", file.path().string(),
                                   record, content.size()));
    }
    tasks_.push_back(task);
    places_.push_back({number, record});
  }
}

void TileStore::add(std::uint64_t task, std::string_view numbers) {
  VARVE_REQUIRE(tiles_.has_task(task) && numbers.size() == tiles_.block(task).size() * element_size_,
                "a tile has as many numbers as its block");
  require_unchanged_inputs(); // otherwise a later run on the changed inputs would accept this tile as its own
  std::string record(head_size, '\0');
  std::memcpy(record.data(), &task, sizeof(task));
  record.append(numbers);
  places_.push_back({0, files_.front().num_records()});
  files_.front().append(record);
  tasks_.push_back(task);
}

std::string TileStore::read(std::size_t number) const {
  auto const place = places_.at(number);
  return files_[place.file].read(place.record);
}

std::uint64_t TileStore::num_discarded_bytes() const {
  return std::accumulate(files_.begin(), files_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, RecordFile const& file) { return sum + file.num_discarded_bytes(); });
}

std::optional<std::uint64_t> tile_of_journal(fs::path const& journal, int rank, int num_ranks) {
  auto files = journals_left(journal, rank, num_ranks);
  files.insert(files.begin(), journal_of_rank(journal, rank));
  for (auto const& path : files) {
    std::error_code error;
    if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) continue;
    RecordFile const file(path, RecordFile::Purpose::read);
    if (file.num_records() == 0) continue;
    auto const head = parse_json(file.read(0), path.string());
    auto const run = head.is_object() && head.contains("run") ? head["run"] : nlohmann::ordered_json();
    if (!run.is_object() || !run.contains("tile") || !run["tile"].is_number_unsigned()) continue;
    auto const tile = run["tile"].get<std::uint64_t>();
    if (tile >= 1 && tile <= largest_product_tile) return tile;
  }
  return std::nullopt;
}

std::vector<std::uint64_t> tasks_left(Communicator const& communicator, ProductTiles const& tiles,
                                      std::vector<std::uint64_t> const& order,
                                      std::vector<std::uint64_t> const& finished) {
  auto const all = communicator.gather_everywhere(finished);
  std::vector<std::uint64_t> left;
  communicator.together([&] {
    std::unordered_set<std::uint64_t> known;
    std::unordered_set<std::uint64_t> begun; // tiles of which quarters are known
    for (auto const task : all) {
      if (!known.insert(task).second) throw InputError(fmt::format("the journal holds tile {} twice", task));
      if (tiles.is_quarter(task)) begun.insert(tiles.tile_of(task));
    }
    for (auto const task : order) {
      if (known.contains(task) && begun.contains(task))
        throw InputError(fmt::format("the journal holds tile {} and a quarter of it", task));
      if (!begun.contains(task) && !known.contains(task)) left.push_back(task);
      for (std::uint64_t quarter = 0; quarter < 4 && begun.contains(task); ++quarter) {
        auto const number = tiles.first_quarter(task) + quarter;
        if (!known.contains(number)) left.push_back(number);
      }
    }
  });
  return left;
}

void for_each_own_tile(TileStore const& store,
                       std::function<void(std::uint64_t task, std::string_view numbers)> const& consume) {
  for (std::size_t number = 0; number < store.tasks().size(); ++number) {
    auto const record = store.read(number);
    consume(task_of(record), std::string_view(record).substr(head_size));
  }
}

void for_each_tile(Communicator const& communicator, TileStore const& store,
                   std::function<void(std::uint64_t task, std::string_view numbers)> const& consume) {
  auto const& tasks = store.tasks();
  std::vector<std::size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t number) { return tasks[number]; });
  std::vector<std::uint64_t> keys;
  for (auto const number : order) keys.push_back(tasks[number]);
  communicator.gather_in_order(
      keys, [&](std::size_t place) { return store.read(order[place]); },
      [&](std::string const& record) { consume(task_of(record), std::string_view(record).substr(head_size)); });
}

} // namespace varve
