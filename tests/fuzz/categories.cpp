#include "fuzz/target.hpp"

#include "io/categories.hpp"

#include <algorithm>

namespace varve::fuzz {

/// The file of true categories: a sample number a line.
VARVE_FUZZ_TARGET(categories) {
  auto const samples = read_categories(file_of(bytes, "categories.tsv"));
  require(std::ranges::adjacent_find(samples, std::greater_equal<>()) == samples.end(), "categories do not ascend");
}

} // namespace varve::fuzz
