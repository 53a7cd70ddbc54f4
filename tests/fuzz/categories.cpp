#include "fuzz/target.hpp"

#include "io/categories.hpp"

#include <algorithm>

/// The file of true categories: a sample number a line.
void varve::fuzz::read_input(std::string_view bytes) {
  auto const samples = read_categories(file_of(bytes, "categories.tsv"));
  require(std::ranges::adjacent_find(samples, std::greater_equal<>()) == samples.end(), "categories do not ascend");
}
