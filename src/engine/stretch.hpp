#pragma once

#include "engine/panel.hpp"
#include "formats/counted_layer.hpp"
#include "kernels/binary_samples.hpp"
#include "kernels/cone_forward.hpp"
#include "kernels/counted_samples.hpp"
#include "kernels/direct_forward.hpp"
#include "kernels/fused_forward.hpp"
#include "kernels/spread_forward.hpp"
#include "kernels/staged_forward.hpp"
#include "kernels/stationary_forward.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// One or more consecutive layers on the device, in the format and with the kernel that the plan chose for them.
template <class ExecutionSpace, class Scalar>
class Stretch {
public:
  /// What becomes of the samples behind this stretch.
  struct HandOver {
    bool lists = true;        ///< list the live samples, who alone go on
    bool lists_done = false;  ///< and those who are saturated for ever apart (where `lists`)
    bool joins_equal = false; ///< go on with one of each kind of samples that are equal in all bits
    bool keeps_dead = true;   ///< because a later layer may revive them
    int tile_samples = 0;     ///< of the tiles the next stretch takes
    Scalar cap = 0;           ///< of saturated samples
  };

  virtual ~Stretch() = default;

  /// Takes the panel through the layers. Launches only.
  virtual void forward(ExecutionSpace const& space, Panel<ExecutionSpace, Scalar>& panel,
                       HandOver const& hand_over) const = 0;

  /// Samples per tile of the panel that it takes.
  virtual int tile_samples() const = 0;
};

/// Single-layer kernels: how to launch them, and which samples they can read.
struct DirectKernel {
  static constexpr bool reads_lists = false;
  static constexpr bool reads_bits = false;
  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    direct_forward<Tile>(space, layer, pass);
  }
};
struct StationaryKernel {
  static constexpr bool reads_lists = true;
  static constexpr bool reads_bits = true;
  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    static_assert(Tile::num_samples == Tuning<ExecutionSpace, typename Tile::Scalar>::StationaryTile::num_samples);
    stationary_forward(space, layer, pass);
  }
};
struct StagedKernel {
  static constexpr bool reads_lists = true;
  static constexpr bool reads_bits = false;
  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    staged_forward<Tile>(space, layer, pass);
  }
};

struct SpreadKernel {
  static constexpr bool reads_lists = false;
  static constexpr bool reads_bits = false;
  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    spread_forward<Tile>(space, layer, pass);
  }
};
struct ConeKernel {
  static constexpr bool reads_lists = true;
  static constexpr bool reads_bits = false;
  template <class Tile, class ExecutionSpace, class Programs>
  static void launch(ExecutionSpace const& space, Programs const& run, LayerPass<typename Tile::Scalar> const& pass) {
    cone_forward<Tile>(space, run, pass);
  }
};

/// One layer (or run of layers) by one of these kernels.
template <class ExecutionSpace, class Format, class Tile, class Kernel>
class LayerStretch final : public Stretch<ExecutionSpace, typename Tile::Scalar> {
public:
  using Base = Stretch<ExecutionSpace, typename Tile::Scalar>;

  explicit LayerStretch(Format layer) : layer_(std::move(layer)) {}

  void forward(ExecutionSpace const& space, Panel<ExecutionSpace, typename Tile::Scalar>& panel,
               typename Base::HandOver const& hand_over) const override {
    if (Kernel::reads_bits && panel.has_one_value()) {
      if constexpr (Kernel::reads_bits)
        stationary_forward_bits(space, layer_, panel.next_pass(), panel.set_bits(space));
    } else {
      if (!panel.is_expanded()) panel.template expand<Tile>(space);
      if (!Kernel::reads_lists || panel.tile_samples() != Tile::num_samples) panel.pack(space, Tile::num_samples);
      Kernel::template launch<Tile>(space, layer_, panel.next_pass());
    }
    panel.advance(layer_.num_outputs(), Tile::num_samples);
    if (hand_over.lists && hand_over.lists_done) panel.list_live_and_done(space, hand_over.cap);
    if (hand_over.lists && !hand_over.lists_done) panel.list_live(space);
    if (hand_over.joins_equal) panel.list_distinct(space);
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  Format layer_;
};

/// Several layers of one format by the fused kernel. The first takes at most Tune::max_neurons inputs.
template <class ExecutionSpace, class Format, class Tile, class Tune>
class FusedStretch final : public Stretch<ExecutionSpace, typename Tile::Scalar> {
public:
  using Scalar = typename Tile::Scalar;
  using Base = Stretch<ExecutionSpace, Scalar>;

