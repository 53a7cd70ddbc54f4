#pragma once

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "engine/format_choice.hpp"
#include "engine/inference.hpp"
#include "engine/layer_slices.hpp"
#include "engine/memory_limits.hpp"
#include "engine/packing.hpp"
#include "engine/sentences.hpp"
#include "engine/stretch.hpp"
#include "engine/weight_segments.hpp"
#include "engine/weight_stream.hpp"
#include "formats/array_image.hpp"
#include "passes/saturation.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// A network on a device: which format and kernel each layer has got, and which layers run in one launch. Chosen once,
/// by looking at the layers:
///   - pattern blocks, if outputs share inputs so well that the blocks store at most twice as many weights as there are
///     (a fma of a block costs half of what one costs that loads its own input, or less; in the fused kernel see
///     tuning);
///   - else, in layers too wide for the fused kernel, staged blocks, if outputs share inputs;
///   - else sliced ELL, if padding stores at most a quarter more weights; else CSR;
///   - the fused kernel, if tiles of the layer's width fit team scratch; else the kernel that the format is for;
///   - with few samples (see tuning), the spread kernel instead of the fused one, on sliced ELL;
///   - before all that, several layers whose outputs depend on few neurons together: cones;
///   - the first layer alone, stored once more for samples whose values are all equal: by input, to count entries, or
///     as sliced ELL, to read bits;
///   - once samples may leave (nothing later revives them), launches are short at first, while many leave, then long;
///     after the first batch they are as short as it pays, for as many as left there: see choose_packing().
/// Weights that exceed their room are streamed: see WeightStream. Then no launch goes beyond a segment, and nothing is
/// stored twice (for bits, or as images of narrow layers).
template <class ExecutionSpace, class Scalar, bool NarrowTiles>
class DeviceNetwork {
public:
  using Work = Stretch<ExecutionSpace, Scalar>;
  struct Entry {
    std::unique_ptr<Work> work;
    typename Work::HandOver hand_over;
    std::size_t first_layer, last_layer; ///< both inclusive
    EdgeOffset num_edges;
    LayerChoice choice;
    std::size_t segment = 0; ///< of streamed weights
  };

  /// Throws InputError if layers do not fit together, ResourceError if weights cannot even be streamed within the
  /// limits. `slices`: the source, if it is one rank's part of a larger network; then every layer is a stretch of its
  /// own.
  DeviceNetwork(std::shared_ptr<NetworkSource const> const& source, InferenceOptions const& options,
                MemoryLimits const& limits, LayerSlices const* slices = nullptr)
      : options_(options), limits_(limits), slices_(slices), choice_(options, slices != nullptr) {
    ProfilingRegion const region("varve::prepare");
    NetworkSource const& network = *source;
    std::vector<Layer> layers;
    for (std::size_t first = 0; first < network.num_layers(); first += layers.size()) {
      std::size_t const count = std::min(layers_at_a_time, network.num_layers() - first);
      layers.assign(count, Layer());
      std::vector<Packed> packed(count);
      std::vector<double> kept_caps(count, 0.0);
      for_each_on_host_threads(count, [&](std::size_t i) { layers[i] = network.layer(first + i); });
      auto const runs =
          is_streamed_ ? std::vector<typename Choice::InRun>(count) : choice_.find_cone_runs(layers, first);
      for_each_on_host_threads(count, [&](std::size_t i) {
        if (runs[i].num_layers == 0) packed[i] = choice_.pack(layers[i], first + i);
        if (options_.reductions.saturation) kept_caps[i] = kept_cap<Scalar>(layers[i]);
      });
      for (std::size_t i = 0; i < count; ++i) {
        add(layers[i], kept_caps[i]);
        if (runs[i].num_layers == 0) {
          set_format(layers[i], packed[i]);
        } else if (runs[i].is_first) {
          set_format(std::span<Layer const>(layers).subspan(i, runs[i].num_layers), runs[i].cones);
        }
      }
      if (first == 0 && network.num_layers() > 1) add_first(layers[0]);
    }
    make_room(0);
    if (is_streamed_) start_stream(source);
    form_stretches();
  }

