#include "engine/strip_cutter.hpp"

#include "core/host_threads.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace varve {

void StripCutter::cut(NetworkSource const& source) {
  auto const numbers = store_.layers_too_large();
  for (std::size_t const number : numbers) {
    Layer const layer = source.layer(number);
    if (!fits(min_bytes(layer, number))) refuse(source, numbers);
    cut_layer(layer, number);
  }
}

std::size_t StripCutter::min_bytes(Layer const& layer, std::size_t number) const {
  return min_strip_bytes(layer.weights, chooser_.strip_shape(layer, planned_[number].choice));
}

/// Throws the error that names the memory needed by the layers of these numbers.
void StripCutter::refuse(NetworkSource const& source, std::vector<std::size_t> const& numbers) const {
  std::size_t most = 0;
  std::size_t largest = 0;
  for (std::size_t const number : numbers) {
    std::size_t const bytes = min_bytes(source.layer(number), number);
    if (bytes > most) largest = number;
    most = std::max(most, bytes);
  }
  strips_exceed_memory(store_.need_of(largest, most));
}

void StripCutter::cut_layer(Layer const& layer, std::size_t number) {
  constexpr std::size_t strips_at_a_time = 16;
  PlannedLayer& planned = planned_[number];
  std::size_t const most = std::max(max_strip_bytes(store_.room_for_stream()), min_bytes(layer, number));
  planned.choice = chooser_.in_strips(layer, planned.choice);
  auto const strips = cut_into_strips(layer.weights, chooser_.strip_shape(layer, planned.choice), most);
  for (std::size_t first = 0; first < strips.size(); first += strips_at_a_time) {
    std::size_t const count = std::min(strips_at_a_time, strips.size() - first);
    std::vector<Layer> parts(count);
    std::vector<std::unique_ptr<EncodedLayer>> encoded(count);
    for_each_on_host_threads(count, [&](std::size_t i) {
      parts[i] = layer_of(layer, strips[first + i]);
      encoded[i] = kernels_.encode(parts[i], {planned.choice, {}, {}});
    });
    for (std::size_t i = 0; i < count; ++i) {
      store_.place_strip(number, parts[i], *encoded[i]);
      planned.strips.push_back({strips[first + i], chooser_.of_strip(parts[i], planned.choice)});
    }
  }
}

struct PieceMaker::LastLayer {
  std::mutex guard; ///< guards the members below
  std::size_t number = 0;
  std::shared_ptr<Layer const> layer; ///< null: none is kept
};

PieceMaker::PieceMaker(KernelSet const& kernels, LayerChooser const& chooser,
                       std::shared_ptr<NetworkSource const> source, std::vector<PlannedLayer> const& planned)
    : kernels_(&kernels), chooser_(&chooser), source_(std::move(source)), last_(std::make_shared<LastLayer>()) {
  for (auto const& layer : planned) cuts_.push_back({layer.choice, layer.strips});
}

std::vector<unsigned char> PieceMaker::operator()(LayerStore::Piece const& piece) const {
  auto const& [choice, strips] = cuts_[piece.layer];
  if (strips.empty()) {
    Layer const layer = source_->layer(piece.layer);
    return image_of(layer, chooser_->choose(layer, piece.layer));
  }
  auto const part = layer_of(*layer_to_cut(piece.layer, piece.strip + 1 == strips.size()), strips[piece.strip].outputs);
  return image_of(part, {choice, {}, {}});
}

std::vector<unsigned char> PieceMaker::image_of(Layer const& layer, Encoding encoding) const {
  return kernels_->place_in_image(layer, *kernels_->encode(layer, std::move(encoding))).image;
}

/// The whole layer, read again unless it was the last one. is_last: the caller needs the last strip of the layer.
std::shared_ptr<Layer const> PieceMaker::layer_to_cut(std::size_t number, bool is_last) const {
  std::lock_guard const lock(last_->guard);
  if (!last_->layer || last_->number != number) {
    last_->layer = nullptr; // frees it before another is read
    last_->layer = std::make_shared<Layer const>(source_->layer(number));
    last_->number = number;
  }
  return is_last ? std::exchange(last_->layer, nullptr) : last_->layer;
}

} // namespace varve
