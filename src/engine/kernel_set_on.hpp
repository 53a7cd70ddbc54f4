#pragma once

#include "core/device_stream.hpp"
#include "core/execution.hpp"
#include "engine/kernel_set.hpp"
#include "engine/launches.hpp"
#include "engine/layer_formats.hpp"
#include "kernels/dense_rows.hpp"
#include "kernels/device_traits.hpp"
#include "kernels/join_neurons.hpp"
#include "kernels/samples.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace varve {

/// The kernel set of an execution space and a scalar type: the only inference class that is a template over both.
template <class ExecutionSpace, class Scalar>
class KernelSetOn final : public KernelSet {
public:
  explicit KernelSetOn(DeviceMemory const& memory) : memory_(memory) {}

  DeviceMemory const& memory() const override { return memory_; }
  std::size_t scalar_bytes() const override { return sizeof(Scalar); }
  DeviceTraits traits() const override {
    return device_traits<ExecutionSpace, Scalar>(memory_.num_processors(), max_team_scratch<ExecutionSpace>());
  }

  EncodedLayer encode(Layer const& layer, Encoding encoding) const override {
    auto const arrays = std::make_shared<Encoded const>(Formats::encode(layer, std::move(encoding)));
    return {arrays, std::visit([](auto const& one) { return one.bytes(); }, *arrays)};
  }
  std::unique_ptr<DeviceLayer> place(Layer const& layer, EncodedLayer const& encoded,
                                     std::vector<unsigned char>* image) const override {
    ArraysInImage<ExecutionSpace> arrays;
    auto placed = std::make_unique<InFormat>(Formats::place(layer, *static_cast<Encoded const*>(encoded.arrays.get()),
                                                            {image != nullptr ? &arrays : nullptr}));
    if (image != nullptr) *image = arrays.release();
    return placed;
  }
  std::unique_ptr<DeviceLayer> place_cones(std::span<Layer const> run, ConeRun const& cones) const override {
    return std::make_unique<InFormat>(Cones(run, cones));
  }
  std::unique_ptr<DeviceLayer> place_first(Layer const& layer, FirstLayerChoice const& choice) const override {
    return std::make_unique<InFormat>(Formats::place_first(layer, choice));
  }

  std::unique_ptr<Launch> launch_of(Step const& step, std::span<DeviceLayer const* const> layers,
                                    LaunchCutter const& cutter) const override {
    typename LaunchMaker<ExecutionSpace, Scalar>::Layers formats;
    for (auto const* layer : layers) formats.push_back(&static_cast<InFormat const&>(*layer).format);
    return LaunchMaker<ExecutionSpace, Scalar>(formats, cutter).make(step);
  }

  std::unique_ptr<Panel> new_panel(Panel::Size const& size) const override {
    return std::make_unique<PanelOn<ExecutionSpace, Scalar>>(size);
  }

  WidenLaunches widen() const override {
    return {&widen_numbers<std::uint32_t, EdgeOffset>, &widen_numbers<std::uint16_t, NeuronIndex>};
  }

