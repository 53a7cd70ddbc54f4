#pragma once

#include "engine/panel.hpp"
#include "kernels/direct_forward.hpp"
#include "kernels/fused_forward.hpp"
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
    bool lists = true;       ///< list the live samples, who alone go on
    bool lists_done = false; ///< and those who are saturated for ever apart (where `lists`)
    bool keeps_dead = true;  ///< because a later layer may revive them
    int tile_samples = 0;    ///< of the tiles the next stretch takes
    Scalar cap = 0;          ///< of saturated samples
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
  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    direct_forward<Tile>(space, layer, pass);
  }
};
struct StationaryKernel {
  static constexpr bool reads_lists = true;
  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    stationary_forward<Tile>(space, layer, pass);
  }
};
struct StagedKernel {
  static constexpr bool reads_lists = true;
  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<typename Tile::Scalar> const& pass) {
    staged_forward<Tile>(space, layer, pass);
  }
};

/// One layer by one of these kernels.
template <class ExecutionSpace, class Format, class Tile, class Kernel>
class LayerStretch final : public Stretch<ExecutionSpace, typename Tile::Scalar> {
public:
  using Base = Stretch<ExecutionSpace, typename Tile::Scalar>;

  explicit LayerStretch(Format layer) : layer_(std::move(layer)) {}

  void forward(ExecutionSpace const& space, Panel<ExecutionSpace, typename Tile::Scalar>& panel,
               typename Base::HandOver const& hand_over) const override {
    if (!panel.is_expanded()) panel.template expand<Tile>(space);
    if (!Kernel::reads_lists || panel.tile_samples() != Tile::num_samples) panel.pack(space, Tile::num_samples);
    Kernel::template launch<Tile>(space, layer_, panel.next_pass());
    panel.advance(layer_.num_outputs(), Tile::num_samples);
    if (hand_over.lists && hand_over.lists_done) panel.list_live_and_done(space, hand_over.cap);
    if (hand_over.lists && !hand_over.lists_done) panel.list_live(space);
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  Format layer_;
};

/// Several layers of one format by the fused kernel.
template <class ExecutionSpace, class Format, class Tile, class Tune>
class FusedStretch final : public Stretch<ExecutionSpace, typename Tile::Scalar> {
public:
  using Scalar = typename Tile::Scalar;
  using Base = Stretch<ExecutionSpace, Scalar>;
  template <bool FromElsewhere>
  using Kernel = FusedForward<ExecutionSpace, Format, Tile, Tune, FromElsewhere>;

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
  }

  void forward(ExecutionSpace const& space, Panel<ExecutionSpace, Scalar>& panel,
               typename Base::HandOver const& hand_over) const override {
    auto const [input, max_neurons] = prepare_input(space, panel);
    if (Tune::in_place && input != FusedInput::scratch) {
      launch<Tune::in_place>(space, panel, hand_over, input, max_neurons);
    } else {
      launch<false>(space, panel, hand_over, input, max_neurons);
    }
  }

  int tile_samples() const override { return Tile::num_samples; }

private:
  template <bool FromElsewhere>
  void launch(ExecutionSpace const& space, Panel<ExecutionSpace, Scalar>& panel,
              typename Base::HandOver const& hand_over, FusedInput input, int max_neurons) const {
    Kernel<FromElsewhere> kernel;
    kernel.layers = edges_.data();
    kernel.num_layers = static_cast<int>(layers_.size());
    kernel.max_neurons = max_neurons;
    kernel.input = input;
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
  }

  /// Brings the samples where the first layer can read them. Gives where that is, and how many neurons scratch must
  /// hold.
  std::pair<FusedInput, int> prepare_input(ExecutionSpace const& space, Panel<ExecutionSpace, Scalar>& panel) const {
    int const num_inputs = layers_.front().frame.num_inputs;
    bool const is_wide = num_inputs > Tune::max_neurons;
    FusedInput const where_they_lie = is_wide ? FusedInput::memory : FusedInput::scratch;
    if (panel.is_expanded()) {
      panel.pack(space, Tile::num_samples);
      return {where_they_lie, Tune::in_place && !is_wide ? std::max(max_outputs_, num_inputs) : max_outputs_};
    }
    constexpr int neuron_bytes = Tile::num_samples * static_cast<int>(sizeof(Scalar));
    int const neurons_of_bits = (Kernel<Tune::in_place>::num_words(num_inputs) * 4 + neuron_bytes - 1) / neuron_bytes;
    if (Tune::in_place && panel.samples().value_stride == 0 && neurons_of_bits <= Tune::max_neurons)
      return {FusedInput::bits, std::max(max_outputs_, neurons_of_bits)};
    if (!is_wide) return {FusedInput::scratch, std::max(max_outputs_, num_inputs)};
    panel.template expand<Tile>(space);
    return {FusedInput::memory, max_outputs_};
  }

  std::vector<Format> layers_;
  ConstDeviceArray<ExecutionSpace, typename Format::Edges> edges_;
  int max_outputs_ = 0;
  bool stops_when_dead_ = false;
  int saturates_from_ = 0;
};

} // namespace varve