  std::size_t num_inputs() const { return num_inputs_; }
  std::size_t num_outputs() const { return num_outputs_; }
  std::size_t num_layers() const { return num_layers_; }
  /// Neurons of the widest layer, the inputs included unless samples of one value need no tiles.
  std::size_t max_neurons(bool takes_one_value) const {
    return takes_one_value ? max_outputs_ : std::max(max_outputs_, num_inputs_);
  }

  /// True if samples whose values are all equal need not be brought into tiles,
  bool takes_one_value() const { return takes_one_value_; }
  /// because the first layer reads their bits. (Else it counts their entries.)
  bool reads_bits() const { return takes_one_value_ && !counts_entries(); }

  EdgeOffset num_edges() const { return num_edges_; }
  std::size_t bytes() const {
    return stream_ ? stream_->device_bytes() + resident_bytes_ : bytes_;
  } ///< of weights on the device
  std::vector<Entry> const& stretches() const { return stretches_; }

  /// Sees to it that what is launched next on the space finds the weights of this stretch. Stretches come in order.
  void acquire(ExecutionSpace const& space, Entry const& stretch) {
    if (stream_) stream_->acquire(space, stretch.segment);
  }
  /// At the end of a run, wherever it ended.
  void finish(ExecutionSpace const& space) {
    if (stream_) stream_->finish(space);
  }
  std::optional<StreamSummary> stream() const { return stream_ ? std::optional(stream_->summary()) : std::nullopt; }
  WeightTraffic take_traffic() { return stream_ ? stream_->take_traffic() : WeightTraffic(); }

  /// A sample that is saturated after this many layers or more is saturated at the end; num_layers(): none is.
  std::size_t saturates_from() const { return saturates_from_; }

  /// Takes in how many samples of a batch of so many were left after which layers: if others launches of the fused
  /// kernel would take less time for such samples, they are what stretches() gives from now on.
  void learn(std::vector<LiveShare> const& known, std::size_t num_samples) {
    constexpr double worth_it = 0.97; // of the time before
    auto live = live_shares(known, num_layers_);
    for (double& share : live) share *= static_cast<double>(num_samples);
    std::vector<bool> packs(num_layers_, false);
    double seconds = 0.0;
    double seconds_before = 0.0;
    for (std::size_t first = 0; first < num_layers_;) {
      std::size_t last = first + 1;
      while (last < num_layers_ && is_joinable(first, last)) ++last;
      if (is_fused(layers_[first]) && last - first > 1) {
        std::size_t const may_leave = std::clamp(dead_for_ever_, first, last);
        if (may_leave > first && may_leave < last) packs[may_leave] = true;
        auto const [packing, before] = pack_run(may_leave, last, live);
        for (std::size_t const cut : packing.cuts) packs[may_leave + cut] = true;
        seconds += packing.seconds;
        seconds_before += before;
      }
      first = last;
    }
    if (seconds >= worth_it * seconds_before) return;
    packs_ = std::move(packs);
    form_stretches();
  }

  /// For people: one choice per run of stretches that are alike.
  std::vector<LayerChoice> choices() const {
    std::vector<LayerChoice> runs;
    for (auto const& stretch : stretches_) {
      if (!runs.empty() && runs.back().is_like(stretch.choice)) {
        runs.back().append(stretch.choice);
      } else {
        runs.push_back(stretch.choice);
      }
    }
    return runs;
  }

private:
  using Formats = LayerFormats<ExecutionSpace, Scalar, NarrowTiles>;
  using Choice = FormatChoice<ExecutionSpace, Scalar, NarrowTiles>;
  using Tune = typename Formats::Tune;
  using Short = typename Formats::Short;
  using Long = typename Formats::Long;
  using FusedBlocks = typename Formats::FusedBlocks;
  template <class Index>
  using WideBlocks = typename Formats::template WideBlocks<Index>;
  template <class Index>
  using Single = typename Formats::template Single<Index>;
  using Staged = typename Formats::Staged;
  using Cones = typename Formats::Cones;
  using Counted = typename Formats::Counted;
  using Format = typename Formats::Format;
  using Packed = typename Formats::Packed;
  using ConeTile = typename Formats::ConeTile;
  using SpreadTile = typename Formats::SpreadTile;
  using StagedTile = typename Formats::StagedTile;
  using WideBlockTile = typename Formats::WideBlockTile;
  using DirectTile = typename Formats::DirectTile;
  template <class Format, FusedWidth Width>
  using FusedTune = typename Formats::template FusedTune<Format, Width>;

