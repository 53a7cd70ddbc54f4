#pragma once

#include "process.hpp"

#include "network/sample_set.hpp"

#include <algorithm>
#include <cstddef>

namespace varve::python {

/// The samples 0 to count - 1, which make(first, last) reads or draws part by part, so that Ctrl-C need not wait for
/// the end. Call it without the GIL.
template <class Make>
SampleSet in_parts(std::size_t count, std::size_t at_a_time, Make const& make) {
  SampleBatch all = make(std::size_t{0}, std::min(at_a_time, count));
  for (auto first = all.num_samples(); first < count; first = all.num_samples()) {
    run_signal_handlers();
    all.append(make(first, std::min(first + at_a_time, count)));
  }
  return to_set(all);
}

} // namespace varve::python
