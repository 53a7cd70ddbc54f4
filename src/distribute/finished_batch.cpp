#include "distribute/finished_batch.hpp"

#include "core/error.hpp"
#include "io/line_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace varve {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

/// Writes numbers one after the other, and lists preceded by their lengths.
class ByteWriter {
public:
  template <class Number>
  void number(Number value) {
    bytes_.append(reinterpret_cast<char const*>(&value), sizeof(value));
  }

  template <class Number>
  void list(std::vector<Number> const& values) {
    number<std::uint64_t>(values.size());
    bytes_.append(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(Number));
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
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }

  template <class Number>
  std::vector<Number> list() {
    auto const length = number<std::uint64_t>();
    if (length > rest_.size() / sizeof(Number)) fail();
    std::vector<Number> values(length);
    auto const bytes = take(length * sizeof(Number));
    if (length > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
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
  writer.number<std::uint64_t>(batch.samples.first);
  writer.number<std::uint64_t>(batch.samples.second);
  writer.number(batch.activation_hash);
  writer.number(batch.live_edges);
  writer.list(batch.live_samples);
  writer.list(batch.predictions);
  writer.number<std::uint64_t>(batch.activations.first_sample);
  writer.number<std::uint64_t>(batch.activations.matrix.num_rows);
  writer.number<std::uint64_t>(batch.activations.matrix.num_columns);
  writer.list(batch.activations.matrix.row_pointers);
  writer.list(batch.activations.matrix.column_indices);
  writer.list(batch.activations.matrix.values);
  return writer.take();
}

FinishedBatch batch_of_bytes(std::string_view bytes, std::string const& place) {
  ByteReader reader(bytes, place);
  FinishedBatch batch;
  batch.samples.first = reader.number<std::uint64_t>();
  batch.samples.second = reader.number<std::uint64_t>();
  batch.activation_hash = reader.number<std::uint64_t>();
  batch.live_edges = reader.number<double>();
  batch.live_samples = reader.list<SampleIndex>();
  batch.predictions = reader.list<NeuronIndex>();
  batch.activations.first_sample = reader.number<std::uint64_t>();
  batch.activations.matrix.num_rows = reader.number<std::uint64_t>();
  batch.activations.matrix.num_columns = reader.number<std::uint64_t>();
  batch.activations.matrix.row_pointers = reader.list<EdgeOffset>();
  batch.activations.matrix.column_indices = reader.list<NeuronIndex>();
  batch.activations.matrix.values = reader.list<double>();
  reader.require_end();
  require_consistent(batch, place);
  return batch;
}

} // namespace varve
