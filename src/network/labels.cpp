#include "network/labels.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {

Labels labels_of(Labels const& labels, std::size_t first, std::size_t last) {
  VARVE_REQUIRE(first <= last && last <= labels.num_samples(), "labels outside the list");
  auto const begin = labels.classes.begin();
  return {{begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last)},
          labels.first_sample + first};
}

void require_classes(Labels const& labels, std::size_t num_classes, std::string const& place) {
  auto const wrong = std::ranges::find_if(labels.classes, [&](NeuronIndex label) { return label >= num_classes; });
  if (wrong == labels.classes.end()) return;
  auto const sample = labels.first_sample + static_cast<SampleIndex>(wrong - labels.classes.begin());
  auto const found =
      *wrong == no_class ? fmt::format("a label of {} or more", no_class) : fmt::format("the label {}", *wrong);
  throw InputError(fmt::format("{}: sample {} has {}, expected 0 to {}, a class for each of {} outputs", place,
                               sample + 1, found, num_classes - 1, num_classes));
}

} // namespace varve
