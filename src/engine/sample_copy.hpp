#pragma once

#include "core/execution.hpp"
#include "core/host_threads.hpp"
#include "kernels/samples.hpp"
#include "kernels/widen.hpp"
#include "network/representable.hpp"
#include "network/sample_batch.hpp"

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
#include <vector>

namespace varve {

/// Device arrays for the samples of a batch; they grow when a batch is larger.
template <class ExecutionSpace, class Scalar>
struct SampleArrays {
  DeviceArray<ExecutionSpace, EdgeOffset> row_pointers;
  DeviceArray<ExecutionSpace, NeuronIndex> columns;
  DeviceArray<ExecutionSpace, Scalar> values;
};

/// Makes room for `count` numbers and a sixteenth more, because the next batch may have a few more. Loses the contents
/// if the array must grow.
template <class Array>
void make_room(Array& array, std::size_t count, std::string const& label = "varve::staged_samples") {
  if (array.size() >= count) return;
  array = Array(); // frees the old array before the new one is allocated
  array = Array(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), count + count / 16);
}

/// Transfer of numbers to a device array of type Wide: as Narrow through pinned memory, copied in the background, then
/// widened on the device. If the device is the host (InPlace), callers write to the array itself.
template <class ExecutionSpace, class Wide, class Narrow, bool InPlace>
class NumberLane {
public:
  /// Begins a transfer of `count` numbers to an array that has room for them.
  void begin(DeviceArray<ExecutionSpace, Wide> const& target, std::size_t count) {
    target_ = target;
    count_ = count;
    if constexpr (InPlace) {
      static_assert(std::is_same_v<Narrow, Wide>);
      put_ = target_.data();
    } else {
      make_room(on_host_, count);
      put_ = on_host_.data();
      if constexpr (!std::is_same_v<Narrow, Wide>) make_room(narrow_, count);
    }
  }

  /// The host memory to which any thread may write the numbers before they are sent.
  Narrow* numbers() const { return put_; }

  /// Starts the copy of numbers [first, first + count). One thread at a time.
  void send([[maybe_unused]] ExecutionSpace const& space, [[maybe_unused]] std::size_t first,
            [[maybe_unused]] std::size_t count) const {
    if constexpr (!InPlace) {
      using Source = Kokkos::View<Narrow const*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryUnmanaged>;
      using Target = Kokkos::View<Narrow*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
      Kokkos::deep_copy(space, Target(part_of(arrival(), first, count).data(), count), Source(put_ + first, count));
    }
  }

  /// To be called after the last send(): launches the conversion to Wide. Does not fence.
  void finish([[maybe_unused]] ExecutionSpace const& space) const {
    if constexpr (!std::is_same_v<Narrow, Wide>) widen<ExecutionSpace, Narrow, Wide>(space, narrow_, target_, count_);
  }

  std::size_t num_bytes() const { return count_ * sizeof(Narrow); }

private:
  ArrayView<Narrow> arrival() const {
    if constexpr (std::is_same_v<Narrow, Wide>) {
      return target_;
    } else {
      return narrow_;
    }
  }

  Kokkos::View<Narrow*, Kokkos::SharedHostPinnedSpace> on_host_;
  DeviceArray<ExecutionSpace, Narrow> narrow_;
  ArrayView<Wide> target_;
  Narrow* put_ = nullptr; ///< what numbers() returns
  std::size_t count_ = 0;
};

/// Copies samples to the device. They travel compactly: columns in 16 bits if the width allows, row pointers in 32 bits
/// if the number of entries allows. Host threads convert chunks into pinned memory, and each chunk is copied in a
/// separate stream while the next chunks are converted. If the device is the host (InPlace), kernels read the columns
/// of a single set without a copy; row pointers are always new, because they count from the first entry of the batch.
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
    make_room(arrays.row_pointers, num_pointers);
    samples.row_pointers = Pointers(arrays.row_pointers.data(), num_pointers);
    if (wanted.columns) {
      make_room(arrays.columns, num_entries);
      samples.columns = Columns(arrays.columns.data(), num_entries);
    }
    if (wanted.values) {
      make_room(arrays.values, num_entries);
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
    SparseMatrix const* matrix;
    std::size_t first, last; ///< elements [first, last) of the set's array
    std::size_t place;       ///< index of the first of them in the batch's array
    EdgeOffset shift;        ///< added to row pointers, modulo 2^64
  };

  static Columns columns_in_place(SampleBatch const& batch) {
    if constexpr (InPlace) {
      auto const& rows = batch.rows().front();
      if (batch.rows().size() == 1)
        return Columns(rows.set->matrix.column_indices.data() + rows.first_entry(), rows.num_entries());
    }
    return Columns();
  }

  static Values values_in_place(SampleBatch const& batch) {
    if constexpr (InPlace && std::is_same_v<Scalar, double>) {
      auto const& rows = batch.rows().front();
      if (batch.rows().size() == 1)
        return Values(rows.set->matrix.values.data() + rows.first_entry(), rows.num_entries());
    }
    return Values();
  }

  Values bring_one_value(Arrays& arrays, SampleBatch const& batch) {
    make_room(arrays.values, 1);
    values_.begin(arrays.values, 1);
    values_.numbers()[0] = static_cast<Scalar>(batch.rows().front().set->matrix.values[0]);
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
      bool const has_few_neurons = batch.num_neurons() <= std::size_t(std::numeric_limits<NarrowColumn>::max()) + 1;
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
    auto const pointer_chunks = chunks_of_pointers(batch);
    auto const entry_chunks = wanted.columns || wanted.values ? chunks_of_entries(batch) : std::vector<Chunk>();
    pointers.begin(arrays.row_pointers, batch.num_samples() + 1);
    if (wanted.columns) columns.begin(arrays.columns, batch.num_entries());
    if (wanted.values) values_.begin(arrays.values, batch.num_entries());
    auto const work = [&](std::size_t number) {
      if (number < pointer_chunks.size()) {
        put_pointers(pointers, pointer_chunks[number]);
        return;
      }
      auto const& chunk = entry_chunks[number - pointer_chunks.size()];
      if (wanted.columns)
        put(columns, chunk, [from = chunk.matrix->column_indices.data()](std::size_t i) { return from[i]; });
      if (wanted.values) put_values(chunk);
    };
    std::size_t const num_chunks = pointer_chunks.size() + entry_chunks.size();
    if (batch.num_samples() + batch.num_entries() <= chunk_length_) {
      for (std::size_t number = 0; number < num_chunks; ++number) work(number); // starting threads would take longer
    } else {
      for_each_on_host_threads(num_chunks, work);
    }
    finish(pointers);
    if (wanted.columns) finish(columns);
    if (wanted.values) finish(values_);
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
      cut(chunks, {&rows.set->matrix, rows.first, last, place, entries_before - rows.first_entry()});
      place += rows.num_samples();
      entries_before += rows.num_entries();
    }
    return chunks;
  }

  std::vector<Chunk> chunks_of_entries(SampleBatch const& batch) const {
    std::vector<Chunk> chunks;
    std::size_t place = 0;
    for (auto const& rows : batch.rows()) {
      cut(chunks, {&rows.set->matrix, rows.first_entry(), rows.last_entry(), place, 0});
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
        [from = chunk.matrix->row_pointers.data(), shift = chunk.shift](std::size_t i) { return from[i] + shift; });
  }

  void put_values(Chunk const& chunk) {
    auto const& values = chunk.matrix->values;
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
