#include "distribute/shared_product.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

namespace varve {
namespace {

BatchRules rules(std::size_t grain, bool are_alike) {
  return {.grain = grain,
          .most = std::numeric_limits<SampleIndex>::max(),
          .max_seconds = std::nullopt,
          .are_alike = are_alike};
}

} // namespace

TileQueue::TileQueue(Communicator const& communicator, std::vector<std::uint64_t> tasks, bool are_alike,
                     std::size_t run_length)
    : tasks_(std::move(tasks)),
      num_in_runs_(tasks_.size() / run_length * run_length -
                   std::min(tasks_.size() / run_length, static_cast<std::size_t>(communicator.size())) * run_length),
      runs_(communicator, left_over(num_in_runs_, {}), rules(run_length, are_alike)),
      last_(communicator, left_over(tasks_.size(), {{0, num_in_runs_}}), rules(1, are_alike)) {}

std::optional<std::uint64_t> TileQueue::next(Priority const& priority, std::uint64_t num_finished) {
  constexpr std::ptrdiff_t max_compared = 8;
  if (batch_.empty()) {
    for (auto* const queue : {&runs_, &last_})
      if (num_finished > 0) queue->set_speed(static_cast<double>(num_finished) / time_.seconds());
    auto range = runs_.next();
    if (!range) range = last_.next();
    if (!range) return std::nullopt;
    auto const place = tasks_.begin();
    batch_.assign(place + static_cast<std::ptrdiff_t>(range->first),
                  place + static_cast<std::ptrdiff_t>(range->second));
  }
  auto const last = std::min(batch_.end(), batch_.begin() + max_compared);
  auto const best = std::ranges::max_element(batch_.begin(), last, {}, std::cref(priority)); // of equal ones the first
  auto const task = *best;
  batch_.erase(best);
  return task;
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
  bool const has_task = record.size() >= sizeof(std::uint64_t) && task_of_record(record) < tiles.num_tasks();
  if (has_task && numbers_of_record(record).size() == tiles.block(task_of_record(record)).size() * element_size)
    return {task_of_record(record), task_of_record(record) + 1};
  fail<InputError>("{} has {} bytes, expected a tile of this product", place, record.size());
}

std::vector<std::uint64_t> tasks_left(Communicator const& communicator, std::vector<std::uint64_t> const& order,
                                      std::vector<SampleRange> const& finished) {
  std::vector<std::uint64_t> all;
  for (auto const& range : finished) all.push_back(range.first);
  all = communicator.gather_everywhere(all);
  std::vector<std::uint64_t> left;
  communicator.together([&] {
    std::unordered_set<std::uint64_t> known;
    for (auto const task : all)
      if (!known.insert(task).second) fail<InputError>("the journal holds tile {} twice", task);
    for (auto const task : order)
      if (!known.contains(task)) left.push_back(task);
  });
  return left;
}

TileSharing::~TileSharing() {
  leave_();
  communicator_.sum(std::uint64_t{0}); // the memory of a rank goes after all others have let it go
}

} // namespace varve
