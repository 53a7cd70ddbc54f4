#pragma once

#include "core/device_stream.hpp"
#include "engine/kernel_set.hpp"
#include "engine/panel_on.hpp"
#include "formats/counted_layer.hpp"
#include "formats/csr.hpp"
#include "formats/layer_images.hpp"
#include "kernels/binary_samples.hpp"
#include "kernels/cone_forward.hpp"
#include "kernels/dense_forward.hpp"
#include "kernels/direct_forward.hpp"
#include "kernels/first_layer.hpp"
#include "kernels/fused_forward.hpp"
#include "kernels/small_batch_forward.hpp"
#include "kernels/split_output_forward.hpp"
#include "kernels/split_output_operands.hpp"
#include "kernels/staged_forward.hpp"
#include "kernels/stationary_forward.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace varve {

/// The place of a strip among the outputs of its layer.
struct StripPlace {
  int first_output = 0;
  int num_lines = 0; ///< outputs of the whole layer; 0: the launch computes a whole layer
  bool begins_layer = true;
  bool ends_layer = true;
};

/// A kernel that computes one layer at a time: how it differs from others, and its launch.
template <KernelName name>
struct LayerKernel {
  static constexpr bool takes_strips = name == KernelName::direct || name == KernelName::dense;
  /// It reads samples through a list of live ones.
  static constexpr bool reads_lists =
      name == KernelName::stationary || name == KernelName::staged || name == KernelName::cones;
  static constexpr bool reads_bits = name == KernelName::stationary; ///< of samples whose values are all equal
  static constexpr bool may_leave_stamps = name == KernelName::split_output;

  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    if constexpr (name == KernelName::stationary) {
      static_assert(Tile::num_samples == Tuning<ExecutionSpace, typename Tile::Scalar>::StationaryTile::num_samples);
      stationary_forward(space, layer, pass);
    } else if constexpr (name == KernelName::staged) {
      staged_forward<Tile>(space, layer, pass);
    } else if constexpr (name == KernelName::cones) {
      cone_forward<Tile>(space, layer, pass);
    } else if constexpr (name == KernelName::dense) {
      dense_forward<Tile>(space, layer, pass);
    } else if constexpr (name == KernelName::direct) {
      direct_forward<Tile>(space, layer, pass);
    } else if constexpr (requires { Format::Edges::is_dense; }) {
      split_output_dense<Tile>(space, layer, pass);
    } else {
      split_output_forward<Tile>(space, layer, pass);
    }
  }
};

/// Computes one layer, a strip of a layer, or a run of cones, by a LayerKernel.
template <class ExecutionSpace, class Format, class Tile, class Kernel>
class LayerLaunch final : public Launch {
public:
  using Scalar = typename Tile::Scalar;

  /// `reads_bits`: the kernel reads the samples, whose values are all equal, as bits.
  LayerLaunch(Format layer, bool reads_bits, StripPlace const& strip)
      : layer_(std::move(layer)), reads_bits_(reads_bits), strip_(strip) {}

  void forward(Stream const& stream, Panel& given_panel, HandOver const& hand_over) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    auto& panel = static_cast<PanelOn<ExecutionSpace, Scalar>&>(given_panel);
    if (reads_bits_) {
      if constexpr (Kernel::reads_bits)
        stationary_forward_bits(space, layer_, panel.next_pass(), panel.set_bits(space));
    } else {
      if (!panel.is_expanded()) panel.template expand<Tile>(space);
      if (!Kernel::reads_lists || panel.tile_samples() != Tile::num_samples) panel.compact(space, Tile::num_samples);
      auto pass = pass_of(panel);
      if (Kernel::may_leave_stamps && !hand_over.marks_live) pass.live_stamps = {};
      Kernel::template launch<Tile>(space, layer_, pass);
    }
    if (!strip_.ends_layer) return;
    panel.advance(strip_.num_lines == 0 ? layer_.num_outputs() : strip_.num_lines, Tile::num_samples);
    if (hand_over.lists_live && hand_over.lists_saturated)
      panel.list_live_and_saturated(space, static_cast<Scalar>(hand_over.cap));
    if (hand_over.lists_live && !hand_over.lists_saturated) panel.list_live(space);
    if (hand_over.joins_equal) panel.list_distinct(space);
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  /// The arrays of the launch. All strips of a layer mark live samples with the same stamp.
  auto pass_of(PanelOn<ExecutionSpace, Scalar>& panel) const {
    auto pass = strip_.begins_layer ? panel.next_pass() : panel.same_pass();
    if constexpr (Kernel::takes_strips) {
      pass.first_output = strip_.first_output;
      pass.num_lines = strip_.num_lines;
    }
    return pass;
  }

  Format layer_;
  bool reads_bits_;
  StripPlace strip_;
};

/// The Format::Edges of several layers on the device, as bytes: Kokkos would launch a kernel to destroy a View of
/// Edges.
template <class ExecutionSpace, class Format>
ConstDeviceArray<ExecutionSpace, unsigned char> upload_edges(std::vector<Format> const& layers) {
  std::vector<typename Format::Edges> edges;
  for (auto const& layer : layers) edges.push_back(layer.edges());
  std::vector<unsigned char> bytes(edges.size() * sizeof(typename Format::Edges));
  std::memcpy(bytes.data(), edges.data(), bytes.size());
  return upload<ExecutionSpace>("varve::edges_of_layers", bytes);
}

/// Computes several layers of one format by the fused kernel. No layer may have more than Tune::max_neurons outputs,
/// nor the first one more inputs.
template <class ExecutionSpace, class Format, class Tile, class Tune>
class FusedLaunch final : public Launch {
public:
  using Scalar = typename Tile::Scalar;

