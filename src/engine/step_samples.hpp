#pragma once

#include <cstddef>
#include <vector>

namespace varve {

/// An Inference that tells how many samples each step of its plan took. Varve's own engine does; engines without steps
/// do not.
class StepSamples {
public:
  virtual ~StepSamples() = default;

  /// Samples in the panel before each step of the last infer(), in order. Shorter than the plan if no sample was left
  /// before its end.
  virtual std::vector<std::size_t> const& step_samples() const = 0;
};

} // namespace varve
