#pragma once

#include "core/device_memory.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"
#include "network/sample_set.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {

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

  /// Samples that kernels can read, and the number of bytes copied.
  struct Copied {
    SamplesOnDevice samples;
    std::size_t copied_bytes = 0;
  };

  /// Copies a batch to these arrays and returns when it has arrived. In place, the result refers to the sets of the
  /// batch, which must outlive it. Not thread-safe. Throws InputError if the scalar type cannot represent a value.
  Copied copy(SampleArrays& arrays, SampleBatch const& batch);

private:
  /// Transfer of numbers to an array on the device: copied in the background through pinned memory, as narrower numbers
  /// if they fit, which are then widened on the device. In place, they are written to the array directly.
  struct Lane {
    DeviceBytes on_host, narrow;
    void* target = nullptr;  ///< the array
    void* arrival = nullptr; ///< numbers on the device before they are widened
    void* put = nullptr;     ///< host memory to which threads write the numbers
    std::size_t count = 0, number_bytes = 0;
    bool is_narrow = false;
  };
  using Jobs = std::vector<std::function<void()>>;

  NeuronIndex const* columns_in_place(SampleBatch const& batch) const;
  double const* values_in_place(SampleBatch const& batch) const;
  void const* copy_one_value(SampleArrays& arrays, double value);
  void begin(Lane& lane, DeviceBytes& array, std::size_t count, std::size_t wide_bytes, std::size_t number_bytes);
  void begin_to_put(Lane& lane) const;
  void send(Lane const& lane, void const* from, std::size_t first, std::size_t count) const;
  bool send_ready(Lane const& lane, SampleBatch const& batch) const;
  void add_pointers(SampleBatch const& batch, Jobs& jobs);
  void add_entries(SampleBatch const& batch, bool has_columns, bool has_values, Jobs& jobs);
  template <class Number, class NumberAt>
  void add(Lane const& lane, std::size_t first, std::size_t last, std::size_t place, NumberAt const& number_at,
           Jobs& jobs);

  DeviceMemory const& memory_;
  WidenLaunches widen_;
  std::size_t scalar_bytes_;
  bool is_in_place_;
  std::string input_name_;
  std::size_t chunk_length_;
  std::atomic<bool> found_infinity_ = false; ///< a value is not finite in the scalar type
  std::unique_ptr<Stream> lane_;
  std::mutex send_guard_;
  Lane pointers_, columns_, values_;
  std::size_t copied_bytes_ = 0;
};

/// Converts dense samples on the device into the sparse samples that kernels read. Its arrays grow if a batch has more
/// samples or nonzero values.
class DenseSamples {
public:
  /// `input_name`: the name of the samples in messages. The kernels must outlive this object.
  DenseSamples(KernelSet const& kernels, std::string input_name)
      : kernels_(kernels), input_name_(std::move(input_name)) {}

  /// The samples [samples, neurons] of the rows, valid until the next call. first_sample: the number of the first one.
  /// Throws InputError, naming the sample, if a value is not finite.
  SamplesOnDevice read(Stream const& stream, DeviceInput const& rows, SampleIndex first_sample) {
    auto const make_room = [&](DeviceBytes& array, std::size_t count, std::size_t number_bytes) {
      kernels_.memory().make_room(stream, array, count, number_bytes, "varve::staged_samples");
    };
    make_room(arrays_.row_pointers, rows.num_rows + 1, sizeof(EdgeOffset));
    auto* const row_ends = arrays_.row_pointers.as<EdgeOffset>();
    auto const found = kernels_.count_entries(stream, rows, row_ends);
    if (found.first_bad < rows.num_rows * rows.num_columns) {
      throw InputError(input_name_ + ": sample " + std::to_string(first_sample + found.first_bad / rows.num_columns) +
                       " has a value that is not finite at neuron " +
                       std::to_string(found.first_bad % rows.num_columns) +
                       " (counted from 0), expected finite numbers");
    }
    make_room(arrays_.columns, found.num_entries, sizeof(NeuronIndex));
    make_room(arrays_.values, found.num_entries, kernels_.scalar_bytes());
    auto* const columns = arrays_.columns.as<NeuronIndex>();
    kernels_.fill_entries(stream, rows, row_ends, found.num_entries, columns, arrays_.values.data());
    return {static_cast<int>(rows.num_rows),
            static_cast<int>(rows.num_columns),
            row_ends,
            columns,
            arrays_.values.data(),
            1,
            found.num_entries};
  }

private:
  KernelSet const& kernels_;
  std::string input_name_;
  SampleArrays arrays_;
};

