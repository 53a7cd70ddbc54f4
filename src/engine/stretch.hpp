#pragma once

#include "engine/panel.hpp"
#include "kernels/direct_forward.hpp"
#include "kernels/fused_forward.hpp"
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
    bool compacts = true;   ///< pack the samples that stay
    bool keeps_dead = true; ///< because a later layer may revive them
    int tile_samples = 0;   ///< of the tiles the next stretch takes
  };

  virtual ~Stretch() = default;

  /// Takes the panel through the layers. Launches only.
  virtual void forward(ExecutionSpace const& space, Panel<ExecutionSpace, Scalar>& panel,
                       HandOver const& hand_over) const = 0;

  /// Samples per tile of the panel that it takes.
  virtual int tile_samples() const = 0;
};

/// One layer by the direct kernel, or by the stationary one where that can run it.
template <class ExecutionSpace, class Format, class Tile>
class DirectStretch final : public Stretch<ExecutionSpace, typename Tile::Scalar> {
public:
  using Base = Stretch<ExecutionSpace, typename Tile::Scalar>;
  static constexpr bool can_be_stationary =
      Tuning<ExecutionSpace, typename Tile::Scalar>::has_stationary_kernel && requires(Format format) {
    format.chunks_per_slice;
  };

  DirectStretch(Format layer, bool is_stationary) : layer_(std::move(layer)), is_stationary_(is_stationary) {}

  void forward(ExecutionSpace const& space, Panel<ExecutionSpace, typename Tile::Scalar>& panel,
               typename Base::HandOver const& hand_over) const override {
    if (!panel.is_expanded()) panel.template expand<Tile>(space);
    auto const launch = [&](auto const& forward) {
      forward(space, layer_, panel.source(), panel.target(), panel.num_slots(), panel.max_slots(), panel.live_stamps(),
              panel.next_stamp());
    };
    if constexpr (can_be_stationary) {
      if (is_stationary_) launch([](auto const&... arguments) { stationary_forward<Tile>(arguments...); });
    }
    if (!is_stationary_) launch([](auto const&... arguments) { direct_forward<Tile>(arguments...); });
    panel.advance(layer_.frame.num_outputs);
    if (hand_over.compacts || hand_over.tile_samples != Tile::num_samples) {
      panel.compact(space, hand_over.keeps_dead, hand_over.tile_samples);
    }
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  Format layer_;
  bool is_stationary_;
};

/// Several layers of one format by the fused kernel.
template <class ExecutionSpace, class Format, class Tile>
class FusedStretch final : public Stretch<ExecutionSpace, typename Tile::Scalar> {
public:
  using Base = Stretch<ExecutionSpace, typename Tile::Scalar>;

  /// stops_when_dead: samples that are dead after the first of these layers are dead for ever.
  FusedStretch(std::vector<Format> layers, bool stops_when_dead)
      : layers_(std::move(layers)), stops_when_dead_(stops_when_dead) {
    std::vector<typename Format::Edges> edges;
    for (auto const& layer : layers_) {
      edges.push_back(layer.edges());
      max_neurons_ = std::max({max_neurons_, layer.frame.num_inputs, layer.frame.num_outputs});
    }
    edges_ = upload<ExecutionSpace>("varve::fused_layers", edges);
  }

  void forward(ExecutionSpace const& space, Panel<ExecutionSpace, typename Tile::Scalar>& panel,
               typename Base::HandOver const& hand_over) const override {
    FusedForward<ExecutionSpace, Format, Tile> kernel;
    kernel.layers = edges_.data();
    kernel.num_layers = static_cast<int>(layers_.size());
    kernel.max_neurons = max_neurons_;
    kernel.samples = panel.samples();
    kernel.source = panel.is_expanded() ? panel.source() : nullptr;
    kernel.num_slots = panel.num_slots();
    kernel.ids = panel.ids();
    kernel.target = panel.target();
    kernel.target_tile_samples = hand_over.tile_samples;
    kernel.num_kept = panel.next_count();
    kernel.kept_ids = panel.next_ids();
    kernel.keeps_dead = hand_over.keeps_dead;
    kernel.stops_when_dead = stops_when_dead_;
    fused_forward(space, kernel, panel.max_slots());
    panel.advance_packed(space, layers_.back().frame.num_outputs, hand_over.tile_samples);
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  std::vector<Format> layers_;
  ConstDeviceArray<ExecutionSpace, typename Format::Edges> edges_;
  int max_neurons_ = 0;
  bool stops_when_dead_ = false;
};

} // namespace varve