  /// stops_when_dead: samples that are dead after the first of these layers stay dead. saturates_from: samples that are
  /// saturated after at least this many of these layers stay saturated.
  FusedLaunch(std::vector<Format> layers, bool stops_when_dead, int saturates_from)
      : layers_(std::move(layers)),
        edges_(upload_edges<ExecutionSpace>(layers_)),
        stops_when_dead_(stops_when_dead),
        saturates_from_(saturates_from) {
    for (auto const& layer : layers_) max_outputs_ = std::max(max_outputs_, layer.frame.num_outputs);
    if constexpr (Tune::prefetches) images_ = LayerImages<ExecutionSpace, Format>(layers_);
  }

  void forward(Stream const& stream, Panel& given_panel, HandOver const& hand_over) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    auto& panel = static_cast<PanelOn<ExecutionSpace, Scalar>&>(given_panel);
    if (panel.is_expanded()) panel.compact(space, Tile::num_samples);
    FusedForward<ExecutionSpace, Format, Tile, Tune> kernel;
    kernel.layers = array_in<typename Format::Edges>(edges_, 0, layers_.size());
    kernel.num_layers = static_cast<int>(layers_.size());
    kernel.images = images_.bytes();
    kernel.image_bytes = static_cast<int>(images_.stride());
    bool const holds_inputs = Tune::in_place || !panel.is_expanded(); // else the first layer reads them from memory
    kernel.max_neurons = holds_inputs ? std::max(max_outputs_, layers_.front().frame.num_inputs) : max_outputs_;
    kernel.samples = panel.samples();
    if (panel.is_expanded()) kernel.source = panel.source();
    kernel.num_slots = panel.num_samples();
    kernel.hand_over.ids = panel.ids();
    kernel.hand_over.target = panel.target();
    kernel.hand_over.target_tile_samples = hand_over.tile_samples;
    kernel.hand_over.num_kept = panel.next_count();
    kernel.hand_over.kept_ids = panel.next_ids();
    kernel.hand_over.saturated = panel.saturated();
    kernel.cap = static_cast<Scalar>(hand_over.cap);
    kernel.saturates_from = saturates_from_;
    kernel.hand_over.keeps_dead = hand_over.keeps_dead;
    kernel.stops_when_dead = stops_when_dead_;
    fused_forward(space, kernel, panel.max_samples());
    panel.advance_compacted(space, layers_.back().frame.num_outputs, hand_over.tile_samples);
    if (hand_over.joins_equal) panel.list_distinct(space);
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  std::vector<Format> layers_;
  ConstDeviceArray<ExecutionSpace, unsigned char> edges_; ///< upload_edges()
  LayerImages<ExecutionSpace, Format> images_;            ///< empty unless Tune::prefetches
  int max_outputs_ = 0;
  bool stops_when_dead_ = false;
  int saturates_from_ = 0;
};

/// Computes several layers of one format by the small-batch kernel.
template <class ExecutionSpace, class Format, class Tile>
class FewLaunch final : public Launch {
public:
  using Scalar = typename Tile::Scalar;
  using Edges = typename Format::Edges;

  explicit FewLaunch(std::vector<Format> layers)
      : layers_(std::move(layers)), edges_(upload_edges<ExecutionSpace>(layers_)) {
    for (auto const& layer : layers_) weights_per_layer_ += layer.weights.size();
    weights_per_layer_ /= layers_.size();
  }

  void forward(Stream const& stream, Panel& given_panel, HandOver const& hand_over) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    auto& panel = static_cast<PanelOn<ExecutionSpace, Scalar>&>(given_panel);
    if (panel.is_expanded()) panel.compact(space, Tile::num_samples);
    SmallBatchForward<ExecutionSpace, Format, Tile> const kernel{array_in<Edges>(edges_, 0, layers_.size()),
                                                                 panel.samples(), !panel.is_expanded(),
                                                                 panel.reusable_source(), panel.next_pass()};
    small_batch_forward(space, kernel, weights_per_layer_);
    for (auto const& layer : layers_) panel.advance(layer.num_outputs(), Tile::num_samples);
    if (hand_over.lists_live) panel.list_live(space);
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  std::vector<Format> layers_;
  ConstDeviceArray<ExecutionSpace, unsigned char> edges_; ///< upload_edges()
  std::size_t weights_per_layer_ = 0;
};

/// Computes the first layer by a further copy, without tiles of the samples: from the bits of samples whose values are
/// all equal, by counting their entries, or by the edges of few entries. Does not remove dead samples, because few die
/// in the first layer.
template <class ExecutionSpace, class Format>
class FirstLaunch final : public Launch {
public:
  using Scalar = typename Format::Scalar;

  /// `tile_samples`: samples of the tiles that the layer would read in a plan for other samples.
  FirstLaunch(Format layer, int tile_samples) : layer_(std::move(layer)), tile_samples_(tile_samples) {}

  void forward(Stream const& stream, Panel& given_panel, HandOver const& hand_over) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    auto& panel = static_cast<PanelOn<ExecutionSpace, Scalar>&>(given_panel);
    if constexpr (std::is_same_v<Format, CountedLayer<ExecutionSpace, Scalar>>) {
      counted_forward(space, layer_, panel.samples(), panel.target(), hand_over.tile_samples);
    } else if constexpr (std::is_same_v<Format, Csc<ExecutionSpace, Scalar>>) {
      entry_forward(space, layer_, panel.samples(), panel.target(), hand_over.tile_samples);
    } else {
      auto const bits = panel.set_bits(space);
      binary_forward(space, layer_, bits, panel.next_pass(), hand_over.tile_samples);
    }
    panel.advance(layer_.num_outputs(), hand_over.tile_samples);
  }

  int tile_samples() const override { return tile_samples_; }

private:
  Format layer_;
  int tile_samples_;
};

} // namespace varve
