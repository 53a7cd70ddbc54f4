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
constexpr char const* samples_label = "varve::staged_samples";

} // namespace

SampleCopy::SampleCopy(DeviceMemory const& memory, WidenLaunches widen, std::size_t scalar_bytes, bool is_in_place,
                       std::string input_name, std::size_t chunk_length)
    : memory_(memory),
      widen_(widen),
      scalar_bytes_(scalar_bytes),
      is_in_place_(is_in_place),
      input_name_(std::move(input_name)),
      chunk_length_(chunk_length),
      lane_(memory.new_stream()) {}

SampleCopy::Copied SampleCopy::copy(SampleArrays& arrays, SampleBatch const& batch) {
  std::size_t const num_entries = batch.num_entries();
  bool const has_one_value = batch.has_one_value();
  bool const has_few_entries = !is_in_place_ && num_entries <= std::numeric_limits<NarrowPointer>::max();
  bool const has_few_neurons = !is_in_place_ && fit_narrow_columns(batch.num_neurons());
  copied_bytes_ = 0;
  found_infinity_ = false;

  auto const* columns = columns_in_place(batch);
  void const* values =
      has_one_value ? copy_one_value(arrays, batch.rows().front().values()[0]) : values_in_place(batch);
  bool const wants_columns = columns == nullptr;
  bool const wants_values = values == nullptr;
  begin(pointers_, arrays.row_pointers, batch.num_samples() + 1, sizeof(EdgeOffset),
        has_few_entries ? sizeof(NarrowPointer) : sizeof(EdgeOffset));
  begin_to_put(pointers_);
  if (wants_values) {
    begin(values_, arrays.values, num_entries, scalar_bytes_, scalar_bytes_);
    begin_to_put(values_);
    values = arrays.values.data();
  }
  bool puts_columns = false;
  if (wants_columns) {
    begin(columns_, arrays.columns, num_entries, sizeof(NeuronIndex),
          has_few_neurons ? sizeof(NarrowColumn) : sizeof(NeuronIndex));
    columns = arrays.columns.as<NeuronIndex>();
    puts_columns = !send_ready(columns_, batch);
    if (puts_columns) begin_to_put(columns_);
  }
  Jobs jobs;
  add_pointers(batch, jobs);
  add_entries(batch, puts_columns, wants_values, jobs);
  if (batch.num_samples() + num_entries <= chunk_length_ || jobs.size() == 1) {
    for (auto const& job : jobs) job(); // starting threads would take longer
  } else {
    for_each_on_host_threads(jobs.size(), [&](std::size_t number) { jobs[number](); });
  }
  if (pointers_.is_narrow)
    widen_.pointers(*lane_, static_cast<NarrowPointer const*>(pointers_.arrival),
                    static_cast<EdgeOffset*>(pointers_.target), pointers_.count);
  if (wants_columns && columns_.is_narrow)
    widen_.columns(*lane_, static_cast<NarrowColumn const*>(columns_.arrival),
                   static_cast<NeuronIndex*>(columns_.target), columns_.count);
  if (!is_in_place_) lane_->fence("varve: samples have arrived");
  if (found_infinity_) require_representable(batch, Precision::single_precision, input_name_);
  SamplesOnDevice const samples{static_cast<int>(batch.num_samples()),
                                static_cast<int>(batch.num_neurons()),
                                arrays.row_pointers.as<EdgeOffset>(),
                                columns,
                                values,
                                has_one_value ? 0 : 1,
                                num_entries};
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

void const* SampleCopy::copy_one_value(SampleArrays& arrays, double value) {
  begin(values_, arrays.values, 1, scalar_bytes_, scalar_bytes_);
  begin_to_put(values_);
  if (scalar_bytes_ == sizeof(float)) {
    auto const rounded = static_cast<float>(value);
    found_infinity_ = !std::isfinite(rounded);
    *static_cast<float*>(values_.put) = rounded;
  } else {
    found_infinity_ = !std::isfinite(value);
    *static_cast<double*>(values_.put) = value;
  }
  if (!is_in_place_) send(values_, values_.put, 0, 1);
  return arrays.values.data();
}

/// Starts a transfer of `count` numbers to an array, which grows if necessary. Their bytes: in the array, and before
/// they are widened.
void SampleCopy::begin(Lane& lane, DeviceBytes& array, std::size_t count, std::size_t wide_bytes,
                       std::size_t number_bytes) {
  memory_.make_room(*lane_, array, count, wide_bytes, samples_label);
  lane.target = lane.arrival = lane.put = array.data();
  lane.count = count;
  lane.number_bytes = number_bytes;
  lane.is_narrow = number_bytes < wide_bytes;
  if (lane.is_narrow) {
    memory_.make_room(*lane_, lane.narrow, count, number_bytes, samples_label);
    lane.arrival = lane.narrow.data();
  }
  copied_bytes_ += count * number_bytes;
}

/// Call before numbers are written to Lane::put.
void SampleCopy::begin_to_put(Lane& lane) const {
  if (is_in_place_) return;
  memory_.make_room_on_host(*lane_, lane.on_host, lane.count, lane.number_bytes, samples_label);
  lane.put = lane.on_host.data();
}

/// Starts the copy of `count` numbers to those from `first` on. Called by one thread at a time.
void SampleCopy::send(Lane const& lane, void const* from, std::size_t first, std::size_t count) const {
  lane_->copy_to_device(static_cast<std::byte*>(lane.arrival) + first * lane.number_bytes, from,
                        count * lane.number_bytes);
}

/// Starts to copy the columns directly from the samples' memory. Returns false and copies nothing unless a reader has
/// stored all of them in memory of the right kind, in the width of the lane.
bool SampleCopy::send_ready(Lane const& lane, SampleBatch const& batch) const {
  if (is_in_place_) return false;
  auto const lies_ready = [&](SampleRows const& rows) {
    return rows.ready &&
           std::visit([&](auto const* columns) { return sizeof(*columns) == lane.number_bytes; }, rows.ready->columns);
  };
  if (!std::ranges::all_of(batch.rows(), lies_ready)) return false;
  std::size_t place = 0;
  for (auto const& rows : batch.rows()) {
    auto const send_all = [&](auto const* columns) {
      send(lane, columns + rows.first_entry(), place, rows.num_entries());
    };
    if (rows.num_entries() > 0) std::visit(send_all, rows.ready->columns);
    place += rows.num_entries();
  }
  return true;
}

/// Row pointers: the first entry of each row, and for the last set also the end of its last row.
void SampleCopy::add_pointers(SampleBatch const& batch, Jobs& jobs) {
  std::size_t place = 0;
  EdgeOffset entries_before = 0;
  for (auto const& rows : batch.rows()) {
    std::size_t const last = rows.last + (&rows == &batch.rows().back() ? 1 : 0);
    auto const number_at = [from = rows.row_pointers().data(), shift = entries_before - rows.first_entry()](
                               std::size_t i) { return from[i] + shift; }; // modulo 2^64
    if (pointers_.is_narrow) add<NarrowPointer>(pointers_, rows.first, last, place, number_at, jobs);
    if (!pointers_.is_narrow) add<EdgeOffset>(pointers_, rows.first, last, place, number_at, jobs);
    place += rows.num_samples();
    entries_before += rows.num_entries();
  }
}

void SampleCopy::add_entries(SampleBatch const& batch, bool has_columns, bool has_values, Jobs& jobs) {
  std::size_t place = 0;
  for (auto const& rows : batch.rows()) {
    auto const first = rows.first_entry();
    auto const last = rows.last_entry();
    auto const add_columns = [&](auto const* from) {
      auto const number_at = [from](std::size_t i) { return from[i]; };
      if (columns_.is_narrow) add<NarrowColumn>(columns_, first, last, place, number_at, jobs);
      if (!columns_.is_narrow) add<NeuronIndex>(columns_, first, last, place, number_at, jobs);
    };
    auto const add_values = [&](auto const& number_at) {
      if (scalar_bytes_ == sizeof(float)) add<float>(values_, first, last, place, number_at, jobs);
      if (scalar_bytes_ == sizeof(double)) add<double>(values_, first, last, place, number_at, jobs);
    };
    auto const values = rows.values();
    if (has_columns) std::visit(add_columns, rows.columns());
    if (has_values && values.size() == 1) add_values([value = values[0]](std::size_t) { return value; });
    if (has_values && values.size() != 1) add_values([from = values.data()](std::size_t i) { return from[i]; });
    place += rows.num_entries();
  }
}

/// Adds jobs that write number_at(first) ... number_at(last - 1), rounded to the type, to the lane from `place` on, and
/// start their copy, a chunk each.
template <class Number, class NumberAt>
void SampleCopy::add(Lane const& lane, std::size_t first, std::size_t last, std::size_t place,
                     NumberAt const& number_at, Jobs& jobs) {
  for (std::size_t end = first; first < last; place += end - first, first = end) {
    end = std::min(first + chunk_length_, last);
    jobs.emplace_back([this, &lane, first, end, place, number_at] {
      auto* const numbers = static_cast<Number*>(lane.put) + place;
      bool has_infinity = false;
      for (std::size_t i = first; i < end; ++i) {
        auto const number = static_cast<Number>(number_at(i));
        numbers[i - first] = number;
        if constexpr (std::is_floating_point_v<Number>) has_infinity |= !std::isfinite(number);
      }
      if (has_infinity) found_infinity_ = true;
      if (is_in_place_) return;
      std::lock_guard const lock(send_guard_);
      send(lane, numbers, place, end - first);
    });
  }
}

} // namespace varve
