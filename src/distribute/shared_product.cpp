#include "distribute/shared_product.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "distribute/ranks.hpp"
#include "io/json_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <unordered_set>
#include <utility>

namespace varve {

TileQueue::TileQueue(Communicator const& communicator, std::vector<std::uint64_t> tasks, std::size_t station_size,
                     Stealing stealing, std::size_t run_length)
    : communicator_(communicator),
      tasks_(std::move(tasks)),
      station_size_(station_size),
      run_length_(run_length),
      stealing_(stealing),
      words_(communicator, station_size + 1) {}

std::optional<std::uint64_t> TileQueue::next(Priority const& priority) {
  fill();
  int const own = communicator_.rank();
  if (auto const task = take_from(own, priority)) return task;
  for (int step = 1; step < communicator_.size() && stealing_ == Stealing::on; ++step) {
    auto const task = take_from((own + step) % communicator_.size(), priority);
    if (!task) continue;
    ++num_stolen_;
    return task;
  }
  return std::nullopt;
}

/// Moves runs of tasks from the list to this rank's station while it has room. A word holds a task's place in the list
/// plus 1.
void TileQueue::fill() {
  int const own = communicator_.rank();
  std::vector<std::size_t> empty;
  for (std::size_t word = 0; word < station_size_ && num_taken_ < tasks_.size(); ++word) {
    if (words_.read(own, word) != 0) continue;
    empty.push_back(word);
    if (empty.size() < run_length_) continue;
    auto const first = words_.add(0, station_size_, run_length_);
    num_taken_ = std::min<std::uint64_t>(first + run_length_, tasks_.size());
    for (auto place = first; place < num_taken_; ++place) words_.exchange(own, empty[place - first], place + 1);
    empty.clear();
  }
}

/// Takes the task with the highest priority from a station; another one if somebody else is faster.
std::optional<std::uint64_t> TileQueue::take_from(int rank, Priority const& priority) {
  for (;;) {
    std::optional<std::pair<std::uint64_t, std::size_t>> best; // value and word
    std::uint64_t found = 0;
    for (std::size_t word = 0; word < station_size_; ++word) {
      auto const content = words_.read(rank, word);
      if (content == 0) continue;
      auto const value = priority(tasks_[content - 1]);
      if (best && (value < best->first || (value == best->first && content > found))) continue;
      best = {value, word};
      found = content;
    }
    if (!best) return std::nullopt;
    if (auto const taken = words_.exchange(rank, best->second, 0); taken != 0) return tasks_[taken - 1];
  }
}

std::string record_of_tile(std::uint64_t task, std::string_view numbers) {
  std::string record(sizeof(task), '\0');
  std::memcpy(record.data(), &task, sizeof(task));
  return record.append(numbers);
}

std::uint64_t task_of_record(std::string_view record) {
  std::uint64_t task = 0;
  std::memcpy(&task, record.data(), sizeof(task));
  return task;
}

std::string_view numbers_of_record(std::string_view record) { return record.substr(sizeof(std::uint64_t)); }

SampleRange range_of_tile(ProductTiles const& tiles, std::size_t element_size, std::string_view record,
                          std::string const& place) {
  bool const has_task = record.size() >= sizeof(std::uint64_t) && tiles.has_task(task_of_record(record));
  if (has_task && numbers_of_record(record).size() == tiles.block(task_of_record(record)).size() * element_size)
    return {task_of_record(record), task_of_record(record) + 1};
  throw InputError(fmt::format("{} has {} bytes, expected a tile of this product", place, record.size()));
}

std::vector<std::uint64_t> tasks_left(Communicator const& communicator, ProductTiles const& tiles,
                                      std::vector<std::uint64_t> const& order,
                                      std::vector<SampleRange> const& finished) {
  std::vector<std::uint64_t> all;
  for (auto const& range : finished) all.push_back(range.first);
  all = communicator.gather_everywhere(all);
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

TileSharing::~TileSharing() {
  leave_();
  communicator_.sum(std::uint64_t{0}); // the memory of a rank goes after all others have let it go
}

std::vector<std::optional<PeerOffer>> TileSharing::exchange(PeerOffer const& mine) const {
  auto const host = host_name();
  auto const gathered =
      gather_json(communicator_, {host, mine.layout, mine.words, mine.slots, mine.device, mine.obstacle});
  std::vector<std::optional<PeerOffer>> offers;
  for (auto const& their : nlohmann::json::parse(communicator_.broadcast(json_text(gathered)))) {
    bool const is_own = offers.size() == static_cast<std::size_t>(communicator_.rank());
    if (is_own || their[0] != host) {
      offers.emplace_back();
    } else {
      offers.push_back(PeerOffer{their[1], their[2], their[3], their[4], their[5]});
    }
  }
  return offers;
}

void TileSharing::set_peers(std::vector<std::optional<PeerOffer>> const& offers,
                            std::vector<std::string> const& obstacles) {
  for (std::size_t rank = 0; rank < offers.size(); ++rank)
    if (offers[rank]) peers_.push_back({static_cast<int>(rank), obstacles[rank]});
}

} // namespace varve
