#pragma once

#include "core/execution.hpp"
#include "core/host_threads.hpp"
#include "engine/number_lane.hpp"
#include "kernels/samples.hpp"
#include "network/representable.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// Device arrays for the samples of a batch; they grow when a batch is larger.
template <class ExecutionSpace, class Scalar>
struct SampleArrays {
  DeviceArray<ExecutionSpace, EdgeOffset> row_pointers;
  DeviceArray<ExecutionSpace, NeuronIndex> columns;
  DeviceArray<ExecutionSpace, Scalar> values;
};

/// Copies samples to the device. They travel compactly: columns in 16 bits if the width allows, row pointers in 32 bits
/// if the number of entries allows. Columns that lie ready in this width are copied by the device from where they are;
/// host threads convert chunks of all others into pinned memory, and each chunk is copied in a separate stream while
/// the next chunks are converted. If the device is the host (InPlace), kernels read the columns of a single set without
/// a copy; row pointers are always new, because they count from the first entry of the batch.
template <class ExecutionSpace, class Scalar, bool InPlace = kOnHost<ExecutionSpace>>
class SampleCopy {
public:
  using Arrays = SampleArrays<ExecutionSpace, Scalar>;
  using OnDevice = DeviceSamples<ExecutionSpace, Scalar>;

  /// `input_name`: the name of the samples in messages; `chunk_length`: numbers of a chunk.
  explicit SampleCopy(std::string input_name = "the samples", std::size_t chunk_length = std::size_t(1) << 20U)
      : input_name_(std::move(input_name)), chunk_length_(chunk_length) {
    if constexpr (!kOnHost<ExecutionSpace>) space_ = Kokkos::Experimental::partition_space(ExecutionSpace(), 1)[0];
  }

  /// Bytes on the device for a sample with this many entries, stored in `num_arrays` SampleArrays.
  static std::size_t bytes_per_sample(std::size_t num_arrays, std::size_t entries, bool has_one_value) {
    std::size_t const value_bytes = has_one_value ? 0 : sizeof(Scalar);
    std::size_t const narrow_bytes = InPlace ? 0 : entries * sizeof(NarrowColumn) + sizeof(NarrowPointer);
    std::size_t const bytes =
        num_arrays * (entries * (sizeof(NeuronIndex) + value_bytes) + sizeof(EdgeOffset)) + narrow_bytes;
    return bytes + bytes / 16; // make_room() allocates a sixteenth more
  }

  /// Samples that kernels can read, and the bytes that were copied for that.
  struct Brought {
    OnDevice samples;
    std::size_t copied_bytes = 0;
  };

  /// Copies a batch to these arrays and returns when it has arrived. In place the result refers to the sets of the
  /// batch, which must outlive it. One batch at a time. Throws InputError if Scalar cannot hold a value.
  Brought bring(Arrays& arrays, SampleBatch const& batch) {
    std::size_t const num_pointers = batch.num_samples() + 1;
    std::size_t const num_entries = batch.num_entries();
    bool const has_one_value = batch.has_one_value();
    copied_bytes_ = 0;
    found_infinity_ = false;

    OnDevice samples;
    samples.num_samples = static_cast<int>(batch.num_samples());
    samples.num_neurons = static_cast<int>(batch.num_neurons());
    samples.value_stride = has_one_value ? 0 : 1;
    samples.columns = columns_in_place(batch);
    samples.values = has_one_value ? bring_one_value(arrays, batch) : values_in_place(batch);

    Wanted const wanted{samples.columns.data() == nullptr, samples.values.data() == nullptr};
    make_room(space_, arrays.row_pointers, num_pointers);
    samples.row_pointers = Pointers(arrays.row_pointers.data(), num_pointers);
    if (wanted.columns) {
      make_room(space_, arrays.columns, num_entries);
      samples.columns = Columns(arrays.columns.data(), num_entries);
    }
    if (wanted.values) {
      make_room(space_, arrays.values, num_entries);
      samples.values = Values(arrays.values.data(), num_entries);
    }
    choose_lanes(batch, [&](auto& pointers, auto& columns) { copy(pointers, columns, arrays, batch, wanted); });
    if constexpr (!InPlace) space_.fence("varve: samples have arrived");
    if (found_infinity_) require_representable(batch, Precision::single_precision, input_name_);
    return {samples, copied_bytes_};
  }

private:
  using NarrowPointer = std::uint32_t;
  using NarrowColumn = std::uint16_t;
  template <class Wide, class Narrow = Wide>
  using Lane = NumberLane<ExecutionSpace, Wide, Narrow, InPlace>;
  using Values = ConstDeviceArray<ExecutionSpace, Scalar>;
  using Columns = ConstDeviceArray<ExecutionSpace, NeuronIndex>;
  using Pointers = ConstDeviceArray<ExecutionSpace, EdgeOffset>;

