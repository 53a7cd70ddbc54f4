#pragma once

#include "kernel_study.hpp"
#include "shapes.hpp"

#include "core/device_stream.hpp"
#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/host_threads.hpp"
#include "core/stopwatch.hpp"
#include "engine/launch.hpp"
#include "engine/layer_formats.hpp"
#include "engine/panel_on.hpp"
#include "engine/sample_copy.hpp"
#include "formats/sliced_ell.hpp"
#include "kernels/device_traits.hpp"
#include "kernels/samples.hpp"
#include "passes/output_order.hpp"
#include "plan/cuts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace varve::kernel_study {

/// The stationary kernel with a tile of this shape, and of one that is read through a list.
template <class InOrder, class Listed>
struct StationaryOfShape {
  static constexpr bool takes_strips = false;
  static constexpr bool reads_lists = true;
  static constexpr bool reads_bits = false;
  static constexpr bool may_leave_stamps = false;
  static_assert(InOrder::num_samples == Listed::num_samples);

  template <class Tile, class ExecutionSpace, class Format>
  static void launch(ExecutionSpace const& space, Format const& layer, LayerPass<float> const& pass) {
    if (!pass.is_listed()) {
      detail::launch_stationary<InOrder, SamplesInOrder>("varve::stationary_forward", space, layer, pass, {});
    } else {
      detail::launch_stationary<Listed, SamplesInList>("varve::stationary_forward_listed", space, layer, pass, {});
    }
  }
};

/// The study on one execution space, in float. Every way runs all layers by one kernel on one format: the fused one
/// with the launches that the product would choose for these samples (but for those of the study of launches), the
/// stationary one with a list of live samples after each layer. The samples are brought into tiles by the first launch
/// or before it; the product has shorter ways for samples of one value.
template <class ExecutionSpace>
class StudyOn final : public Study {
public:
  StudyOn(Network const& network, SampleBatch const& samples) : network_(network), panel_(panel_size(samples)) {
    for (auto const& layer : network.layers())
      VARVE_REQUIRE(keeps_zero(layer), "the study takes networks in which dead samples stay dead");
    if (Tune::has_large_tiles && width_of(network) <= medium_neurons)
      throw UsageError("on this backend layers of " + std::to_string(medium_neurons) +
                       " neurons or less have tiles of their own, which the study does not vary; ask for wider ones");
    take(samples);
    int const own_outputs = own_block_outputs();
    study_fused<1>(own_outputs);
    study_fused<Tune::block_outputs>(own_outputs);
    OtherBlocks<ExecutionSpace>::for_each([&](auto outputs) { add_other_blocks<outputs>(); });
    if constexpr (Tune::has_stationary) {
      study_stationary<8>();
      study_stationary<16>();
    }
    if (ways_.empty())
      throw UsageError("no kernel of the study takes layers of " + std::to_string(network.num_inputs()) +
                       " neurons on this backend; ask for fewer");
  }

  std::vector<Way> const& ways() const override { return ways_; }

  void take(SampleBatch const& samples) override { input_ = copy_.bring(arrays_, samples).samples; }

  double run(std::size_t way) override { return run(launches_[way]); }

  std::uint64_t hash() override {
    auto const counts = counts_of_panel();
    int const num_live = counts[static_cast<std::size_t>(panel_.num_lists())];
    std::uint64_t hash = 0;
    Kokkos::parallel_reduce("varve::hash_activations", Kokkos::RangePolicy<ExecutionSpace>(space_, 0, num_live),
                            HashActivations<ExecutionSpace, float>{panel_.source(),
                                                                   panel_.tile_samples(),
                                                                   panel_.from_slot(),
                                                                   {},
                                                                   panel_.ids(),
                                                                   {},
                                                                   panel_.num_neurons(),
                                                                   panel_.num_neurons(),
                                                                   0},
                            hash);
    return hash;
  }

private:
  using Tune = Tuning<ExecutionSpace, float>;
  using Index = std::uint16_t;
  using Launches = std::vector<std::unique_ptr<Launch>>;
  template <int BlockOutputs>
  using FusedFormat = SlicedEll<ExecutionSpace, float, Index, Tune::slice_width, Tune::chunk_size, BlockOutputs>;
  template <int BlockOutputs>
  using StationaryFormat = SlicedEll<ExecutionSpace, float, Index, 1, Tune::chunk_size, BlockOutputs>;
  template <int BlockOutputs>
  using OwnFused = FusedTuning<ExecutionSpace, float, BlockOutputs, FusedTile::small>;

