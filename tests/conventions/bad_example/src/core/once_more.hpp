#pragma once

namespace varve {

/// Defined in core/twice.hpp too, which the test of unique types must find.
struct Twice {
  double number = 0.0;
};

} // namespace varve