  DenseEntries count_entries(Stream const& stream, DeviceInput const& rows, EdgeOffset* row_ends) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    if (rows.num_rows == 0) Kokkos::deep_copy(space, DeviceArray<ExecutionSpace, EdgeOffset>(row_ends, 1), 0);
    auto const found = varve::count_entries<ExecutionSpace, Scalar>(space, rows_of<Scalar const>(rows),
                                                                    array_at(row_ends, rows.num_rows + 1));
    return {found.num_entries, found.first_bad};
  }
  void fill_entries(Stream const& stream, DeviceInput const& rows, EdgeOffset const* row_ends, std::size_t num_entries,
                    NeuronIndex* columns, void* values) const override {
    varve::fill_entries(instance_of<ExecutionSpace>(stream),
                        FillEntries<ExecutionSpace, Scalar>{
                            rows_of<Scalar const>(rows), array_at(row_ends, rows.num_rows + 1),
                            array_at(columns, num_entries), array_at(static_cast<Scalar*>(values), num_entries)});
  }

  std::uint64_t hash(EndOfRun const& run, SamplesInPanel const& samples) const override {
    auto const& panel = panel_of(run.panel);
    std::size_t const num_positions = samples.positions == nullptr ? 0 : samples.count;
    HashActivations<ExecutionSpace, Scalar> const kernel{panel.source(),
                                                         panel.tile_samples(),
                                                         panel.from_slot(),
                                                         array_at(samples.positions, num_positions),
                                                         array_at(samples.ids, samples.count),
                                                         neurons_of(run.outputs),
                                                         panel.num_neurons(),
                                                         static_cast<int>(run.outputs.num_outputs),
                                                         run.first_sample};
    std::uint64_t hash = 0;
    in_space_for(run.stream, samples.count * run.outputs.num_outputs, [&](auto const& space) {
      using Space = std::decay_t<decltype(space)>;
      Kokkos::parallel_reduce("varve::hash_activations",
                              Kokkos::RangePolicy<Space>(space, 0, static_cast<int>(samples.count)), kernel, hash);
    });
    return hash;
  }
  std::uint64_t hash_saturated(EndOfRun const& run, int const* ids, std::size_t count) const override {
    std::uint64_t hash = 0;
    Kokkos::parallel_reduce(
        "varve::hash_saturated",
        Kokkos::RangePolicy<ExecutionSpace>(instance_of<ExecutionSpace>(run.stream), 0, static_cast<int>(count)),
        HashEqualActivations<Scalar>{static_cast<Scalar>(run.outputs.saturated_value), array_at(ids, count),
                                     static_cast<int>(run.outputs.num_outputs), run.first_sample},
        hash);
    return hash;
  }

  void gather_rows(EndOfRun const& run, std::size_t first, std::size_t count, void* rows) const override {
    std::size_t const size = count * run.outputs.num_outputs;
    DeviceArray<ExecutionSpace, Scalar> const on_device(Kokkos::view_alloc(Kokkos::WithoutInitializing, "varve::rows"),
                                                        size);
    GatherRows<Scalar> const kernel{last_activations(run, nullptr), static_cast<int>(first),
                                    static_cast<int>(run.outputs.num_outputs), on_device};
    in_space_for(run.stream, size, [&](auto const& space) {
      using Space = std::decay_t<decltype(space)>;
      using Range = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t>>;
      Kokkos::parallel_for("varve::gather_rows", Range(space, 0, size), kernel);
      space.fence("varve: gather rows");
    });
    copy_and_wait(Kokkos::View<Scalar*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(static_cast<Scalar*>(rows), size),
                  on_device);
  }
  void write_rows(EndOfRun const& run, int const* ends, DeviceOutput const& target) const override {
    launch_range(instance_of<ExecutionSpace>(run.stream),
                 WriteRows<Scalar>{last_activations(run, ends), rows_of<Scalar>(target)});
  }
  void digest_outputs(EndOfRun const& run, int const* ends, std::span<Digest> digests) const override {
    auto const& space = instance_of<ExecutionSpace>(run.stream);
    constexpr std::size_t words = sizeof(Digest) / sizeof(std::uint32_t);
    DeviceArray<ExecutionSpace, std::uint32_t> const on_device(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "varve::digests"), words * run.num_samples);
    using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
    Kokkos::parallel_for("varve::digest_outputs", Range(space, 0, run.num_samples),
                         DigestOutputs<Scalar>{last_activations(run, ends), run.first_sample,
                                               static_cast<int>(run.outputs.num_outputs), on_device});
    space.fence("varve: digests of outputs");
    copy_and_wait(Kokkos::View<std::uint32_t*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                      reinterpret_cast<std::uint32_t*>(digests.data()), words * run.num_samples),
                  on_device);
  }

  void join_part(Stream const& stream, Panel& given_panel, RankPart const& part, int num_neurons,
                 int tile_samples) const override {
    auto const& panel = panel_of(given_panel);
    std::size_t const size = part.num_positions * static_cast<std::size_t>(part.num_neurons);
    JoinNeurons<ExecutionSpace, Scalar> kernel{};
    kernel.part = {array_at(static_cast<Scalar const*>(part.activations), size),
                   array_at(part.live_stamps, part.num_positions), part.first_neuron, part.num_neurons,
                   part.tile_samples};
    kernel.target = panel.target();
    kernel.num_neurons = num_neurons;
    kernel.tile_samples = tile_samples;
    kernel.num_slots = panel.max_samples();
    kernel.live_stamps = panel.live_stamps();
    kernel.stamp = panel.stamp();
    join_neurons(instance_of<ExecutionSpace>(stream), kernel);
  }