  /// The parts of the entries that must be copied.
  struct Wanted {
    bool columns, values;
  };

  /// Neighbouring elements of an array of one set, and their place in the array of the batch.
  struct Chunk {
    SampleRows const* rows;
    std::size_t first, last; ///< elements [first, last) of the set's array
    std::size_t place;       ///< index of the first of them in the batch's array
    EdgeOffset shift;        ///< added to row pointers, modulo 2^64
  };

  static Columns columns_in_place(SampleBatch const& batch) {
    if constexpr (InPlace) {
      auto const& rows = batch.rows().front();
      auto const columns = rows.columns();
      auto const* const* const wide = std::get_if<NeuronIndex const*>(&columns);
      if (batch.rows().size() == 1 && wide != nullptr && *wide != nullptr)
        return Columns(*wide + rows.first_entry(), rows.num_entries());
    }
    return Columns();
  }

  static Values values_in_place(SampleBatch const& batch) {
    if constexpr (InPlace && std::is_same_v<Scalar, double>) {
      auto const& rows = batch.rows().front();
      if (batch.rows().size() == 1) return Values(rows.values().data() + rows.first_entry(), rows.num_entries());
    }
    return Values();
  }

  Values bring_one_value(Arrays& arrays, SampleBatch const& batch) {
    make_room(space_, arrays.values, 1);
    values_.begin(space_, arrays.values, 1);
    values_.numbers()[0] = static_cast<Scalar>(batch.rows().front().values()[0]);
    found_infinity_ = !std::isfinite(values_.numbers()[0]);
    values_.send(space_, 0, 1);
    copied_bytes_ += sizeof(Scalar);
    return Values(arrays.values.data(), 1);
  }

  /// Calls work(lane of the row pointers, lane of the columns) with the narrowest lanes that the batch allows.
  template <class Work>
  void choose_lanes(SampleBatch const& batch, Work const& work) {
    if constexpr (InPlace) {
      work(pointers_, columns_);
    } else {
      bool const has_few_entries = batch.num_entries() <= std::numeric_limits<NarrowPointer>::max();
      bool const has_few_neurons = fit_narrow_columns(batch.num_neurons());
      auto const with_pointers = [&](auto& pointers) {
        if (has_few_neurons) {
          work(pointers, narrow_columns_);
        } else {
          work(pointers, columns_);
        }
      };
      if (has_few_entries) {
        with_pointers(narrow_pointers_);
      } else {
        with_pointers(pointers_);
      }
    }
  }

  template <class PointerLane, class ColumnLane>
  void copy(PointerLane& pointers, ColumnLane& columns, Arrays const& arrays, SampleBatch const& batch, Wanted wanted) {
    pointers.begin(space_, arrays.row_pointers, batch.num_samples() + 1);
    if (wanted.values) values_.begin(space_, arrays.values, batch.num_entries());
    bool const lie_ready = wanted.columns && send_ready(columns, arrays, batch);
    if (wanted.columns && !lie_ready) columns.begin(space_, arrays.columns, batch.num_entries());
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
    finish(pointers);
    if (wanted.columns) finish(columns);
    if (wanted.values) finish(values_);
  }

  /// Starts copies of the columns from where they are. Returns false, and does nothing, unless all lie in the width of
  /// the lane in memory that a reader has put them into.
  template <class ColumnLane>
  bool send_ready(ColumnLane& lane, Arrays const& arrays, SampleBatch const& batch) {
    if constexpr (!InPlace) {
      using Number = std::remove_pointer_t<decltype(lane.numbers())>;
      bool const lie_ready = std::ranges::all_of(batch.rows(), [](SampleRows const& rows) {
        return rows.ready && std::holds_alternative<Number const*>(rows.ready->columns);
      });
      if (!lie_ready) return false;
      lane.begin(space_, arrays.columns, batch.num_entries(), false);
      std::size_t place = 0;
      for (auto const& rows : batch.rows()) {
        auto const* const columns = std::get<Number const*>(rows.ready->columns);
        if (rows.num_entries() > 0) lane.send_from(space_, columns + rows.first_entry(), place, rows.num_entries());
        place += rows.num_entries();
      }
      return true;
    }
    return false;
  }

