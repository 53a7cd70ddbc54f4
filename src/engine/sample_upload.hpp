#pragma once

#include "core/stopwatch.hpp"
#include "engine/inference.hpp"
#include "engine/sample_copy.hpp"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace varve {

/// Uploads of samples to two places on the device, so that another thread can upload the next batch while one is
/// computed.
template <class ExecutionSpace, class Scalar>
class SampleUpload {
public:
  using Copy = SampleCopy<ExecutionSpace, Scalar>;
  using OnDevice = typename Copy::OnDevice;
  static constexpr std::size_t num_places = 2;

  /// `input_name`: the name of the samples in messages.
  explicit SampleUpload(std::string const& input_name = "the samples") : copy_(input_name) {}

  /// Bytes on the device for a sample with this many entries, both places together.
  static std::size_t bytes_per_sample(std::size_t entries, bool has_one_value) {
    return Copy::bytes_per_sample(num_places, entries, has_one_value);
  }

  /// Copies samples to a free place on the device; does nothing if both places are taken. Any thread may call it.
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

  /// Returns these samples on the device, where they stay until release(); uploads them unless upload() has. Discards
  /// other samples that were uploaded before them.
  OnDevice take(SampleBatch const& samples) {
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
    std::optional<SampleBatch> batch; ///< the uploaded batch; keeps the sets alive that samples read in place
    typename Copy::Arrays arrays;
    OnDevice samples;
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
    auto const brought = copy_.bring(place.arrays, samples);
    place.samples = brought.samples;
    return {time.seconds(), brought.copied_bytes};
  }

  Copy copy_;
  std::mutex guard_; ///< guards the members below, except the place that is being filled
  std::condition_variable changed_;
  std::array<Place, num_places> places_;
  std::size_t first_ = 0;
  std::size_t num_uploaded_ = 0; ///< places in use, from first_ on
  bool is_uploading_ = false;
  SampleTraffic traffic_;
};

} // namespace varve
