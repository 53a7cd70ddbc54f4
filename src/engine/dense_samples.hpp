#pragma once

#include "engine/kernel_set.hpp"
#include "engine/sample_copy.hpp"

#include <string>
#include <utility>

namespace varve {

/// Turns dense samples that lie on the device into the sparse samples that kernels read, there. Its arrays grow when a
/// batch has more samples or nonzero values.
class DenseSamples {
public:
  /// `input_name`: the name of the samples in messages. The kernels must outlive this object.
  DenseSamples(KernelSet const& kernels, std::string input_name)
      : kernels_(kernels), input_name_(std::move(input_name)) {}

  /// The samples [samples, neurons] of the rows, which are valid until the next call. Throws InputError, naming the
  /// sample, if a value is not finite. first_sample: the number of the first one.
  SamplesOnDevice read(Lane const& lane, DeviceInput const& rows, SampleIndex first_sample);

private:
  KernelSet const& kernels_;
  std::string input_name_;
  SampleArrays arrays_;
};

} // namespace varve