  static constexpr std::size_t widest_tile = 128; ///< of all that are tried
  static constexpr std::size_t medium_neurons = FusedTuning<ExecutionSpace, float, 1, FusedTile::large>::max_neurons;
  static constexpr double max_stored = 4.0; ///< weights per edge of a layer in blocks that are worth a look

  static std::size_t width_of(Network const& network) {
    std::size_t width = 0;
    for (auto const& layer : network.layers())
      width = std::max(width, std::max(layer.num_inputs(), layer.num_outputs()));
    return width;
  }

  Panel::Size panel_size(SampleBatch const& samples) const {
    std::size_t const in_tiles = (samples.num_samples() + widest_tile - 1) / widest_tile * widest_tile;
    return {in_tiles, width_of(network_), 2 * network_.num_layers() + 1, 0, false};
  }

  /// Outputs per block of the format that the product takes for the fused kernel.
  int own_block_outputs() const {
    PlanRequest request;
    request.kernel = KernelName::fused;
    LayerChooser const chooser(
        device_traits<ExecutionSpace, float>(num_processors(space_), max_team_scratch<ExecutionSpace>()), request);
    std::size_t const last = network_.num_layers() - 1;
    return static_cast<int>(chooser.choose(network_.layers()[last], last).choice.shape.block_outputs);
  }

  /// The layers in a format, or none if it stores too many weights, judged by the last layer. order_of: matrix ->
  /// order of the outputs.
  template <class Format, class OrderOf>
  std::vector<Format> make_layers(OrderOf const& order_of) const {
    auto const& layers = network_.layers();
    SparseMatrix const& last = layers.back().weights;
    if (static_cast<double>(num_stored(ell_size(last, order_of(last), Format::shape()), Format::shape())) >
        max_stored * static_cast<double>(last.num_entries()))
      return {};
    std::vector<typename Format::Encoded> encoded(layers.size());
    for_each_on_host_threads(layers.size(), [&](std::size_t number) {
      encoded[number] = Format::encode(layers[number].weights, order_of(layers[number].weights));
    });
    std::vector<Format> formats;
    for (std::size_t number = 0; number < layers.size(); ++number)
      formats.emplace_back(layers[number], encoded[number]);
    return formats;
  }

  template <int BlockOutputs>
  std::vector<FusedFormat<BlockOutputs>> make_fused_layers() const {
    if (!fits<OwnFused<BlockOutputs>>()) return {};
    return make_layers<FusedFormat<BlockOutputs>>([](SparseMatrix const& matrix) {
      return BlockOutputs == 1 ? order_of_singles(matrix) : order_by_input_list(matrix, BlockOutputs);
    });
  }

  /// All that is asked of the fused kernel on one format.
  template <int BlockOutputs>
  void study_fused(int own_outputs) {
    using Own = OwnFused<BlockOutputs>;
    auto const layers = make_fused_layers<BlockOutputs>();
    if (layers.empty()) return;
    auto const cuts = choose_cuts<Own>(layers);
    std::vector<Varied> own{{"block_outputs", BlockOutputs == own_outputs}, {"layers_per_launch", true}};
    FusedShapes<ExecutionSpace, BlockOutputs>::for_each([&]<class... Tunings>(char const* number, List<Tunings...>) {
      own.push_back({number, true});
      (add_fused<Tunings>(layers, cuts, {{number, false}}), ...);
    });
    add_fused<Own>(layers, cuts, own);
    for (std::size_t length = 1; length < layers.size(); length *= 2)
      add_fused<Own>(layers, cut_every(length), {{"layers_per_launch", false}});
    add_fused<Own>(layers, cut_every(layers.size()), {{"layers_per_launch", false}});
  }