  struct DeviceLayer {
    Format format;              ///< of a run of cones: with the first layer
    std::size_t num_layers = 1; ///< that the format holds
    std::size_t width;          ///< the larger of inputs and outputs
    std::size_t num_outputs;
    FusedWidth fused_width = FusedWidth::wide;
    double cap; ///< 0: none
    EdgeOffset num_edges;
    bool keeps_zero;
    double kept_cap;        ///< if the layer maps samples all of whose activations are its cap to such: the cap; else 0
    WeightImage image = {}; ///< of streamed weights
  };

  static constexpr std::size_t layers_at_a_time = 16;

  /// Takes in a layer, whose format is still to be set.
  void add(Layer const& layer, double kept_cap) {
    std::size_t const number = num_layers_++;
    if (number == 0) num_inputs_ = layer.num_inputs();
    if (number > 0) require_fit(num_outputs_, layer, number);
    num_outputs_ = slices_ == nullptr ? layer.num_outputs() : slices_->whole(number).num_outputs();
    max_outputs_ = std::max(max_outputs_, num_outputs_);
    num_edges_ += layer.num_edges();
    DeviceLayer added;
    added.width = Formats::width_of(layer);
    added.num_outputs = layer.num_outputs();
    added.cap = layer.activation.kind == ActivationKind::clipped_relu ? layer.activation.cap : 0.0;
    added.num_edges = layer.num_edges();
    added.keeps_zero = slices_ == nullptr ? keeps_zero(layer) : slices_->whole(number).keeps_zero;
    added.kept_cap = kept_cap;
    layers_.push_back(std::move(added));
  }

  /// Of the layer added last.
  void set_format(Layer const& layer, Packed const& packed) {
    make_room(Formats::bytes_of(packed, layer));
    DeviceLayer& added = layers_.back();
    ArraysInImage<ExecutionSpace> image;
    added.format = is_streamed_ ? Formats::make_format(layer, packed, image)
                                : Formats::make_format(layer, packed, ArraysOnDevice<ExecutionSpace>());
    added.fused_width = choice_.fused_width_of(added.format, Formats::width_of(layer));
    if (is_streamed_) added.image = keep(image.release());
    bytes_ += std::visit([](auto const& format) { return format.bytes(); }, added.format);
  }

  /// Of these layers, the first of which was added last. Cones, which take little, stay on the device.
  void set_format(std::span<Layer const> run, ConeRun const& cones) {
    Cones programs(run, cones);
    bytes_ += programs.bytes();
    resident_bytes_ += programs.bytes();
    layers_.back().num_layers = run.size();
    layers_.back().format = std::move(programs);
  }

  bool counts_entries() const { return std::holds_alternative<Counted>(first_); }

  /// Sees to it that the first layer can take samples of one value without tiles: the stationary kernel does; for
  /// others the layer is stored once more, by input if it can count entries, else if outputs are padded little, and
  /// there is nothing that says otherwise.
  void add_first(Layer const& layer) {
    takes_one_value_ =
        std::visit([&](auto const& format) { return choice_.is_stationary(format); }, layers_.front().format);
    if (takes_one_value_ || is_streamed_ || options_.kernel || !choice_.may_use(FormatName::sliced_ell)) return;
    if (Counted::suits(layer, Tune::max_counted_outputs)) {
      first_ = Counted(layer);
      bytes_ += std::get<Counted>(first_).bytes();
      takes_one_value_ = true;
    } else if (Formats::is_short(layer)) {
      add_binary_as<Short>(layer);
    } else {
      add_binary_as<Long>(layer);
    }
  }

