#pragma once

#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"
#include "engine/sample_copy.hpp"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace varve {

/// Converts dense samples on the device into the sparse samples that kernels read. Its arrays grow if a batch has more
/// samples or nonzero values.
class DenseSamples {
public:
  /// `input_name`: the name of the samples in messages. The kernels must outlive this object.
  DenseSamples(KernelSet const& kernels, std::string input_name)
      : kernels_(kernels), input_name_(std::move(input_name)) {}

  /// The samples [samples, neurons] of the rows, valid until the next call. first_sample: the number of the first one.
  /// Throws InputError, naming the sample, if a value is not finite.
  SamplesOnDevice read(Stream const& stream, DeviceInput const& rows, SampleIndex first_sample);

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
    return SampleCopy::bytes_per_sample(num_places, entries, has_one_value, kernels.scalar_bytes(),
                                        kernels.memory().is_host());
  }

  /// Copies samples to a free place on the device; does nothing if both places are in use. Any thread may call it.
  void upload(SampleBatch const& samples);

  /// Returns these samples on the device, where they stay until release(); uploads them unless upload() did. Discards
  /// other samples that were uploaded earlier.
  SamplesOnDevice take(SampleBatch const& samples);

  /// Frees the place of the samples that take() returned last.
  void release();

  /// The traffic since the last call.
  SampleTraffic take_traffic();

private:
  struct Place {
    std::optional<SampleBatch> batch; ///< the uploaded batch; keeps sets that are read in place alive
    SampleArrays arrays;
    SamplesOnDevice samples;
  };

  Place const* find(SampleBatch const& samples);
  void give_up_first();
  void finish_upload(std::size_t num_more, SampleTraffic const& traffic);
  SampleTraffic fill(Place& place, SampleBatch const& samples);

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