  template <int BlockOutputs>
  void add_other_blocks() {
    auto const layers = make_fused_layers<BlockOutputs>();
    if (layers.empty()) return;
    using Own = OwnFused<BlockOutputs>;
    add_fused<Own>(layers, choose_cuts<Own>(layers), {{"block_outputs", false}});
  }

  /// Where the layers are cut into launches.
  struct Cuts {
    std::vector<std::size_t> at; ///< layers that begin a launch, but for layer 0
    double layers_per_launch;    ///< in the mean; of launches of one length: that, whatever is left for the last one
  };

  Cuts cut_every(std::size_t length) const {
    Cuts cuts{{}, static_cast<double>(length)};
    for (std::size_t layer = length; layer < network_.num_layers(); layer += length) cuts.at.push_back(layer);
    return cuts;
  }

  /// As the product does it that has seen these samples.
  template <class FusedTune, class Format>
  Cuts choose_cuts(std::vector<Format> const& layers) {
    if (live_.empty()) {
      run(cut_fused<FusedTune>(layers, cut_every(1)));
      auto const counts = counts_of_panel();
      for (std::size_t number = 0; number <= layers.size(); ++number) live_.push_back(counts[number]);
    }
    std::vector<FusedLayer> costs;
    for (auto const& layer : layers)
      costs.push_back({static_cast<double>(layer.weights.size()), static_cast<double>(layer.num_outputs())});
    auto const at = varve::choose_cuts(costs, live_, FusedTune::launch_costs(num_processors(space_))).cuts;
    return {at, static_cast<double>(layers.size()) / static_cast<double>(at.size() + 1)};
  }

  /// True if the fused kernel so tuned takes layers of this width, with the threads that there are.
  template <class FusedTune>
  bool fits() const {
    bool const has_threads = !kOnHost<ExecutionSpace> || FusedTune::team_size <= space_.concurrency();
    return has_threads && width_of(network_) <= std::size_t(FusedTune::max_neurons);
  }

  template <class FusedTune, class Format>
  static Launches cut_fused(std::vector<Format> const& layers, Cuts const& cuts) {
    using Fused = FusedLaunch<ExecutionSpace, Format, typename FusedTune::Tile, FusedTune>;
    Launches launches;
    std::size_t first = 0;
    for (std::size_t number = 0; number <= cuts.at.size(); ++number) {
      std::size_t const last = number < cuts.at.size() ? cuts.at[number] : layers.size();
      std::vector<Format> part(layers.begin() + static_cast<std::ptrdiff_t>(first),
                               layers.begin() + static_cast<std::ptrdiff_t>(last));
      launches.push_back(std::make_unique<Fused>(std::move(part), true, std::numeric_limits<int>::max()));
      first = last;
    }
    return launches;
  }

  template <class FusedTune, class Format>
  void add_fused(std::vector<Format> const& layers, Cuts const& cuts, std::vector<Varied> const& varied) {
    if (!fits<FusedTune>()) return;
    add<Format, typename FusedTune::Tile>("fused", FusedTune::team_size, cuts.layers_per_launch,
                                          cut_fused<FusedTune>(layers, cuts), varied);
  }