  template <class Index>
  void add_binary_as(Layer const& layer) {
    using Ell = Single<Index>;
    auto order = Choice::order_of_singles(layer.weights);
    EdgeOffset const stored = Ell::num_stored(layer.weights, order);
    constexpr auto slice = static_cast<EdgeOffset>(Ell::slice_width) * Ell::chunk_size;
    if (stored > 2 * layer.num_edges() + slice * (layer.num_outputs() / Ell::slice_width + 1)) return;
    auto const packed = Ell::pack(layer.weights, std::move(order));
    if (bytes_ + packed.bytes() > room_for_weights()) return;
    first_ = Ell(layer, packed);
    bytes_ += std::get<Ell>(first_).bytes();
    takes_one_value_ = true;
  }

  /// Bytes that the weights may take on the device: what was asked for, or what the smallest batch leaves (two buffers
  /// of its activations, and twice as much for two batches of samples and what else it needs).
  std::size_t room_for_weights() const {
    std::size_t const sample_bytes = 6 * max_neurons(false) * sizeof(Scalar) + 128;
    std::size_t const batch_bytes = Panel<ExecutionSpace, Scalar>::slot_granularity * sample_bytes;
    std::size_t const room = limits_.device - std::min(limits_.device, batch_bytes);
    return std::min(room, limits_.device_weights.value_or(room));
  }

  /// If weights have no room for so many bytes more, does without the first layer's second form, and if they still have
  /// not, puts all layers into images on the host, now and from now on.
  void make_room(std::size_t bytes) {
    if (is_streamed_ || bytes_ + bytes <= room_for_weights()) return;
    drop_first();
    if (bytes_ + bytes <= room_for_weights()) return;
    is_streamed_ = true;
    for (auto& layer : layers_) {
      ArraysInImage<ExecutionSpace> image;
      std::visit(
          [&]<class F>(F& format) {
            if constexpr (!std::is_same_v<F, Cones>) format.for_each_array([&](auto& array) { image.take(array); });
          },
          layer.format);
      layer.image = keep(image.release());
    }
  }

  void drop_first() {
    std::visit(
        [&]<class First>(First const& format) {
          if constexpr (!std::is_same_v<First, std::monostate>) {
            bytes_ -= format.bytes();
            takes_one_value_ = false;
          }
        },
        first_);
    first_ = std::monostate();
  }

  /// Keeps the image of a layer, if the host has room for it.
  WeightImage keep(std::vector<unsigned char> bytes) {
    WeightImage image{bytes.size(), {}};
    if (kept_bytes_ + image.num_bytes > limits_.host_weights) return image;
    kept_bytes_ += image.num_bytes;
    image.bytes = std::move(bytes);
    return image;
  }

  /// Gives every layer its place on the device and begins to fetch them. The source is kept if layers are not.
  void start_stream(std::shared_ptr<NetworkSource const> const& source) {
    std::vector<WeightImage> images;
    std::vector<std::size_t> layer_bytes;
    for (auto& layer : layers_) {
      layer_bytes.push_back(layer.image.num_bytes);
      images.push_back(std::move(layer.image));
      if (layer.fused_width == FusedWidth::narrow) layer.fused_width = FusedWidth::medium;
    }
    std::size_t const room = room_for_weights();
    bool const keeps_all = std::ranges::all_of(images, &WeightImage::is_kept);
    stream_ = std::make_unique<WeightStream<ExecutionSpace>>(
        plan_segments(layer_bytes, {room - std::min(room, resident_bytes_), limits_.device_weights.has_value()}),
        std::move(images), [this, kept_source = keeps_all ? nullptr : source](std::size_t number) {
          Layer const layer = kept_source->layer(number);
          ArraysInImage<ExecutionSpace> image;
          Formats::make_format(layer, choice_.pack(layer, number), image);
          return image.release();
        });
    for (std::size_t number = 0; number < num_layers_; ++number) {
      auto const* const address = stream_->address_of(number);
      std::visit(
          [&]<class F>(F& format) {
            if constexpr (!std::is_same_v<F, Cones>) move_arrays(format, address);
          },
          layers_[number].format);
    }
  }

  std::vector<LayerCaps> caps_of_layers() const {
    std::vector<LayerCaps> caps;
    for (auto const& layer : layers_) caps.push_back({layer.cap, layer.kept_cap});
    return caps;
  }

