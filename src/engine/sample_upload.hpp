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

/// Samples on their way to the device, where there are two places for them, so that those of the next batch can come,
/// on another thread, while one is computed.
template <class ExecutionSpace, class Scalar>
class SampleUpload {
public:
  using Copy = SampleCopy<ExecutionSpace, Scalar>;
  using OnDevice = typename Copy::OnDevice;
  static constexpr std::size_t num_places = 2;

  /// `input_name`: what messages call the samples.
  explicit SampleUpload(std::string const& input_name = "the samples") : copy_(input_name) {}

  /// Bytes on the device for a sample of so many entries.
  static std::size_t bytes_per_sample(std::size_t entries, bool has_one_value) {
    return Copy::bytes_per_sample(num_places, entries, has_one_value);
  }

  /// Brings samples to the device, unless both places are taken; on any thread.
  void upload(SampleBatch const& samples) {
    std::size_t place = 0;
    {
      std::unique_lock lock(guard_);
      changed_.wait(lock, [this] { return !is_uploading_; });
      if (num_uploaded_ == num_places) return;
      place = (first_ + num_uploaded_) % num_places; // whatever is released meanwhile
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

  /// These samples on the device, where they stay until release(): already uploaded, or uploaded now. Others that were
  /// uploaded before them are given up.
  OnDevice take(SampleBatch const& samples) {
    Place const* place = nullptr;
    while ((place = find(samples)) == nullptr) upload(samples);
    return place->samples;
  }

  void release() {
    std::lock_guard const lock(guard_);
    give_up_first();
  }

  /// What has been brought since the last call.
  SampleTraffic take_traffic() {
    std::lock_guard const lock(guard_);
    return std::exchange(traffic_, {});
  }

private:
  struct Place {
    std::optional<SampleBatch> batch; ///< whose samples these are, and where they lie if they are not copied
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
  std::mutex guard_; ///< of all that follows; a place that is being filled belongs to who fills it
  std::condition_variable changed_;
  std::array<Place, num_places> places_;
  std::size_t first_ = 0;
  std::size_t num_uploaded_ = 0; ///< and not released yet, from the first place on
  bool is_uploading_ = false;
  SampleTraffic traffic_;
};

} // namespace varve