  template <int BlockOutputs>
  void study_stationary() {
    using Format = StationaryFormat<BlockOutputs>;
    if (width_of(network_) > std::size_t(std::numeric_limits<Index>::max()) + 1) return;
    auto const layers = make_layers<Format>([](SparseMatrix const& matrix) {
      return chain_blocks(matrix, order_by_input_list(matrix, BlockOutputs), BlockOutputs, Tune::stationary_blocks);
    });
    for (auto const& layer : layers) {
      std::size_t const bytes =
          stationary_bytes(Format::shape(), static_cast<std::size_t>(Tune::stationary_blocks),
                           static_cast<std::size_t>(layer.max_chunks), sizeof(float), sizeof(Index));
      if (bytes > Tune::max_stationary_bytes) return;
    }
    if (layers.empty()) return;
    constexpr bool has_own_blocks = BlockOutputs == Tune::wide_block_outputs;
    add_stationary<1>(layers, {{"samples_per_lane", false}});
    add_stationary<2>(layers, {{"samples_per_lane", true}, {"block_outputs", has_own_blocks}});
    add_stationary<4>(layers, {{"samples_per_lane", false}});
  }

  template <int SamplesPerLane, class Format>
  void add_stationary(std::vector<Format> const& layers, std::vector<Varied> const& varied) {
    constexpr int lanes = Tune::StationaryTile::num_lanes;
    using Tile = TileShape<float, SamplesPerLane, 1, lanes>;
    using Kernel = StationaryOfShape<Tile, TileShape<float, 1, SamplesPerLane, lanes>>;
    Launches launches;
    for (auto const& layer : layers)
      launches.push_back(
          std::make_unique<LayerLaunch<ExecutionSpace, Format, Tile, Kernel>>(layer, false, StripPlace()));
    add<Format, Tile>("stationary", Tune::stationary_team_size, 1.0, std::move(launches), varied);
  }

  template <class Format, class Tile>
  void add(char const* kernel, int team_size, double layers_per_launch, Launches launches,
           std::vector<Varied> const& varied) {
    Shape shape;
    shape.kernel = kernel;
    shape.block_outputs = Format::block_outputs;
    shape.team_size = team_size;
    shape.tile_width = Tile::num_samples;
    shape.samples_per_lane = Tile::packs_per_lane * Tile::pack_width;
    shape.pack_width = Tile::pack_width;
    shape.layers_per_launch = layers_per_launch;
    ways_.push_back({shape, varied});
    launches_.push_back(std::move(launches));
  }

  double run(Launches const& launches) {
    HandOver hand_over;
    hand_over.keeps_dead = false;
    hand_over.tile_samples = launches.front()->tile_samples();
    lane_->fence("varve: before the layer loop");
    Stopwatch const time;
    panel_.start(*lane_, input_);
    for (auto const& launch : launches) launch->forward(*lane_, panel_, hand_over);
    lane_->fence("varve: after the layer loop");
    return time.seconds();
  }

  /// The samples after each list of the last run.
  std::vector<int> counts_of_panel() const {
    auto const arrays = panel_.arrays();
    return download(ConstDeviceArray<ExecutionSpace, int>(arrays.counts, arrays.num_counts));
  }

  template <class Narrow, class Wide>
  static void widen_on(Stream const& lane, Narrow const* from, Wide* to, std::size_t count) {
    widen<ExecutionSpace, Narrow, Wide>(instance_of<ExecutionSpace>(lane), ArrayView<Narrow const>(from, count),
                                        ArrayView<Wide>(to, count), count);
  }

  Network const& network_;
  ExecutionSpace space_;
  DeviceMemory const& memory_ = device_memory(to_backend<ExecutionSpace>());
  std::unique_ptr<Stream> lane_ = memory_.default_stream();
  SampleCopy copy_{memory_,
                   {&widen_on<std::uint32_t, EdgeOffset>, &widen_on<std::uint16_t, NeuronIndex>},
                   sizeof(float),
                   memory_.is_host(),
                   "the samples"};
  SampleArrays arrays_;
  SamplesOnDevice input_;
  PanelOn<ExecutionSpace, float> panel_;
  std::vector<double> live_; ///< samples before each layer, and behind the last one
  std::vector<Way> ways_;
  std::vector<Launches> launches_; ///< of each way
};

} // namespace varve::kernel_study
