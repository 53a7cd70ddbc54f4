#include "radixnet/canvas.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace varve {

namespace {

/// The integer square root, rounded down. std::sqrt is correctly rounded, so for the arguments of at most 53 bits here
/// the first guess is off by at most one; the loops correct it.
std::int64_t whole_root(std::int64_t square) {
  auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(square)));
  while (root * root > square) --root;
  while ((root + 1) * (root + 1) <= square) ++root;
  return root;
}

std::int64_t distance(Point one, Point other) {
  return whole_root((one.x - other.x) * (one.x - other.x) + (one.y - other.y) * (one.y - other.y));
}

/// The point of the curve at parameter step / num_steps.
Point point_on(Stroke const& stroke, std::int64_t step, std::int64_t num_steps) {
  std::int64_t const rest = num_steps - step;
  auto const blend = [&](std::int64_t from, std::int64_t control, std::int64_t to) {
    return (rest * rest * from + 2 * rest * step * control + step * step * to) / (num_steps * num_steps);
  };
  return {blend(stroke.from.x, stroke.control.x, stroke.to.x), blend(stroke.from.y, stroke.control.y, stroke.to.y)};
}

/// The pixels [first, second) of a side with 2^log2_count pixels whose centres are at most `reach` away from a
/// position.
std::pair<std::int64_t, std::int64_t> pixels_within(std::int64_t position, std::int64_t reach, unsigned log2_count) {
  std::int64_t const pixel = kCanvasSide >> log2_count;
  std::int64_t const low = std::max(position - reach, std::int64_t{0});
  std::int64_t const high = std::max(position + reach, std::int64_t{0});
  // Centres lie at half pixels; the first division must round up, the second one down.
  return {(low + pixel / 2 - 1) / pixel, std::min((high + pixel / 2) / pixel, std::int64_t{1} << log2_count)};
}

} // namespace

Canvas::Canvas(std::size_t neurons)
    : log2_rows_(static_cast<unsigned>(std::countr_zero(neurons)) / 2U),
      log2_columns_(static_cast<unsigned>(std::countr_zero(neurons)) - log2_rows_),
      is_set_(neurons, 0) {}

void Canvas::draw(Stroke const& stroke, std::int64_t brush) {
  // Dabs a quarter of the radius apart give edges that are smooth to a hundredth of the radius.
  std::int64_t const length = distance(stroke.from, stroke.control) + distance(stroke.control, stroke.to);
  std::int64_t const num_steps = 1 + 4 * length / brush;
  for (std::int64_t step = 0; step <= num_steps; ++step) dab(point_on(stroke, step, num_steps), brush);
}

void Canvas::take_pixels(std::vector<NeuronIndex>& neurons) {
  for (std::size_t neuron = 0; neuron < is_set_.size(); ++neuron) {
    if (is_set_[neuron] != 0) neurons.push_back(static_cast<NeuronIndex>(neuron));
  }
  std::ranges::fill(is_set_, std::uint8_t{0});
}

/// Sets every pixel whose centre is covered by the brush or misses it by at most a twentieth of a pixel: like the
/// challenge's images, which were scaled before thresholding, coarse images have slightly thicker digits.
void Canvas::dab(Point centre, std::int64_t brush) {
  std::int64_t const radius = brush + (kCanvasSide >> log2_rows_) / 20;
  auto const columns = pixels_within(centre.x, radius, log2_columns_);
  for (std::int64_t column = columns.first; column < columns.second; ++column) {
    std::int64_t const aside = (2 * column + 1) * (kCanvasSide >> (log2_columns_ + 1U)) - centre.x;
    auto const rows = pixels_within(centre.y, whole_root(radius * radius - aside * aside), log2_rows_);
    auto const top = is_set_.begin() + (column << log2_rows_);
    if (rows.first < rows.second) std::fill(top + rows.first, top + rows.second, std::uint8_t{1});
  }
}

} // namespace varve