  /// stops_when_dead: samples that are dead after the first of these layers are dead for ever. saturates_from: those
  /// that are saturated after so many of these layers or more are done.
  FusedStretch(std::vector<Format> layers, bool stops_when_dead, int saturates_from)
      : layers_(std::move(layers)), stops_when_dead_(stops_when_dead), saturates_from_(saturates_from) {
    std::vector<typename Format::Edges> edges;
    for (auto const& layer : layers_) {
      edges.push_back(layer.edges());
      max_outputs_ = std::max(max_outputs_, layer.frame.num_outputs);
    }
    edges_ = upload<ExecutionSpace>("varve::fused_layers", edges);
    if constexpr (Tune::prefetches) images_ = LayerImages<ExecutionSpace, Format>(layers_);
  }

  void forward(ExecutionSpace const& space, Panel<ExecutionSpace, Scalar>& panel,
               typename Base::HandOver const& hand_over) const override {
    if (panel.is_expanded()) panel.pack(space, Tile::num_samples);
    FusedForward<ExecutionSpace, Format, Tile, Tune> kernel;
    kernel.layers = edges_.data();
    kernel.num_layers = static_cast<int>(layers_.size());
    kernel.images = images_.data();
    kernel.image_bytes = static_cast<int>(images_.stride());
    bool const holds_inputs = Tune::in_place || !panel.is_expanded(); // else they are read where they lie
    kernel.max_neurons = holds_inputs ? std::max(max_outputs_, layers_.front().frame.num_inputs) : max_outputs_;
    kernel.samples = panel.samples();
    kernel.source = panel.is_expanded() ? panel.source() : nullptr;
    kernel.num_slots = panel.num_samples();
    kernel.ids = panel.ids();
    kernel.target = panel.target();
    kernel.target_tile_samples = hand_over.tile_samples;
    kernel.num_kept = panel.next_count();
    kernel.kept_ids = panel.next_ids();
    kernel.done = panel.done();
    kernel.cap = hand_over.cap;
    kernel.saturates_from = saturates_from_;
    kernel.keeps_dead = hand_over.keeps_dead;
    kernel.stops_when_dead = stops_when_dead_;
    fused_forward(space, kernel, panel.max_samples());
    panel.advance_packed(space, layers_.back().frame.num_outputs, hand_over.tile_samples);
    if (hand_over.joins_equal) panel.list_distinct(space);
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  std::vector<Format> layers_;
  ConstDeviceArray<ExecutionSpace, typename Format::Edges> edges_;
  LayerImages<ExecutionSpace, Format> images_; ///< where they are prefetched
  int max_outputs_ = 0;
  bool stops_when_dead_ = false;
  int saturates_from_ = 0;
};

/// How the first layer takes samples whose values are all equal: by their bits,
template <class ExecutionSpace, class Format>
void launch_first(ExecutionSpace const& space, Format const& layer,
                  Panel<ExecutionSpace, typename Format::Scalar>& panel, int tile_samples) {
  auto const bits = panel.set_bits(space);
  binary_forward(space, layer, bits, panel.next_pass(), tile_samples);
}

/// or by counting their entries.
template <class ExecutionSpace, class Scalar>
void launch_first(ExecutionSpace const& space, CountedLayer<ExecutionSpace, Scalar> const& layer,
                  Panel<ExecutionSpace, Scalar>& panel, int tile_samples) {
  counted_forward(space, layer, panel.samples(), panel.target(), tile_samples);
}

/// The first layer: of samples whose values are all equal in one of these ways, of others by the stretch that it would
/// be without. It hands on samples that have died, few as they are.
template <class ExecutionSpace, class Format>
class FirstStretch final : public Stretch<ExecutionSpace, typename Format::Scalar> {
public:
  using Scalar = typename Format::Scalar;
  using Base = Stretch<ExecutionSpace, Scalar>;

  FirstStretch(Format layer, std::unique_ptr<Base> otherwise)
      : layer_(std::move(layer)), otherwise_(std::move(otherwise)) {}

  void forward(ExecutionSpace const& space, Panel<ExecutionSpace, Scalar>& panel,
               typename Base::HandOver const& hand_over) const override {
    if (!panel.has_one_value()) {
      otherwise_->forward(space, panel, hand_over);
      return;
    }
    launch_first(space, layer_, panel, hand_over.tile_samples);
    panel.advance(layer_.num_outputs(), hand_over.tile_samples);
  }

  int tile_samples() const override { return otherwise_->tile_samples(); }

private:
  Format layer_;
  std::unique_ptr<Base> otherwise_;
};

} // namespace varve