  /// Joins layers into launches and says what happens to the samples between them.
  void form_stretches() {
    stretches_.clear();
    saturates_from_ = find_saturation(caps_of_layers());
    dead_for_ever_ = 0;
    for (std::size_t number = 0; number < num_layers_; ++number) {
      if (!layers_[number].keeps_zero) dead_for_ever_ = number + 1;
    }
    for (std::size_t number = dead_for_ever_ + 8; number < num_layers_; ++number) {
      // Those few that are left where samples saturate do not fill the device in tiles of 32.
      FusedWidth& width = layers_[number].fused_width;
      if (saturates_from_ < num_layers_ && width == FusedWidth::medium) width = FusedWidth::wide;
    }
    for (std::size_t first = 0; first < num_layers_;) {
      std::size_t last = first;
      while (last + 1 < num_layers_ && joins(first, last + 1)) ++last;
      last = std::max(last, first + layers_[first].num_layers - 1);
      std::visit([&]<class F>(F const&) { add_stretch<F>(first, last); }, layers_[first].format);
      first = last + 1;
    }
    for (std::size_t i = 0; i + 1 < stretches_.size(); ++i) {
      stretches_[i].hand_over.tile_samples = stretches_[i + 1].work->tile_samples();
    }
    auto& last = stretches_.back().hand_over;
    last.lists = true;
    last.tile_samples = stretches_.back().work->tile_samples();
  }

  /// True if a layer goes into the launch that begins with layer `first`,
  bool joins(std::size_t first, std::size_t number) const {
    return is_joinable(first, number) && !(packs_.empty() ? packs_before(number) : packs_[number]);
  }

  /// because it can, and samples need not be packed before it.
  bool is_joinable(std::size_t first, std::size_t number) const {
    if (first == 0 && takes_one_value()) return false;
    if (stream_ && stream_->segment_of(first) != stream_->segment_of(number)) return false;
    bool const same_kind = layers_[number].format.index() == layers_[first].format.index() &&
                           layers_[number].fused_width == layers_[first].fused_width;
    return same_kind && is_fused(layers_[first]) && is_fused(layers_[number]);
  }

  /// The best packing of layers [first, last), which can be one launch, for so many live samples before each of all
  /// layers; and the seconds that the packing so far takes.
  std::pair<Packing, double> pack_run(std::size_t first, std::size_t last, std::vector<double> const& live) const {
    std::vector<FusedLayer> layers;
    std::vector<std::size_t> cuts_so_far;
    for (std::size_t number = first; number < last; ++number) {
      double const num_stored =
          std::visit([](auto const& format) { return stored_in(format); }, layers_[number].format);
      layers.push_back({num_stored, static_cast<double>(layers_[number].num_outputs)});
      bool const begins = std::ranges::find(stretches_, number, &Entry::first_layer) != stretches_.end();
      if (number > first && begins) cuts_so_far.push_back(number - first);
    }
    if (layers.empty()) return {};
    std::span<double const> const of_run(live.data() + first, layers.size() + 1);
    auto const costs = std::visit([&]<class F>(F const&) { return packing_costs<F>(layers_[first].fused_width); },
                                  layers_[first].format);
    return {choose_packing(layers, of_run, costs), seconds_of(cuts_so_far, layers, of_run, costs)};
  }

  template <class F>
  static double stored_in(F const& format) {
    if constexpr (std::is_same_v<F, FusedBlocks> || std::is_same_v<F, Single<Short>>)
      return static_cast<double>(format.weights.size());
    return 0.0;
  }

  template <class F>
  static PackingCosts packing_costs(FusedWidth width) {
    ExecutionSpace const space;
    if constexpr (std::is_same_v<F, FusedBlocks> || std::is_same_v<F, Single<Short>>) {
      if (width == FusedWidth::narrow) return FusedTune<F, FusedWidth::narrow>::packing_costs(space);
      if (width == FusedWidth::medium) return FusedTune<F, FusedWidth::medium>::packing_costs(space);
      return FusedTune<F, FusedWidth::wide>::packing_costs(space);
    }
    return {};
  }

  bool is_fused(DeviceLayer const& layer) const { return choice_.is_fused(layer.format, layer.width); }

