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
#include <utility>

namespace varve {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

/// Calls number() or list() of a stream for each part of a batch, in the order in which they are stored.
template <class Batch, class Stream>
void for_each_part(Batch& batch, Stream& stream) {
  stream.number(batch.samples.first);
  stream.number(batch.samples.second);
  stream.number(batch.activation_hash);
  stream.number(batch.live_edges);
  stream.list(batch.live_samples);
  stream.list(batch.predictions);
  stream.number(batch.activations.first_sample);
  stream.number(batch.activations.matrix.num_rows);
  stream.number(batch.activations.matrix.num_columns);
  stream.list(batch.activations.matrix.row_pointers);
  stream.list(batch.activations.matrix.column_indices);
  stream.list(batch.activations.matrix.values);
  stream.last_list(batch.leaves);
}

/// Writes numbers one after the other, and lists preceded by their lengths.
class ByteWriter {
public:
  template <class Number>
  void number(Number value) {
    static_assert(sizeof(value) == sizeof(std::uint64_t));
    bytes_.append(reinterpret_cast<char const*>(&value), sizeof(value));
  }

  template <class Number>
  void list(std::vector<Number> const& values) {
    number<std::uint64_t>(values.size());
    bytes_.append(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(Number));
  }

  /// A list that takes no bytes if it is empty.
  template <class Element>
  void last_list(std::vector<Element> const& elements) {
    if (!elements.empty()) list(elements);
  }

  std::string take() { return std::move(bytes_); }

private:
  std::string bytes_;
};

/// Reads what ByteWriter wrote; throws InputError if the bytes end early or too late.
class ByteReader {
public:
  ByteReader(std::string_view bytes, std::string const& place) : rest_(bytes), place_(place) {}

  template <class Number>
  void number(Number& value) {
    static_assert(sizeof(value) == sizeof(std::uint64_t));
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  }

  template <class Number>
  void list(std::vector<Number>& values) {
    std::uint64_t length = 0;
    number(length);
    if (length > rest_.size() / sizeof(Number)) fail();
    values.resize(length);
    auto const bytes = take(length * sizeof(Number));
    if (length > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  }

  template <class Element>
  void last_list(std::vector<Element>& elements) {
    if (!rest_.empty()) list(elements);
  }

  void require_end() const {
    if (!rest_.empty()) fail();
  }

private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) fail();
    auto const taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  [[noreturn]] void fail() const {
    throw InputError(
        fmt::format("{}: found a record of another length than its lists, expected a finished batch", place_));
  }

  std::string_view rest_;
  std::string const& place_;
};

/// Throws InputError unless the lists belong to one batch. A record with a valid checksum may still be inconsistent,
/// since any program can write one.
void require_consistent(FinishedBatch const& batch, std::string const& place) {
  auto const fail = [&](std::string const& found, std::string const& expected) { fail_at(place, found, expected); };
  auto const [first, last] = batch.samples;
  if (last < first) fail(fmt::format("a batch of the samples {} to {}", first + 1, last), "ascending numbers");
  auto const num_samples = last - first;
  auto const& live = batch.live_samples;
  bool const is_ascending = std::ranges::adjacent_find(live, std::ranges::greater_equal()) == live.end();
  if (live.size() > num_samples || !is_ascending || (!live.empty() && live.back() - live.front() >= num_samples)) {
    fail(fmt::format("{} live samples", live.size()), fmt::format("ascending ones of {} samples", num_samples));
  }
  if (!batch.predictions.empty() && batch.predictions.size() != num_samples) {
    fail(fmt::format("{} predictions", batch.predictions.size()), fmt::format("none or {}", num_samples));
  }
  auto const num_rows = batch.activations.matrix.num_rows;
  if (num_rows != 0 && num_rows != num_samples) {
    fail(fmt::format("activations of {} samples", num_rows), fmt::format("none or {}", num_samples));
  }
  require_valid(batch.activations.matrix, place.c_str());
  if (!batch.leaves.empty() && batch.leaves.size() != num_samples) {
    fail(fmt::format("digests of {} samples", batch.leaves.size()), fmt::format("none or {}", num_samples));
  }
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
  ByteWriter writer;
  for_each_part(batch, writer);
  return writer.take();
}

FinishedBatch batch_of_bytes(std::string_view bytes, std::string const& place) {
  ByteReader reader(bytes, place);
  FinishedBatch batch;
  for_each_part(batch, reader);
  reader.require_end();
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
