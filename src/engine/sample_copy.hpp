#pragma once

#include "core/device_memory.hpp"
#include "engine/panel.hpp"
#include "network/sample_set.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace varve {

/// Transfer of numbers to an array on a device: copied in the background through pinned memory as narrower numbers,
/// then widened on the device. If the device is the host (in place), callers write to the array directly.
class NumberLane {
public:
  NumberLane(DeviceMemory const& memory, bool is_in_place, std::size_t narrow_bytes, std::size_t wide_bytes)
      : memory_(&memory), is_in_place_(is_in_place), narrow_bytes_(narrow_bytes), wide_bytes_(wide_bytes) {}

  /// Starts a transfer of `count` numbers to an array that has room for them. `uses_numbers`: false if numbers() is not
  /// used, because send_from() sends all numbers.
  void begin(Stream const& lane, void* target, std::size_t count, bool uses_numbers = true);

  /// The host memory to which any thread may write the narrow numbers before send().
  template <class Narrow>
  Narrow* numbers() const {
    return static_cast<Narrow*>(put_);
  }

  /// Starts the copy of numbers [first, first + count). Called by one thread at a time.
  void send(Stream const& lane, std::size_t first, std::size_t count) const;

  /// Starts the copy of `count` numbers elsewhere on the host, instead of numbers() from `first` on. Called by one
  /// thread at a time.
  void send_from(Stream const& lane, void const* from, std::size_t first, std::size_t count) const;

  bool is_narrow() const { return narrow_bytes_ < wide_bytes_; }
  std::size_t narrow_bytes() const { return narrow_bytes_; }
  /// The numbers on the device before they are widened, and the array they are widened into.
  void const* arrived() const { return narrow_.data(); }
  void* target() const { return target_; }
  std::size_t count() const { return count_; }
  std::size_t num_bytes() const { return count_ * narrow_bytes_; }

private:
  DeviceMemory const* memory_;
  bool is_in_place_;
  std::size_t narrow_bytes_, wide_bytes_; ///< bytes of a number
  DeviceBytes on_host_, narrow_;
  void* target_ = nullptr;
  void* put_ = nullptr; ///< the result of numbers()
  std::size_t count_ = 0;
};

/// Device arrays for the samples of a batch; they grow if a batch is larger.
struct SampleArrays {
  DeviceBytes row_pointers, columns, values;
};

/// Copies samples to the device, as compactly as possible: columns in 16 bits if the width allows, row pointers in 32
/// bits if the number of entries allows. Columns already stored in this width are copied directly. Host threads convert
/// chunks of all others into pinned memory; each chunk is copied in a separate stream while the next chunks are
/// converted. If the device is the host (in place), kernels read the columns of a single set without a copy; row
/// pointers are always copied, because they count from the first entry of the batch.
class SampleCopy {
public:
  /// `scalar_bytes`: bytes of a value, 4 or 8; `input_name`: the name of the samples in messages; `chunk_length`:
  /// numbers of a chunk.
  SampleCopy(DeviceMemory const& memory, WidenLaunches widen, std::size_t scalar_bytes, bool is_in_place,
             std::string input_name = "the samples", std::size_t chunk_length = std::size_t(1) << 20U);

  /// Bytes on the device for a sample with `entries` entries, stored in `num_arrays` SampleArrays.
  static std::size_t bytes_per_sample(std::size_t num_arrays, std::size_t entries, bool has_one_value,
                                      std::size_t scalar_bytes, bool is_in_place);

  /// Samples that kernels can read, and the number of bytes copied.
  struct Copied {
    SamplesOnDevice samples;
    std::size_t copied_bytes = 0;
  };

  /// Copies a batch to these arrays and returns when it has arrived. In place, the result refers to the sets of the
  /// batch, which must outlive it. Not thread-safe. Throws InputError if the scalar type cannot represent a value.
  Copied copy(SampleArrays& arrays, SampleBatch const& batch);

private:
  struct Wanted;
  struct Chunk;

  NeuronIndex const* columns_in_place(SampleBatch const& batch) const;
  double const* values_in_place(SampleBatch const& batch) const;
  void const* copy_one_value(SampleArrays& arrays, SampleBatch const& batch);
  void make_room(DeviceBytes& array, std::size_t count, std::size_t number_bytes) const;
  void copy(NumberLane& pointers, NumberLane& columns, SampleArrays const& arrays, SampleBatch const& batch,
            Wanted const& wanted);
  bool send_ready(NumberLane& lane, SampleArrays const& arrays, SampleBatch const& batch) const;
  template <class Work>
  void run_chunks(std::size_t num_chunks, std::size_t num_numbers, Work const& work) const;
  std::vector<Chunk> chunks_of_pointers(SampleBatch const& batch) const;
  std::vector<Chunk> chunks_of_entries(SampleBatch const& batch) const;
  void cut(std::vector<Chunk>& chunks, Chunk chunk) const;
  void put_pointers(NumberLane& lane, Chunk const& chunk);
  void put_columns(NumberLane& lane, Chunk const& chunk);
  void put_values(Chunk const& chunk);
  template <class Number, class NumberAt>
  void put(NumberLane& lane, Chunk const& chunk, NumberAt const& number_at);

  DeviceMemory const& memory_;
  WidenLaunches widen_;
  std::size_t scalar_bytes_;
  bool is_in_place_;
  std::string input_name_;
  std::size_t chunk_length_;
  std::atomic<bool> found_infinity_ = false; ///< a value is not finite in the scalar type
  std::unique_ptr<Stream> lane_;
  std::mutex send_guard_;
  NumberLane pointers_, columns_, values_;
  NumberLane narrow_pointers_, narrow_columns_;
  std::size_t copied_bytes_ = 0;
};

} // namespace varve
