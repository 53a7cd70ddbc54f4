#pragma once

namespace varve {

/// Defined in core/once_more.hpp too, which the test of unique types must find.
struct Twice {
  int number = 0;
};

} // namespace varve
