#include "products/product_timeline.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace varve {

char const* name_of(ProductEvent::What what) {
  static constexpr std::array<char const*, ProductEvent::num_kinds> names = {"task", "copy", "wait", "finish"};
  return names[static_cast<std::size_t>(what)];
}

void ProductTimeline::restart() { *this = ProductTimeline(); }

void ProductTimeline::add(ProductEvent const& event) {
  auto& events = kinds_[static_cast<std::size_t>(event.what)];
  events.push_back(event);
  if (events.size() <= most_of_a_kind) return;
  auto const middle = events.begin() + static_cast<std::ptrdiff_t>(events.size() / 2);
  std::ranges::nth_element(events, middle, std::ranges::greater(),
                           [](ProductEvent const& one) { return one.end - one.begin; });
  num_dropped_ += static_cast<std::uint64_t>(std::distance(middle, events.end()));
  events.erase(middle, events.end());
}

std::vector<ProductEvent> ProductTimeline::events() const {
  std::vector<ProductEvent> all;
  for (auto const& events : kinds_) all.insert(all.end(), events.begin(), events.end());
  std::ranges::sort(all, {}, [](ProductEvent const& event) { return event.begin; });
  return all;
}

} // namespace varve
