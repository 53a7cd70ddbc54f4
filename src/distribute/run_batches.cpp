#include "distribute/run_batches.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "distribute/ranks.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <future>
#include <span>
#include <utility>

namespace varve {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

/// Calls number(), list() or last_list() for each part of a batch, in the order in which they are stored.
template <class Batch, class Number, class List, class LastList>
void for_each_part(Batch& batch, Number const& number, List const& list, LastList const& last_list) {
  auto& matrix = batch.activations.matrix;
  number(batch.samples.first);
  number(batch.samples.second);
  number(batch.activation_hash);
  number(batch.live_edges);
  list(batch.live_samples);
  list(batch.predictions);
  number(batch.activations.first_sample);
  number(matrix.num_rows);
  number(matrix.num_columns);
  list(matrix.row_pointers);
  list(matrix.column_indices);
  list(matrix.values);
  last_list(batch.leaves);
}

/// Throws InputError unless the lists belong to one batch. A record with a valid checksum may still be inconsistent,
/// since any program can write one.
void require_consistent(FinishedBatch const& batch, std::string const& place) {
  auto const [first, last] = batch.samples;
  if (last < first)
    fail_at(place, fmt::format("a batch of the samples {} to {}", first + 1, last), "ascending numbers");
  auto const num_samples = last - first;
  auto const& live = batch.live_samples;
  bool const is_ascending = std::ranges::adjacent_find(live, std::ranges::greater_equal()) == live.end();
  if (live.size() > num_samples || !is_ascending || (!live.empty() && live.back() - live.front() >= num_samples)) {
    fail_at(place, fmt::format("{} live samples", live.size()),
            fmt::format("ascending ones of {} samples", num_samples));
  }
  auto const require_none_or_all = [&](std::size_t count, std::string const& found) {
    if (count != 0 && count != num_samples) fail_at(place, found, fmt::format("none or {}", num_samples));
  };
  auto const& matrix = batch.activations.matrix;
  require_none_or_all(batch.predictions.size(), fmt::format("{} predictions", batch.predictions.size()));
  require_none_or_all(matrix.num_rows, fmt::format("activations of {} samples", matrix.num_rows));
  require_valid(matrix, place.c_str());
  require_none_or_all(batch.leaves.size(), fmt::format("digests of {} samples", batch.leaves.size()));
}

/// The samples of a batch and the time it took to read them.
struct ReadSamples {
  SampleBatch samples;
  double seconds = 0.0;
};

/// The batches after the current one. A thread reads them one after the other; another thread uploads the first of them
/// ahead of its run.
class BatchesAhead {
public:
  BatchesAhead(BatchQueue& queue, SampleReader& reader, Inference& inference)
      : queue_(queue), reader_(reader), inference_(inference) {}

  /// Takes as many batches from the queue as should be in progress, and starts uploading the first of them.
  void look() {
    while (!is_queue_empty_ && queue_.may_look_ahead()) {
      auto const range = queue_.next();
      is_queue_empty_ = !range;
      if (is_queue_empty_) break;
      last_read_ = std::async(std::launch::async, [this, range, before = last_read_]() mutable {
                     if (before.valid()) before.get(); // the reader serves one thread at a time
                     before = {};
                     Stopwatch const time;
                     auto samples = reader_.read(range->first, range->second);
                     return ReadSamples{std::move(samples), time.seconds()};
                   }).share();
      batches_.push_back({*range, last_read_, {}});
    }
    if (batches_.empty() || batches_.front().staged.valid()) return;
    batches_.front().staged = std::async(std::launch::async, [this, samples = batches_.front().samples] {
      inference_.upload_ahead(samples.get().samples);
    });
  }

  bool has_next() const { return !batches_.empty(); }

  /// The next batch, once it has been read and uploaded. Throws what reading it threw.
  std::pair<SampleRange, ReadSamples> take() {
    auto batch = std::move(batches_.front());
    batches_.pop_front();
    batch.staged.get();
    return {batch.range, batch.samples.get()};
  }

private:
  struct Batch {
    SampleRange range;
    std::shared_future<ReadSamples> samples;
    std::future<void> staged;
  };

