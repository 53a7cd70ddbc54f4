#include "distribute/batch_queue.hpp"

#include "core/config.hpp"
#include "core/error.hpp"

#if VARVE_HAVE_MPI
#include <mpi.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace varve {

struct SharedWords::Window {
  std::vector<std::uint64_t> own; ///< used if there is one rank
#if VARVE_HAVE_MPI
  MPI_Win window = MPI_WIN_NULL;
#endif
};

SharedWords::SharedWords(Communicator const& communicator, std::size_t num_words)
    : window_(std::make_unique<Window>()) {
  if (communicator.size() == 1) window_->own.assign(num_words, 0);
#if VARVE_HAVE_MPI
  if (communicator.size() == 1) return;
  std::uint64_t* words = nullptr;
  MPI_Win_allocate(static_cast<MPI_Aint>(num_words * sizeof(*words)), sizeof(*words), MPI_INFO_NULL, MPI_COMM_WORLD,
                   static_cast<void*>(&words), &window_->window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_->window);
  std::fill_n(words, num_words, 0);
  MPI_Win_sync(window_->window);
  MPI_Barrier(MPI_COMM_WORLD);
#endif
}

SharedWords::~SharedWords() {
#if VARVE_HAVE_MPI
  if (window_->window == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(window_->window);
  MPI_Win_free(&window_->window);
#endif
}

std::uint64_t SharedWords::add(std::size_t word, std::uint64_t number) {
#if VARVE_HAVE_MPI
  if (window_->window != MPI_WIN_NULL) {
    std::uint64_t before = 0;
    MPI_Fetch_and_op(&number, &before, MPI_UINT64_T, 0, static_cast<MPI_Aint>(word), MPI_SUM, window_->window);
    MPI_Win_flush(0, window_->window);
    return before;
  }
#endif
  return std::exchange(window_->own[word], window_->own[word] + number);
}

namespace {

/// The counters shared by all ranks.
enum Counter : std::size_t {
  next_place,   ///< position in the queue of the next sample to hand out
  is_stopped,   ///< nonzero once a rank has stopped the queue
  speed_sum,    ///< sum of the speeds of all ranks that have finished a batch, in units of speed_unit
  num_measured, ///< number of ranks that have finished a batch
  num_gone,     ///< number of ranks that left because they were too slow
  num_counters
};

constexpr double speed_unit = 1e-3;           ///< in samples per second; speeds are counted in whole multiples of it
constexpr double min_seconds = 0.02;          ///< least duration of a batch, approximately
constexpr SampleIndex largest_growth = 4;     ///< largest ratio of the sizes of two consecutive batches
constexpr SampleIndex tile_samples = 64;      ///< a multiple of every tile width
constexpr SampleIndex grains_of_input = 1024; ///< number of grains in an input; larger inputs have more
constexpr SampleIndex largest_grain = 4096;

SampleIndex rounded_up_to(SampleIndex number, SampleIndex step) {
  return capped_multiply(number / step + (number % step == 0 ? 0 : 1), step);
}

SampleIndex samples_in(double seconds, double speed) {
  constexpr double most = 1e18;
  return static_cast<SampleIndex>(std::min(seconds * speed, most));
}

/// The sum of all ranks' speeds. A rank that has not finished a batch counts as fast as this one.
double speed_of_all(QueueState const& state) {
  return state.known_speeds + static_cast<double>(state.num_ranks - state.num_known) * state.own_speed;
}

/// The part of all work that this rank does, by speed; before its first batch, an equal part.
double share_of(QueueState const& state) {
  if (state.own_speed <= 0.0) return 1.0 / static_cast<double>(state.num_ranks);
  return state.own_speed / speed_of_all(state);
}

SampleIndex half_of_share(QueueState const& state) {
  auto const half = state.num_ranks == 1 ? 1.0 : share_of(state) / 2.0;
  return static_cast<SampleIndex>(std::ceil(static_cast<double>(state.remaining) * half));
}

/// This rank's share of the round in which the queue is.
SampleIndex share_of_round(QueueState const& state, BatchRules const& rules) {
  auto const share = share_of(state);
  auto const least = 2.0 * static_cast<double>(rules.least);
  SampleIndex begin = 0;
  for (;;) {
    auto const rest = state.taken + state.remaining - begin;
    bool const is_last = state.num_ranks == 1 || rest < 2 || share * static_cast<double>(rest) < least;
    auto const length = is_last ? rest : rest - rest / 2;
    if (is_last || state.taken < begin + length) {
      return static_cast<SampleIndex>(std::ceil(share * static_cast<double>(length)));
    }
    begin += length;
  }
}

SampleIndex within_rules(SampleIndex wanted, QueueState const& state, BatchRules const& rules) {
  bool const has_speed = state.own_speed > 0.0;
  if (rules.max_seconds && has_speed) wanted = std::min(wanted, samples_in(*rules.max_seconds, state.own_speed));
  // If all remaining samples fit in one batch, take them all, even if they are no multiple of the grain: no tiny last
  // batch.
  if (state.remaining > rules.most) wanted = std::min(wanted, rules.most / rules.grain * rules.grain);
  return rounded_up_to(std::max<SampleIndex>(wanted, 1), rules.grain);
}

} // namespace

std::string to_string(Schedule schedule) {
  constexpr std::array names = {"static", "dynamic", "together"};
  return names.at(static_cast<std::size_t>(schedule));
}

Schedule parse_schedule(std::string const& name) {
  for (auto const schedule : {Schedule::fixed, Schedule::dynamic})
    if (name == to_string(schedule)) return schedule;
  fail<UsageError>("there is no schedule '{}'; there are: static, dynamic", name);
}

SampleIndex grain_of(SampleIndex num_samples) {
  SampleIndex const part = (num_samples + grains_of_input - 1) / grains_of_input;
  if (part < tile_samples / 2) return std::max<SampleIndex>(part, 1);
  return std::min(rounded_up_to(part, tile_samples), largest_grain);
}

std::vector<SampleRange> left_over(SampleIndex num_samples, std::vector<SampleRange> finished) {
  std::ranges::sort(finished);
  std::vector<SampleRange> left;
  SampleIndex next = 0;
  for (auto const& [first, last] : finished) {
    if (first < next || last < first || last > num_samples) {
      fail<InputError>("the journal holds the samples {} to {}, expected each of {} samples once", first + 1, last,
                       num_samples);
    }
    if (first > next) left.emplace_back(next, first);
    next = last;
  }
  if (next < num_samples) left.emplace_back(next, num_samples);
  return left;
}

SampleIndex next_batch_size(QueueState const& state, BatchRules const& rules) {
  if (rules.one_grain || (state.own_speed <= 0.0 && !rules.are_alike)) return rules.grain;
  auto wanted = rules.are_alike ? share_of_round(state, rules) : half_of_share(state);
  wanted = std::max(wanted, samples_in(min_seconds, state.own_speed));
  if (!rules.are_alike) wanted = std::min(wanted, largest_growth * std::max(state.last_batch, rules.grain));
  return within_rules(wanted, state, rules);
}

bool is_too_slow(QueueState const& state, BatchRules const& rules) {
  auto const others = speed_of_all(state) - state.own_speed;
  if (state.own_speed <= 0.0 || others <= 0.0) return false;
  // The other ranks work in grains as well: each may have just begun one.
  auto const work = capped_add(state.remaining, capped_multiply(state.num_ranks - 1, rules.grain));
  return static_cast<double>(rules.grain) / state.own_speed > static_cast<double>(work) / others;
}

BatchQueue::BatchQueue(Communicator const& communicator, std::vector<SampleRange> ranges, BatchRules rules)
    : communicator_(communicator),
      ranges_(std::move(ranges)),
      places_({0}),
      rules_(rules),
      counters_(communicator, num_counters) {
  for (auto const& [first, last] : ranges_) places_.push_back(places_.back() + last - first);
  auto const num_places = places_.back();
  auto const num_grains = (num_places + rules_.grain - 1) / rules_.grain;
  bool const is_whole = rules_.schedule == Schedule::together;
  auto const [first, last] =
      is_whole ? SampleRange{0, num_grains} : static_part(num_grains, communicator.rank(), communicator.size());
  part_ = {std::min(first * rules_.grain, num_places), std::min(last * rules_.grain, num_places)};
}

std::size_t BatchQueue::max_unfinished() const {
  bool const is_dynamic = rules_.schedule == Schedule::dynamic;
  bool const sizes_need_speed = is_dynamic ? !rules_.are_alike : rules_.max_seconds && !rules_.one_grain;
  if (sizes_need_speed && speed_ <= 0.0) return 1;
  return is_dynamic && communicator_.size() > 1 ? 2 : 3;
}

std::optional<SampleRange> BatchQueue::next() {
  auto const range = rules_.schedule == Schedule::together ? take_together() : take();
  if (range) ++num_unfinished_;
  return range;
}

std::optional<SampleRange> BatchQueue::take_together() {
  std::vector<std::uint64_t> bounds;
  if (communicator_.is_root()) {
    if (auto const range = take()) bounds = {range->first, range->second};
  }
  bounds = communicator_.gather_everywhere(bounds);
  if (bounds.empty()) return std::nullopt;
  return SampleRange{bounds[0], bounds[1]};
}

std::optional<SampleRange> BatchQueue::take() {
  if (counters_.read(is_stopped) != 0) return std::nullopt;
  if (!rest_.empty()) {
    auto const range = rest_.back();
    rest_.pop_back();
    return range;
  }
  return rules_.schedule == Schedule::dynamic ? take_from_queue() : take_from_part();
}

std::optional<SampleRange> BatchQueue::take_from_part() {
  auto const remaining = part_.second - part_.first;
  if (remaining == 0) return std::nullopt;
  bool const is_first_of_many = rules_.max_seconds && speed_ <= 0.0;
  auto const wanted = rules_.one_grain || is_first_of_many
                          ? rules_.grain
                          : within_rules(remaining, {.remaining = remaining, .own_speed = speed_}, rules_);
  auto const first = part_.first;
  part_.first += std::min(wanted, remaining);
  num_taken_ += part_.first - first;
  return keep_rest(first, part_.first);
}

std::optional<SampleRange> BatchQueue::take_from_queue() {
  auto const end = places_.back();
  auto const now = state();
  if (now.remaining == 0 || (is_too_slow(now, rules_) && leaves())) return std::nullopt;
  auto const wanted = next_batch_size(now, rules_);
  auto const first = counters_.add(next_place, wanted);
  num_taken_ = std::min(first + wanted, end);
  if (first >= end) return std::nullopt;
  last_batch_ = wanted;
  return keep_rest(first, num_taken_);
}

/// Converts the positions [first, last) of the queue to samples: returns the first range and keeps the others in rest_.
std::optional<SampleRange> BatchQueue::keep_rest(SampleIndex first, SampleIndex last) {
  for (std::size_t number = ranges_.size(); number-- > 0;) {
    auto const begin = std::max(first, places_[number]);
    auto const end = std::min(last, places_[number + 1]);
    if (begin >= end) continue;
    auto const sample = ranges_[number].first - places_[number];
    rest_.emplace_back(begin + sample, end + sample);
  }
  auto const range = rest_.back();
  rest_.pop_back();
  return range;
}

/// Registers that this rank leaves; returns false if it is the last one, which must stay to finish the work.
bool BatchQueue::leaves() {
  auto const gone = counters_.add(num_gone, 1);
  if (gone + 1 < static_cast<std::uint64_t>(communicator_.size())) return true;
  counters_.add(num_gone, ~std::uint64_t{0});
  return false;
}

QueueState BatchQueue::state() {
  QueueState now;
  auto const end = places_.back();
  now.taken = std::min<SampleIndex>(end, counters_.read(next_place));
  now.remaining = end - now.taken;
  now.num_ranks = static_cast<std::size_t>(communicator_.size());
  now.own_speed = speed_;
  now.known_speeds = speed_unit * static_cast<double>(counters_.read(speed_sum));
  now.num_known = std::min<std::size_t>(counters_.read(num_measured), now.num_ranks);
  now.last_batch = last_batch_;
  return now;
}

void BatchQueue::finished(SampleIndex num_samples, double seconds) {
  --num_unfinished_;
  set_speed(static_cast<double>(num_samples) / std::max(seconds, 1e-9));
}

void BatchQueue::set_speed(double speed) {
  auto const counted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(speed / speed_unit));
  auto const counted_before = std::exchange(counted_speed_, counted);
  speed_ = speed_unit * static_cast<double>(counted);
  if (rules_.schedule != Schedule::dynamic) return;
  counters_.add(speed_sum, counted - counted_before);
  if (counted_before == 0) counters_.add(num_measured, 1);
}

void BatchQueue::stop() { counters_.add(is_stopped, 1); }

} // namespace varve