  template <class Work>
  void run_chunks(std::size_t num_chunks, std::size_t num_numbers, Work const& work) const {
    if (num_numbers <= chunk_length_ || num_chunks == 1) {
      for (std::size_t number = 0; number < num_chunks; ++number) work(number); // starting threads would take longer
    } else {
      for_each_on_host_threads(num_chunks, work);
    }
  }

  template <class NumbersLane>
  void finish(NumbersLane const& lane) {
    lane.finish(space_);
    copied_bytes_ += lane.num_bytes();
  }

  /// Chunks of row pointers: the first entry of each row, and for the last set also the end of its last row.
  std::vector<Chunk> chunks_of_pointers(SampleBatch const& batch) const {
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

  std::vector<Chunk> chunks_of_entries(SampleBatch const& batch) const {
    std::vector<Chunk> chunks;
    std::size_t place = 0;
    for (auto const& rows : batch.rows()) {
      cut(chunks, {&rows, rows.first_entry(), rows.last_entry(), place, 0});
      place += rows.num_entries();
    }
    return chunks;
  }

  void cut(std::vector<Chunk>& chunks, Chunk chunk) const {
    for (std::size_t const last = chunk.last; chunk.first < last; chunk.first = chunk.last) {
      chunk.last = std::min(chunk.first + chunk_length_, last);
      chunks.push_back(chunk);
      chunk.place += chunk.last - chunk.first;
    }
  }

  template <class PointerLane>
  void put_pointers(PointerLane& lane, Chunk const& chunk) {
    put(lane, chunk,
        [from = chunk.rows->row_pointers().data(), shift = chunk.shift](std::size_t i) { return from[i] + shift; });
  }

  template <class ColumnLane>
  void put_columns(ColumnLane& lane, Chunk const& chunk) {
    std::visit([&](auto const* from) { put(lane, chunk, [from](std::size_t i) { return from[i]; }); },
               chunk.rows->columns());
  }

  void put_values(Chunk const& chunk) {
    auto const values = chunk.rows->values();
    if (values.size() == 1) {
      put(values_, chunk, [value = values[0]](std::size_t) { return value; });
    } else {
      put(values_, chunk, [from = values.data()](std::size_t i) { return from[i]; });
    }
  }

  /// Writes number_at(chunk.first) ... number_at(chunk.last - 1) to the lane, rounded to its type, and sends them.
  template <class NumbersLane, class NumberAt>
  void put(NumbersLane& lane, Chunk const& chunk, NumberAt const& number_at) {
    auto* const numbers = lane.numbers() + chunk.place;
    using Number = std::remove_reference_t<decltype(*numbers)>;
    bool has_infinity = false;
    for (std::size_t i = chunk.first; i < chunk.last; ++i) {
      auto const number = static_cast<Number>(number_at(i));
      numbers[i - chunk.first] = number;
      if constexpr (std::is_floating_point_v<Number>) has_infinity |= !std::isfinite(number);
    }
    if (has_infinity) found_infinity_ = true;
    std::lock_guard const lock(send_guard_);
    lane.send(space_, chunk.place, chunk.last - chunk.first);
  }

  std::string input_name_;
  std::size_t chunk_length_;
  std::atomic<bool> found_infinity_ = false; ///< a value is not finite as Scalar
  ExecutionSpace space_;
  std::mutex send_guard_;
  Lane<EdgeOffset> pointers_;
  Lane<NeuronIndex> columns_;
  Lane<Scalar> values_;
  std::conditional_t<InPlace, Lane<EdgeOffset>, Lane<EdgeOffset, NarrowPointer>> narrow_pointers_;
  std::conditional_t<InPlace, Lane<NeuronIndex>, Lane<NeuronIndex, NarrowColumn>> narrow_columns_;
  std::size_t copied_bytes_ = 0;
};

} // namespace varve