  BatchQueue& queue_;
  SampleReader& reader_;
  Inference& inference_;
  std::shared_future<ReadSamples> last_read_;
  std::deque<Batch> batches_;
  bool is_queue_empty_ = false; ///< stays true: a rank that got no batch has left the queue
};

void add_times(RankTimes& times, BatchResult const& result) {
  times.loop_seconds.resize(result.loop_seconds.size(), 0.0);
  std::ranges::transform(times.loop_seconds, result.loop_seconds, times.loop_seconds.begin(), std::plus<>());
  times.upload_seconds += result.upload_seconds;
  times.collect_seconds += result.collect_seconds;
  times.stage_seconds += result.samples.seconds;
  times.staged_bytes += static_cast<double>(result.samples.copied_bytes);
  times.exchange_seconds += result.exchange_seconds;
  times.exchange_bytes += result.exchange_bytes;
  times.live_edges += result.live_edges;
  times.weight_wait_seconds += result.weights.wait_seconds;
  times.weight_copy_seconds += result.weights.copy_seconds;
  times.weight_make_seconds += result.weights.make_seconds;
  times.weight_bytes += static_cast<double>(result.weights.copied_bytes);
}

FinishedBatch run_batch(Inference& inference, SampleRange range, SampleBatch const& samples, std::size_t batch,
                        WantedOutputs wanted, RankTimes& times) {
  FinishedBatch finished;
  finished.samples = range;
  std::future<std::vector<Digest>> inputs; // hashed while the device computes
  if (wanted.digests) inputs = std::async(std::launch::async, [&] { return input_digests(samples); });
  for (std::size_t first = 0; first < samples.num_samples(); first += batch) {
    auto const part = samples.part(first, std::min(first + batch, samples.num_samples()));
    auto const result = inference.infer(part, wanted);
    for (auto const& digest : result.digests) finished.leaves.push_back({{}, digest});
    append(finished, result);
    add_times(times, result);
  }
  if (wanted.digests) {
    auto const digests = inputs.get();
    for (std::size_t row = 0; row < digests.size(); ++row) finished.leaves[row].input = digests[row];
  }
  return finished;
}

} // namespace

void append(FinishedBatch& batch, BatchResult const& next) {
  batch.activation_hash += next.activation_hash;
  batch.live_edges += next.live_edges;
  batch.live_samples.insert(batch.live_samples.end(), next.live_samples.begin(), next.live_samples.end());
  batch.predictions.insert(batch.predictions.end(), next.predictions.begin(), next.predictions.end());
  append_rows(batch.activations, next.activations);
}

std::string to_bytes(FinishedBatch const& batch) {
  std::string bytes;
  auto const number = [&](auto value) {
    static_assert(sizeof(value) == sizeof(std::uint64_t));
    bytes.append(reinterpret_cast<char const*>(&value), sizeof(value));
  };
  auto const list = [&](auto const& values) {
    number(std::uint64_t{values.size()});
    bytes.append(reinterpret_cast<char const*>(values.data()), std::span(values).size_bytes());
  };
  for_each_part(batch, number, list, [&](auto const& values) {
    if (!values.empty()) list(values); // a last list takes no bytes if it is empty
  });
  return bytes;
}

FinishedBatch batch_of_bytes(std::string_view bytes, std::string const& place) {
  auto const fail = [&] {
    varve::fail<InputError>("{}: found a record of another length than its lists, expected a finished batch", place);
  };
  auto const take = [&](void* values, std::size_t size) {
    if (size > bytes.size()) fail();
    if (size > 0) std::memcpy(values, bytes.data(), size);
    bytes.remove_prefix(size);
  };
  auto const number = [&](auto& value) { take(&value, sizeof(value)); };
  auto const list = [&](auto& values) {
    std::uint64_t length = 0;
    number(length);
    if (length > bytes.size() / sizeof(values[0])) fail();
    values.resize(length);
    take(values.data(), std::span(values).size_bytes());
  };
  FinishedBatch batch;
  for_each_part(batch, number, list, [&](auto& values) {
    if (!bytes.empty()) list(values);
  });
  if (!bytes.empty()) fail();
  require_consistent(batch, place);
  return batch;
}

std::vector<RankTimes> gather(Communicator const& communicator, RankTimes const& times) {
  RankCounts counts = times;
  auto const texts = communicator.gather(std::string(reinterpret_cast<char const*>(&counts), sizeof(counts)));
  auto const loops = gather_json(communicator, times.loop_seconds);
  std::vector<RankTimes> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::memcpy(&counts, texts[rank].data(), sizeof(counts));
    all.push_back({counts, loops[rank]});
  }
  return all;
}

RankTimes run_batches(Inference& inference, SampleReader& samples, BatchQueue& queue, KeepBatch const& keep,
                      std::size_t batch, WantedOutputs wanted, GoesOn const& goes_on) {
  RankTimes times;
  samples.read_into(inference.sample_memory());
  try {
    BatchesAhead ahead(queue, samples, inference);
    std::future<double> kept; // seconds that a thread took to store the batch before
    auto const await_kept = [&] {
      if (kept.valid()) times.record_seconds += kept.get();
    };
    ahead.look();
    while (ahead.has_next()) {
      Stopwatch const batch_time;
      auto const [range, input] = ahead.take();
      times.wait_seconds += batch_time.seconds();
      times.read_seconds += input.seconds;
      ahead.look();
      auto finished = run_batch(inference, range, input.samples, batch, wanted, times);
      await_kept();
      kept = std::async(std::launch::async, [&keep, finished = std::move(finished)] {
        Stopwatch const time;
        keep(finished);
        return time.seconds();
      });
      double const seconds = batch_time.seconds();
      times.busy_seconds += seconds;
      times.num_samples += range.second - range.first;
      ++times.num_batches;
      queue.finished(range.second - range.first, seconds);
      if (!goes_on()) {
        queue.stop();
        break;
      }
      ahead.look();
    }
    await_kept();
  } catch (...) {
    queue.stop();
    throw;
  }
  return times;
}

} // namespace varve