/// Uploads samples to two places on the device, so that another thread can upload the next batch while one is computed.
class SampleUpload {
public:
  static constexpr std::size_t num_places = 2;

  /// `input_name`: the name of the samples in messages. The kernels must outlive this object.
  SampleUpload(KernelSet const& kernels, std::string const& input_name)
      : copy_(kernels.memory(), kernels.widen(), kernels.scalar_bytes(), kernels.memory().is_host(), input_name) {}

  /// Bytes on the device for a sample with `entries` entries, both places together.
  static std::size_t bytes_per_sample(KernelSet const& kernels, std::size_t entries, bool has_one_value) {
    std::size_t const value_bytes = has_one_value ? 0 : kernels.scalar_bytes();
    std::size_t const narrow_bytes =
        kernels.memory().is_host() ? 0 : entries * sizeof(std::uint16_t) + sizeof(std::uint32_t);
    std::size_t const bytes =
        num_places * (entries * (sizeof(NeuronIndex) + value_bytes) + sizeof(EdgeOffset)) + narrow_bytes;
    return bytes + bytes / 16; // make_room() allocates a sixteenth more
  }

  /// Copies samples to a free place on the device; does nothing if both places are in use. Any thread may call it.
  void upload(SampleBatch const& samples) {
    std::size_t place = 0;
    {
      std::unique_lock lock(guard_);
      changed_.wait(lock, [this] { return !is_uploading_; });
      if (num_uploaded_ == num_places) return;
      place = (first_ + num_uploaded_) % num_places; // remains the free place even if another one is released meanwhile
      is_uploading_ = true;
    }
    SampleTraffic traffic;
    try {
      traffic = fill(places_[place], samples);
    } catch (...) {
      finish_upload(0, traffic);
      throw;
    }
    finish_upload(1, traffic);
  }

  /// Returns these samples on the device, where they stay until release(); uploads them unless upload() did. Discards
  /// other samples that were uploaded earlier.
  SamplesOnDevice take(SampleBatch const& samples) {
    Place const* place = nullptr;
    while ((place = find(samples)) == nullptr) upload(samples);
    return place->samples;
  }

  /// Frees the place of the samples that take() returned last.
  void release() {
    std::lock_guard const lock(guard_);
    give_up_first();
  }

  /// The traffic since the last call.
  SampleTraffic take_traffic() {
    std::lock_guard const lock(guard_);
    return std::exchange(traffic_, {});
  }

private:
  struct Place {
    std::optional<SampleBatch> batch; ///< the uploaded batch; keeps sets that are read in place alive
    SampleArrays arrays;
    SamplesOnDevice samples;
  };

  Place const* find(SampleBatch const& samples) {
    std::unique_lock lock(guard_);
    for (;;) {
      while (num_uploaded_ > 0 && places_[first_].batch != samples) give_up_first();
      if (num_uploaded_ > 0) return &places_[first_];
      if (!is_uploading_) return nullptr;
      changed_.wait(lock, [this] { return !is_uploading_; });
    }
  }

  void give_up_first() {
    places_[first_].batch.reset();
    first_ = (first_ + 1) % num_places;
    --num_uploaded_;
  }

  void finish_upload(std::size_t num_more, SampleTraffic const& traffic) {
    {
      std::lock_guard const lock(guard_);
      is_uploading_ = false;
      num_uploaded_ += num_more;
      traffic_.seconds += traffic.seconds;
      traffic_.copied_bytes += traffic.copied_bytes;
    }
    changed_.notify_all();
  }

  SampleTraffic fill(Place& place, SampleBatch const& samples) {
    Stopwatch const time;
    place.batch = samples;
    auto const copied = copy_.copy(place.arrays, samples);
    place.samples = copied.samples;
    return {time.seconds(), copied.copied_bytes};
  }

  SampleCopy copy_;
  std::mutex guard_; ///< guards the members below, except the place that is being filled
  std::condition_variable changed_;
  std::array<Place, num_places> places_;
  std::size_t first_ = 0;
  std::size_t num_uploaded_ = 0; ///< places in use, from first_ on
  bool is_uploading_ = false;
  SampleTraffic traffic_;
};

} // namespace varve
