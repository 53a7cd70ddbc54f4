#pragma once

#include <cstddef>
#include <cstdlib>

namespace varve::test {

/// Which cases of a long test are run: all of them, or, with VARVE_TEST_SHARE=3 in the environment, the first of every
/// three. Seeds and order are fixed, so that a share is the same wherever it is drawn.
class Draw {
public:
  /// True if the next case is run.
  bool next() { return num_seen_++ % share() == 0; }

  /// How many of `num_cases` cases are run.
  static std::size_t count(std::size_t num_cases) { return (num_cases + share() - 1) / share(); }

private:
  std::size_t num_seen_ = 0;

  static std::size_t share() {
    char const* const text = std::getenv("VARVE_TEST_SHARE");
    auto const number = text != nullptr ? std::strtoul(text, nullptr, 10) : 1;
    return number > 0 ? number : 1;
  }
};

} // namespace varve::test
