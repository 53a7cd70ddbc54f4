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

/// Arrays on the device that the samples of a batch are brought to; they grow where they must.
template <class ExecutionSpace, class Scalar>
struct SampleArrays {
  DeviceArray<ExecutionSpace, EdgeOffset> row_pointers;
  DeviceArray<ExecutionSpace, NeuronIndex> columns;
  DeviceArray<ExecutionSpace, Scalar> values;
};

/// Makes room for so many numbers, and some more, because the next batch may have a few more.
template <class Array>
void make_room(Array& array, std::size_t count, std::string const& label = "varve::staged_samples") {
  if (array.size() >= count) return;
  array = Array(); // the old one goes before the new one comes
  array = Array(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), count + count / 16);
}

/// Numbers on their way to an array of type Wide: as Narrow through pinned memory and by a copy in the background, then
/// widened on the device. Where the device is the host (InPlace), they are put into the array itself.
template <class ExecutionSpace, class Wide, class Narrow, bool InPlace>
class NumberLane {
public:
  /// The array must have room for so many numbers.
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

  /// Where numbers are put, from any thread, before they are sent.
  Narrow* numbers() const { return put_; }

  /// Sends [first, first + count) of them. One thread at a time.
  void send([[maybe_unused]] ExecutionSpace const& space, [[maybe_unused]] std::size_t first,
            [[maybe_unused]] std::size_t count) const {
    if constexpr (!InPlace) {
      using Source = Kokkos::View<Narrow const*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryUnmanaged>;
      using Target = Kokkos::View<Narrow*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
      Kokkos::deep_copy(space, Target(part_of(arrival(), first, count).data(), count), Source(put_ + first, count));
    }
  }

  /// After the last was sent. Does not fence.
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
  Narrow* put_ = nullptr; ///< on the host
  std::size_t count_ = 0;
};

/// Brings samples to where kernels read them. To a device they go compactly: columns in 16 bits where the width allows,
/// row pointers in 32 where there are few enough entries. Host threads put them into pinned memory in chunks, and each
/// chunk is copied, by a stream of its own, while the next ones are made. Where the device is the host (InPlace), the
/// columns of one set are read where they lie; row pointers are made anew, for they count from the batch's first entry.
template <class ExecutionSpace, class Scalar, bool InPlace = kOnHost<ExecutionSpace>>
class SampleCopy {
public:
  using Arrays = SampleArrays<ExecutionSpace, Scalar>;
  using OnDevice = DeviceSamples<ExecutionSpace, Scalar>;

  /// `input_name`: what messages call the samples.
  explicit SampleCopy(std::string input_name = "the samples", std::size_t chunk_length = std::size_t(1) << 20U)
      : input_name_(std::move(input_name)), chunk_length_(chunk_length) {
    if constexpr (!kOnHost<ExecutionSpace>) space_ = Kokkos::Experimental::partition_space(ExecutionSpace(), 1)[0];
  }

  /// Bytes on the device for a sample of so many entries, in `num_arrays` such arrays.
  static std::size_t bytes_per_sample(std::size_t num_arrays, std::size_t entries, bool has_one_value) {
    std::size_t const value_bytes = has_one_value ? 0 : sizeof(Scalar);
    std::size_t const narrow_bytes = InPlace ? 0 : entries * sizeof(NarrowColumn) + sizeof(NarrowPointer);
    std::size_t const bytes =
        num_arrays * (entries * (sizeof(NeuronIndex) + value_bytes) + sizeof(EdgeOffset)) + narrow_bytes;
    return bytes + bytes / 16; // as make_room does
  }

  /// Where samples are now, and how many bytes were copied to get them there.
  struct Brought {
    OnDevice samples;
    std::size_t copied_bytes = 0;
  };

  /// Returns once the samples have arrived in these arrays, or, in place, in the sets of the batch, which must stay as
  /// long as they are used. One batch at a time. Throws InputError if Scalar cannot hold a value.
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

  /// What of the entries is to be copied.
  struct Wanted {
    bool columns, values;
  };

  /// Neighbours in a list of one set, and where they go within that of the batch.
  struct Chunk {
    SparseMatrix const* matrix;
    std::size_t first, last;
    std::size_t place;
    EdgeOffset shift; ///< what row pointers change by
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

  /// work(lane of the row pointers, lane of the columns)
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
      for (std::size_t number = 0; number < num_chunks; ++number) work(number); // threads would take longer to start
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

  /// Of each set's rows the first pointers, of the last one's also that behind them.
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

  /// Puts number_at(first) ... into the lane, rounded to its type, and sends them.
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
  std::atomic<bool> found_infinity_ = false; ///< among the values as Scalar
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