  /// True if the live samples are packed before this layer of a fused kernel, as long as nothing is known of the
  /// samples: never before dead samples stay dead, then often, then seldom. Measured on the challenge's data, where
  /// half of the samples leave within four layers and nearly all within nine; where samples saturate, those that are
  /// left leave within twenty.
  bool packs_before(std::size_t number) const {
    if (number <= dead_for_ever_) return number == dead_for_ever_ && number > 0;
    std::size_t const since = number - dead_for_ever_;
    if (layers_[number].fused_width == FusedWidth::narrow)
      return since == 3 || since == 5 || since == 8; // a launch costs a layer
    if (saturates_from_ < num_layers_ && (since == 12 || since == 14 || since == 16 || since == 20)) return true;
    return since >= 3 && since <= 9;
  }

  /// True if the live samples are listed after this layer. A kernel that reads lists pays two short launches for one;
  /// the others must move the samples together, which costs about as much as a layer: not before a good part has left.
  bool lists_after(std::size_t number, bool reads_lists) const {
    std::size_t const done = number + 1;
    if (done < dead_for_ever_) return false;
    std::size_t const since = done - dead_for_ever_;
    if (since > 16) return since % (since > 32 ? 8 : 4) == 0;
    if (reads_lists) return since >= 2;
    return (since >= 3 && since <= 6) || (since >= 8 && since % 2 == 0);
  }

  /// True if equal samples are joined after the launch that ends with this layer. A look costs as much as several short
  /// launches and reads the panel once or twice, so it pays when what is left is many layers of samples that have
  /// become alike; and not where saturated samples leave, who are those that are equal (measured: perf/RESULTS.md). The
  /// first look that finds little is the last.
  bool joins_after(std::size_t number) const {
    std::size_t const done = number + 1;
    bool const looks = options_.reductions.equal_samples && saturates_from_ == num_layers_;
    if (!looks || done < dead_for_ever_ || done + 8 > num_layers_) return false;
    std::size_t const since = done - dead_for_ever_;
    return since == 8 || since == 9 || since == 16 || since == 24 || since == 32 || since == 64;
  }

  template <class F>
  void add_stretch(std::size_t first, std::size_t last) {
    Entry entry;
    entry.first_layer = first;
    entry.last_layer = last;
    entry.num_edges = 0;
    if (stream_) entry.segment = stream_->segment_of(first);
    for (std::size_t number = first; number <= last; ++number) {
      entry.num_edges += layers_[number].num_edges;
      if (number > first && layers_[first].num_layers > 1) continue; // all in the first
      F const& format = std::get<F>(layers_[number].format);
      if constexpr (std::is_same_v<F, Staged>) {
        entry.choice.num_stored += format.blocks.weights.size();
        entry.choice.num_staged_inputs += format.inputs.size();
      } else if constexpr (std::is_same_v<F, Cones>) {
        entry.choice.num_stored += 2 * format.moves.size();
        entry.choice.num_cones += format.programs.size();
      } else {
        entry.choice.num_stored += format.weights.size();
      }
    }
    entry.hand_over.keeps_dead = last + 1 < dead_for_ever_;
    entry.hand_over.joins_equal = joins_after(last);
    entry.hand_over.lists_done = saturates_from_ < num_layers_ && last + 1 >= saturates_from_ + 15;
    if (saturates_from_ < num_layers_) entry.hand_over.cap = static_cast<Scalar>(layers_.back().kept_cap);
    if (is_fused(layers_[first])) {
      add_fused<F>(entry);
    } else {
      add_layer_kernel(entry, std::get<F>(layers_[first].format));
    }
    if (first == 0 && takes_one_value()) {
      entry.work = std::visit(
          [&]<class First>(First const& format) -> std::unique_ptr<Work> {
            if constexpr (std::is_same_v<First, std::monostate>) {
              return std::move(entry.work);
            } else {
              return std::make_unique<FirstStretch<ExecutionSpace, First>>(format, std::move(entry.work));
            }
          },
          first_);
      entry.choice.reads_bits = reads_bits();
      entry.choice.counts_entries = counts_entries();
    }
    entry.choice.first_layer = first;
    entry.choice.last_layer = last;
    entry.choice.format = Formats::template name_of<F>();
    entry.choice.index_bits = 8 * static_cast<int>(sizeof(typename F::Index));
    entry.choice.num_edges = entry.num_edges;
    stretches_.push_back(std::move(entry));
  }