private:
  DeviceMemory const& memory_;

  using Formats = LayerFormats<ExecutionSpace, Scalar>;
  using Encoded = typename Formats::Encoded;
  using Cones = typename Formats::Cones;
  template <class F>
  static constexpr bool is_streamed = !std::is_same_v<F, Cones> && !std::is_same_v<F, typename Formats::Counted> &&
                                      !std::is_same_v<F, typename Formats::Columns>;

  struct InFormat final : DeviceLayer {
    explicit InFormat(typename Formats::Format given) : format(std::move(given)) {}
    std::size_t bytes() const override {
      return std::visit([](auto const& one) { return bytes_on_device(one); }, format);
    }
    bool can_be_streamed() const override {
      return std::visit([]<class F>(F const&) { return is_streamed<F>; }, format);
    }
    std::vector<unsigned char> to_image() override {
      ArraysInImage<ExecutionSpace> image;
      visit_streamed([&](auto& one) { for_each_array(one, [&](auto& array) { image.take(array); }); });
      return image.release();
    }
    void move_arrays(unsigned char const* image) override {
      visit_streamed([&](auto& one) { varve::move_arrays(one, image); });
    }

    template <class Visit>
    void visit_streamed(Visit const& visit) {
      std::visit(
          [&]<class F>(F& one) {
            if constexpr (is_streamed<F>) visit(one);
          },
          format);
    }

    typename Formats::Format format;
  };

  template <class Number>
  static ArrayView<Number> array_at(Number* numbers, std::size_t count) {
    return ArrayView<Number>(numbers, count);
  }
  static PanelOn<ExecutionSpace, Scalar> const& panel_of(Panel const& panel) {
    return static_cast<PanelOn<ExecutionSpace, Scalar> const&>(panel);
  }
  static LastActivations<Scalar> last_activations(EndOfRun const& run, int const* ends) {
    using Last = LastActivations<Scalar>;
    static_assert(Last::is_dead == kDeadSample && Last::is_saturated == kSaturatedSample);
    auto const& panel = panel_of(run.panel);
    return {panel.source(),
            panel.tile_samples(),
            panel.from_slot(),
            neurons_of(run.outputs),
            array_at(ends, ends == nullptr ? 0 : run.num_samples),
            panel.num_neurons(),
            static_cast<Scalar>(run.outputs.saturated_value)};
  }
  static ArrayView<NeuronIndex const> neurons_of(PanelOutputs const& outputs) {
    return array_at(outputs.neurons, outputs.neurons == nullptr ? 0 : outputs.num_outputs);
  }
  template <class Element, class Address>
  static DenseRows<Element> rows_of(DeviceMatrix<Address> const& matrix) {
    return {static_cast<Element*>(matrix.data), matrix.num_rows, matrix.num_columns, matrix.row_stride,
            matrix.column_stride};
  }

  template <class Narrow, class Wide>
  static void widen_numbers(Stream const& stream, Narrow const* from, Wide* to, std::size_t count) {
    launch_range("varve::widen_numbers", instance_of<ExecutionSpace>(stream), count,
                 Widen<Narrow, Wide>{array_at(from, count), array_at(to, count)});
  }

  /// Calls launch(space) with the space that reads num_activations activations: on a host one thread, if it is done
  /// before other threads would have started.
  template <class Launch>
  static void in_space_for(Stream const& stream, std::size_t num_activations, Launch const& launch) {
    constexpr std::size_t few_activations = 4096;
    auto const& space = instance_of<ExecutionSpace>(stream);
    if constexpr (kOnHost<ExecutionSpace>) {
      if (num_activations <= few_activations) {
        space.fence("varve: before a launch in one thread");
        return launch(ShortSpace<ExecutionSpace>());
      }
    }
    launch(space);
  }
};

template <Backend backend, class Scalar>
std::unique_ptr<KernelSet> kernel_set_of(DeviceMemory const& memory) {
  return std::make_unique<KernelSetOn<SpaceOf<backend>, Scalar>>(memory);
}

} // namespace varve
