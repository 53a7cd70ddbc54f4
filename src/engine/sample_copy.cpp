#include "engine/sample_copy.hpp"

#include "core/host_threads.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>

namespace varve {
namespace {

using NarrowPointer = std::uint32_t;
using NarrowColumn = std::uint16_t;

} // namespace

void NumberLane::begin(Stream const& lane, void* target, std::size_t count, bool uses_numbers) {
  target_ = target;
  count_ = count;
  if (is_in_place_) {
    put_ = target;
    return;
  }
  if (uses_numbers) memory_->make_room_on_host(lane, on_host_, count, narrow_bytes_, "varve::staged_samples");
  put_ = on_host_.data();
  if (is_narrow()) memory_->make_room(lane, narrow_, count, narrow_bytes_, "varve::staged_samples");
}

void NumberLane::send(Stream const& lane, std::size_t first, std::size_t count) const {
  if (!is_in_place_) send_from(lane, numbers<std::byte>() + first * narrow_bytes_, first, count);
}

void NumberLane::send_from(Stream const& lane, void const* from, std::size_t first, std::size_t count) const {
  auto* const arrival = is_narrow() ? narrow_.data() : static_cast<std::byte*>(target_);
  lane.copy_to_device(arrival + first * narrow_bytes_, from, count * narrow_bytes_);
}

/// The parts of the entries that must be copied.
struct SampleCopy::Wanted {
  bool columns, values;
};

/// Neighbouring elements of an array of one set, and their place in the batch's array.
struct SampleCopy::Chunk {
  SampleRows const* rows;
  std::size_t first, last; ///< elements [first, last) of the set's array
  std::size_t place;       ///< index of the first element in the batch's array
  EdgeOffset shift;        ///< added to row pointers, modulo 2^64
};

SampleCopy::SampleCopy(DeviceMemory const& memory, WidenLaunches widen, std::size_t scalar_bytes, bool is_in_place,
                       std::string input_name, std::size_t chunk_length)
    : memory_(memory),
      widen_(widen),
      scalar_bytes_(scalar_bytes),
      is_in_place_(is_in_place),
      input_name_(std::move(input_name)),
      chunk_length_(chunk_length),
      lane_(memory.new_stream()),
      pointers_(memory, is_in_place, sizeof(EdgeOffset), sizeof(EdgeOffset)),
      columns_(memory, is_in_place, sizeof(NeuronIndex), sizeof(NeuronIndex)),
      values_(memory, is_in_place, scalar_bytes, scalar_bytes),
      narrow_pointers_(memory, is_in_place, sizeof(NarrowPointer), sizeof(EdgeOffset)),
      narrow_columns_(memory, is_in_place, sizeof(NarrowColumn), sizeof(NeuronIndex)) {}

std::size_t SampleCopy::bytes_per_sample(std::size_t num_arrays, std::size_t entries, bool has_one_value,
                                         std::size_t scalar_bytes, bool is_in_place) {
  std::size_t const value_bytes = has_one_value ? 0 : scalar_bytes;
  std::size_t const narrow_bytes = is_in_place ? 0 : entries * sizeof(NarrowColumn) + sizeof(NarrowPointer);
  std::size_t const bytes =
      num_arrays * (entries * (sizeof(NeuronIndex) + value_bytes) + sizeof(EdgeOffset)) + narrow_bytes;
  return bytes + bytes / 16; // make_room() allocates a sixteenth more
}

SampleCopy::Copied SampleCopy::copy(SampleArrays& arrays, SampleBatch const& batch) {
  std::size_t const num_pointers = batch.num_samples() + 1;
  bool const has_one_value = batch.has_one_value();
  copied_bytes_ = 0;
  found_infinity_ = false;

  SamplesOnDevice samples;
  samples.num_samples = static_cast<int>(batch.num_samples());
  samples.num_neurons = static_cast<int>(batch.num_neurons());
  samples.num_entries = batch.num_entries();
  samples.value_stride = has_one_value ? 0 : 1;
  samples.columns = columns_in_place(batch);
  samples.values = has_one_value ? copy_one_value(arrays, batch) : values_in_place(batch);

  Wanted const wanted{samples.columns == nullptr, samples.values == nullptr};
  make_room(arrays.row_pointers, num_pointers, sizeof(EdgeOffset));
  samples.row_pointers = arrays.row_pointers.as<EdgeOffset>();
  if (wanted.columns) {
    make_room(arrays.columns, samples.num_entries, sizeof(NeuronIndex));
    samples.columns = arrays.columns.as<NeuronIndex>();
  }
  if (wanted.values) {
    make_room(arrays.values, samples.num_entries, scalar_bytes_);
    samples.values = arrays.values.data();
  }
  bool const has_few_entries = !is_in_place_ && samples.num_entries <= std::numeric_limits<NarrowPointer>::max();
  bool const has_few_neurons = !is_in_place_ && fit_narrow_columns(batch.num_neurons());
  copy(has_few_entries ? narrow_pointers_ : pointers_, has_few_neurons ? narrow_columns_ : columns_, arrays, batch,
       wanted);
  if (!is_in_place_) lane_->fence("varve: samples have arrived");
  if (found_infinity_) require_representable(batch, Precision::single_precision, input_name_);
  return {samples, copied_bytes_};
}

NeuronIndex const* SampleCopy::columns_in_place(SampleBatch const& batch) const {
  if (!is_in_place_) return nullptr;
  auto const& rows = batch.rows().front();
  auto const columns = rows.columns();
  auto const* const* const wide = std::get_if<NeuronIndex const*>(&columns);
  bool const is_there = batch.rows().size() == 1 && wide != nullptr && *wide != nullptr;
  return is_there ? *wide + rows.first_entry() : nullptr;
}

double const* SampleCopy::values_in_place(SampleBatch const& batch) const {
  if (!is_in_place_ || scalar_bytes_ != sizeof(double) || batch.rows().size() != 1) return nullptr;
  auto const& rows = batch.rows().front();
  return rows.values().data() + rows.first_entry();
}

void const* SampleCopy::copy_one_value(SampleArrays& arrays, SampleBatch const& batch) {
  make_room(arrays.values, 1, scalar_bytes_);
  values_.begin(*lane_, arrays.values.data(), 1);
  double const value = batch.rows().front().values()[0];
  if (scalar_bytes_ == sizeof(float)) {
    *values_.numbers<float>() = static_cast<float>(value);
    found_infinity_ = !std::isfinite(*values_.numbers<float>());
  } else {
    *values_.numbers<double>() = value;
    found_infinity_ = !std::isfinite(value);
  }
  values_.send(*lane_, 0, 1);
  copied_bytes_ += scalar_bytes_;
  return arrays.values.data();
}

void SampleCopy::make_room(DeviceBytes& array, std::size_t count, std::size_t number_bytes) const {
  memory_.make_room(*lane_, array, count, number_bytes, "varve::staged_samples");
}

/// `pointers`, `columns`: the narrowest lanes that are wide enough for the batch.
void SampleCopy::copy(NumberLane& pointers, NumberLane& columns, SampleArrays const& arrays, SampleBatch const& batch,
                      Wanted const& wanted) {
  pointers.begin(*lane_, arrays.row_pointers.data(), batch.num_samples() + 1);
  if (wanted.values) values_.begin(*lane_, arrays.values.data(), batch.num_entries());
  bool const lie_ready = wanted.columns && send_ready(columns, arrays, batch);
  if (wanted.columns && !lie_ready) columns.begin(*lane_, arrays.columns.data(), batch.num_entries());
  bool const puts_columns = wanted.columns && !lie_ready;
  auto const pointer_chunks = chunks_of_pointers(batch);
  auto const entry_chunks = puts_columns || wanted.values ? chunks_of_entries(batch) : std::vector<Chunk>();
  auto const work = [&](std::size_t number) {
    if (number < pointer_chunks.size()) {
      put_pointers(pointers, pointer_chunks[number]);
      return;
    }
    auto const& chunk = entry_chunks[number - pointer_chunks.size()];
    if (puts_columns) put_columns(columns, chunk);
    if (wanted.values) put_values(chunk);
  };
  run_chunks(pointer_chunks.size() + entry_chunks.size(), batch.num_samples() + batch.num_entries(), work);
  copied_bytes_ += pointers.num_bytes();
  if (pointers.is_narrow())
    widen_.pointers(*lane_, static_cast<NarrowPointer const*>(pointers.arrived()),
                    static_cast<EdgeOffset*>(pointers.target()), pointers.count());
  if (wanted.columns) copied_bytes_ += columns.num_bytes();
  if (wanted.columns && columns.is_narrow())
    widen_.columns(*lane_, static_cast<NarrowColumn const*>(columns.arrived()),
                   static_cast<NeuronIndex*>(columns.target()), columns.count());
  if (wanted.values) copied_bytes_ += values_.num_bytes();
}

/// Starts to copy the columns directly from the samples' memory. Returns false and copies nothing unless a reader has
/// stored all of them in memory of the right kind, in the width of the lane.
bool SampleCopy::send_ready(NumberLane& lane, SampleArrays const& arrays, SampleBatch const& batch) const {
  if (is_in_place_) return false;
  auto const lies_ready = [&](SampleRows const& rows) {
    return rows.ready && std::visit([&](auto const* columns) { return sizeof(*columns) == lane.narrow_bytes(); },
                                    rows.ready->columns);
  };
  if (!std::ranges::all_of(batch.rows(), lies_ready)) return false;
  lane.begin(*lane_, arrays.columns.data(), batch.num_entries(), false);
  std::size_t place = 0;
  for (auto const& rows : batch.rows()) {
    auto const send = [&](auto const* columns) {
      lane.send_from(*lane_, columns + rows.first_entry(), place, rows.num_entries());
    };
    if (rows.num_entries() > 0) std::visit(send, rows.ready->columns);
    place += rows.num_entries();
  }
  return true;
}

template <class Work>
void SampleCopy::run_chunks(std::size_t num_chunks, std::size_t num_numbers, Work const& work) const {
  if (num_numbers <= chunk_length_ || num_chunks == 1) {
    for (std::size_t number = 0; number < num_chunks; ++number) work(number); // starting threads would take longer
  } else {
    for_each_on_host_threads(num_chunks, work);
  }
}

/// Chunks of row pointers: the first entry of each row, and for the last set also the end of its last row.
std::vector<SampleCopy::Chunk> SampleCopy::chunks_of_pointers(SampleBatch const& batch) const {
  std::vector<Chunk> chunks;
  std::size_t place = 0;
  EdgeOffset entries_before = 0;
  for (auto const& rows : batch.rows()) {
    std::size_t const last = rows.last + (&rows == &batch.rows().back() ? 1 : 0);
    cut(chunks, {&rows, rows.first, last, place, entries_before - rows.first_entry()});
    place += rows.num_samples();
    entries_before += rows.num_entries();
  }
  return chunks;
}

std::vector<SampleCopy::Chunk> SampleCopy::chunks_of_entries(SampleBatch const& batch) const {
  std::vector<Chunk> chunks;
  std::size_t place = 0;
  for (auto const& rows : batch.rows()) {
    cut(chunks, {&rows, rows.first_entry(), rows.last_entry(), place, 0});
    place += rows.num_entries();
  }
  return chunks;
}

void SampleCopy::cut(std::vector<Chunk>& chunks, Chunk chunk) const {
  for (std::size_t const last = chunk.last; chunk.first < last; chunk.first = chunk.last) {
    chunk.last = std::min(chunk.first + chunk_length_, last);
    chunks.push_back(chunk);
    chunk.place += chunk.last - chunk.first;
  }
}

void SampleCopy::put_pointers(NumberLane& lane, Chunk const& chunk) {
  auto const number_at = [from = chunk.rows->row_pointers().data(), shift = chunk.shift](std::size_t i) {
    return from[i] + shift;
  };
  if (lane.is_narrow()) {
    put<NarrowPointer>(lane, chunk, number_at);
  } else {
    put<EdgeOffset>(lane, chunk, number_at);
  }
}

void SampleCopy::put_columns(NumberLane& lane, Chunk const& chunk) {
  std::visit(
      [&](auto const* from) {
        auto const number_at = [from](std::size_t i) { return from[i]; };
        if (lane.is_narrow()) {
          put<NarrowColumn>(lane, chunk, number_at);
        } else {
          put<NeuronIndex>(lane, chunk, number_at);
        }
      },
      chunk.rows->columns());
}

void SampleCopy::put_values(Chunk const& chunk) {
  auto const values = chunk.rows->values();
  auto const put_all = [&](auto const& number_at) {
    if (scalar_bytes_ == sizeof(float)) {
      put<float>(values_, chunk, number_at);
    } else {
      put<double>(values_, chunk, number_at);
    }
  };
  if (values.size() == 1) {
    put_all([value = values[0]](std::size_t) { return value; });
  } else {
    put_all([from = values.data()](std::size_t i) { return from[i]; });
  }
}

/// Writes number_at(chunk.first) ... number_at(chunk.last - 1) to the lane, rounded to its type, and starts the copy.
template <class Number, class NumberAt>
void SampleCopy::put(NumberLane& lane, Chunk const& chunk, NumberAt const& number_at) {
  auto* const numbers = lane.numbers<Number>() + chunk.place;
  bool has_infinity = false;
  for (std::size_t i = chunk.first; i < chunk.last; ++i) {
    auto const number = static_cast<Number>(number_at(i));
    numbers[i - chunk.first] = number;
    if constexpr (std::is_floating_point_v<Number>) has_infinity |= !std::isfinite(number);
  }
  if (has_infinity) found_infinity_ = true;
  std::lock_guard const lock(send_guard_);
  lane.send(*lane_, chunk.place, chunk.last - chunk.first);
}

} // namespace varve
