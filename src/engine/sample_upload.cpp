#include "engine/sample_upload.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <utility>

namespace varve {

SamplesOnDevice DenseSamples::read(Stream const& stream, DeviceInput const& rows, SampleIndex first_sample) {
  auto const make_room = [&](DeviceBytes& array, std::size_t count, std::size_t number_bytes) {
    kernels_.memory().make_room(stream, array, count, number_bytes, "varve::staged_samples");
  };
  make_room(arrays_.row_pointers, rows.num_rows + 1, sizeof(EdgeOffset));
  auto* const row_ends = arrays_.row_pointers.as<EdgeOffset>();
  auto const found = kernels_.count_entries(stream, rows, row_ends);
  if (found.first_bad < rows.num_rows * rows.num_columns) {
    throw InputError(input_name_ + ": sample " + std::to_string(first_sample + found.first_bad / rows.num_columns) +
                     " has a value that is not finite at neuron " + std::to_string(found.first_bad % rows.num_columns) +
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

void SampleUpload::upload(SampleBatch const& samples) {
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

SamplesOnDevice SampleUpload::take(SampleBatch const& samples) {
  Place const* place = nullptr;
  while ((place = find(samples)) == nullptr) upload(samples);
  return place->samples;
}

void SampleUpload::release() {
  std::lock_guard const lock(guard_);
  give_up_first();
}

SampleTraffic SampleUpload::take_traffic() {
  std::lock_guard const lock(guard_);
  return std::exchange(traffic_, {});
}

SampleUpload::Place const* SampleUpload::find(SampleBatch const& samples) {
  std::unique_lock lock(guard_);
  for (;;) {
    while (num_uploaded_ > 0 && places_[first_].batch != samples) give_up_first();
    if (num_uploaded_ > 0) return &places_[first_];
    if (!is_uploading_) return nullptr;
    changed_.wait(lock, [this] { return !is_uploading_; });
  }
}

void SampleUpload::give_up_first() {
  places_[first_].batch.reset();
  first_ = (first_ + 1) % num_places;
  --num_uploaded_;
}

void SampleUpload::finish_upload(std::size_t num_more, SampleTraffic const& traffic) {
  {
    std::lock_guard const lock(guard_);
    is_uploading_ = false;
    num_uploaded_ += num_more;
    traffic_.seconds += traffic.seconds;
    traffic_.copied_bytes += traffic.copied_bytes;
  }
  changed_.notify_all();
}

SampleTraffic SampleUpload::fill(Place& place, SampleBatch const& samples) {
  Stopwatch const time;
  place.batch = samples;
  auto const copied = copy_.copy(place.arrays, samples);
  place.samples = copied.samples;
  return {time.seconds(), copied.copied_bytes};
}

} // namespace varve
