#include "io/natural_order.hpp"

#include <algorithm>
#include <cctype>

namespace varve {
namespace {

bool is_digit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }

/// Removes a run of digits from the front of `text` and returns it without leading zeros.
std::string_view take_digits(std::string_view& text) {
  auto const end = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  auto digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

} // namespace

bool comes_before(std::string_view name, std::string_view other) {
  auto left = name;
  auto right = other;
  while (!left.empty() && !right.empty()) {
    if (is_digit(left.front()) && is_digit(right.front())) {
      auto const one = take_digits(left);
      auto const two = take_digits(right);
      if (one.size() != two.size()) return one.size() < two.size();
      if (one != two) return one < two;
    } else if (left.front() != right.front()) {
      return left.front() < right.front();
    } else {
      left.remove_prefix(1);
      right.remove_prefix(1);
    }
  }
  if (left.empty() != right.empty()) return left.empty();
  return name < other; // equal but for leading zeros
}

} // namespace varve
