#include "distribute/run_batches.hpp"

#include "core/stopwatch.hpp"

#include <algorithm>
#include <functional>
#include <future>
#include <optional>
#include <utility>

namespace varve {
namespace {

/// A batch and its samples, which a thread reads and brings to the device.
struct Reading {
  SampleRange range;
  std::future<SampleSet> samples;
};

std::optional<Reading> read_next(BatchQueue& queue, SampleReader& reader, Inference& inference) {
  auto const range = queue.next();
  if (!range) return std::nullopt;
  return Reading{*range, std::async(std::launch::async, [&reader, &inference, range] {
                   auto samples = reader.read(range->first, range->second);
                   inference.stage(samples);
                   return samples;
                 })};
}

void add_times(RankTimes& times, BatchResult const& result) {
  times.loop_seconds.resize(result.loop_seconds.size(), 0.0);
  std::ranges::transform(times.loop_seconds, result.loop_seconds, times.loop_seconds.begin(), std::plus<>());
  times.upload_seconds += result.upload_seconds;
  times.collect_seconds += result.collect_seconds;
  times.exchange_seconds += result.exchange_seconds;
  times.exchange_bytes += result.exchange_bytes;
  times.live_edges += result.live_edges;
  times.weight_wait_seconds += result.weights.wait_seconds;
  times.weight_copy_seconds += result.weights.copy_seconds;
  times.weight_make_seconds += result.weights.make_seconds;
  times.weight_bytes += static_cast<double>(result.weights.copied_bytes);
}

FinishedBatch run_batch(Inference& inference, SampleRange range, SampleSet const& samples, std::size_t batch,
                        WantedOutputs wanted, RankTimes& times) {
  FinishedBatch finished;
  finished.samples = range;
  for (std::size_t first = 0; first < samples.num_samples(); first += batch) {
    std::size_t const last = std::min(first + batch, samples.num_samples());
    bool const is_whole = last - first == samples.num_samples();
    auto const result = inference.infer(is_whole ? samples : samples_of(samples, first, last), wanted);
    append(finished, result);
    add_times(times, result);
  }
  return finished;
}

} // namespace

std::vector<RankTimes> gather(Communicator const& communicator, RankTimes const& times) {
  constexpr double RankTimes::*fields[] = {
      &RankTimes::upload_seconds,      &RankTimes::collect_seconds,     &RankTimes::wait_seconds,
      &RankTimes::record_seconds,      &RankTimes::busy_seconds,        &RankTimes::live_edges,
      &RankTimes::weight_wait_seconds, &RankTimes::weight_copy_seconds, &RankTimes::weight_make_seconds,
      &RankTimes::weight_bytes,        &RankTimes::exchange_seconds,    &RankTimes::exchange_bytes};
  auto const counts = communicator.gather_everywhere({times.num_batches, times.num_samples, times.loop_seconds.size()});
  auto const loops = communicator.gather(times.loop_seconds);
  std::vector<double> numbers;
  for (auto const field : fields) numbers.push_back(times.*field);
  numbers = communicator.gather(numbers);

  std::vector<RankTimes> all(communicator.is_root() ? static_cast<std::size_t>(communicator.size()) : 0);
  auto number = numbers.begin();
  auto loop = loops.begin();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].num_batches = counts[3 * rank];
    all[rank].num_samples = counts[3 * rank + 1];
    auto const loop_end = loop + static_cast<std::ptrdiff_t>(counts[3 * rank + 2]);
    all[rank].loop_seconds.assign(std::exchange(loop, loop_end), loop_end);
    for (auto const field : fields) all[rank].*field = *number++;
  }
  return all;
}

RankTimes run_batches(Inference& inference, SampleReader& samples, BatchQueue& queue, BatchStore& store,
                      std::size_t batch, WantedOutputs wanted, GoesOn const& goes_on) {
  RankTimes times;
  try {
    auto reading = read_next(queue, samples, inference);
    while (reading) {
      Stopwatch const batch_time;
      SampleSet const input = reading->samples.get();
      times.wait_seconds += batch_time.seconds();
      auto const range = reading->range;
      bool const is_first = times.num_batches == 0; // its time decides how large the next one is
      reading = is_first ? std::nullopt : read_next(queue, samples, inference);

      auto const finished = run_batch(inference, range, input, batch, wanted, times);
      Stopwatch const record_time;
      store.add(finished);
      times.record_seconds += record_time.seconds();
      double const seconds = batch_time.seconds();
      times.busy_seconds += seconds;
      times.num_samples += range.second - range.first;
      ++times.num_batches;
      queue.finished(range.second - range.first, seconds);
      if (!goes_on()) {
        queue.stop();
        break;
      }
      if (is_first) reading = read_next(queue, samples, inference);
    }
  } catch (...) {
    queue.stop();
    throw;
  }
  return times;
}

} // namespace varve