  template <class F>
  void add_fused(Entry& entry) {
    if constexpr (std::is_same_v<F, FusedBlocks> || std::is_same_v<F, Single<Short>>) {
      if constexpr (Tune::has_fused_widths) {
        FusedWidth const width = layers_[entry.first_layer].fused_width;
        if (width == FusedWidth::narrow) return add_fused_with<F, FusedTune<F, FusedWidth::narrow>>(entry);
        if (width == FusedWidth::medium) return add_fused_with<F, FusedTune<F, FusedWidth::medium>>(entry);
      }
      add_fused_with<F, FusedTune<F, FusedWidth::wide>>(entry);
    }
  }

  template <class F, class FusedTuning>
  void add_fused_with(Entry& entry) {
    std::vector<F> formats;
    for (std::size_t number = entry.first_layer; number <= entry.last_layer; ++number)
      formats.push_back(std::get<F>(layers_[number].format));
    int saturates_from = std::numeric_limits<int>::max();
    if (saturates_from_ < num_layers_)
      saturates_from = static_cast<int>(saturates_from_ - std::min(saturates_from_, entry.first_layer));
    entry.work = std::make_unique<
        FusedStretch<ExecutionSpace, F, typename Formats::template FusedTile<FusedTuning>, FusedTuning>>(
        std::move(formats), entry.first_layer + 1 >= dead_for_ever_, saturates_from);
    entry.choice.kernel = "fused";
  }

  template <class F>
  void add_layer_kernel(Entry& entry, F format) {
    if constexpr (std::is_same_v<F, Single<Short>>) {
      if (choice_.template is_spread<Short>(static_cast<std::size_t>(format.frame.num_inputs))) {
        entry.work = std::make_unique<LayerStretch<ExecutionSpace, F, SpreadTile, SpreadKernel>>(std::move(format));
        entry.hand_over.lists = false; // few samples do not get fewer
        entry.choice.kernel = "spread";
        return;
      }
    }
    auto const use = [&]<class Tile, class Kernel>(Tile, Kernel, char const* name) {
      entry.work = std::make_unique<LayerStretch<ExecutionSpace, F, Tile, Kernel>>(std::move(format));
      entry.hand_over.lists = lists_after(entry.last_layer, Kernel::reads_lists);
      entry.choice.kernel = name;
    };
    if constexpr (std::is_same_v<F, Cones>) {
      use(ConeTile(), ConeKernel(), "cones");
    } else if constexpr (std::is_same_v<F, Staged>) {
      use(StagedTile(), StagedKernel(), "staged");
    } else if constexpr (std::is_same_v<F, WideBlocks<typename F::Index>>) {
      if (choice_.is_stationary(format)) {
        use(typename Tune::StationaryTile(), StationaryKernel(), "stationary");
      } else {
        use(WideBlockTile(), DirectKernel(), "direct");
      }
    } else {
      use(DirectTile(), DirectKernel(), "direct");
    }
  }

  InferenceOptions options_;
  MemoryLimits limits_;
  LayerSlices const* slices_;
  Choice choice_;
  std::vector<DeviceLayer> layers_;                                          ///< stretches share their arrays
  std::variant<std::monostate, Single<Short>, Single<Long>, Counted> first_; ///< layer 0 for samples of one value
  bool takes_one_value_ = false;
  std::vector<Entry> stretches_;
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  std::size_t num_layers_ = 0;
  std::size_t saturates_from_ = 0;
  std::size_t dead_for_ever_ = 0; ///< a sample that is dead after so many layers or more stays dead
  std::vector<bool> packs_;       ///< by layer, if samples have been seen: they are packed before it
  std::size_t max_outputs_ = 0;
  EdgeOffset num_edges_ = 0;
  std::size_t bytes_ = 0;
  std::size_t resident_bytes_ = 0; ///< of cones, which are never streamed
  bool is_streamed_ = false;
  std::size_t kept_bytes_ = 0;                           ///< of images on the host
  std::unique_ptr<WeightStream<ExecutionSpace>> stream_; ///< last: its thread uses what lies before
};

} // namespace varve
