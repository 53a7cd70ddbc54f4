#pragma once

#include "core/device_memory.hpp"
#include "engine/panel.hpp"
#include "network/network.hpp"
#include "plan/choose.hpp"
#include "plan/cuts.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace varve {

/// A layer in the format that the plan chose for it, encoded on the host.
class EncodedLayer {
public:
  virtual ~EncodedLayer() = default;
  virtual std::size_t bytes() const = 0;
};

/// A layer, a strip of one or a run of cones in its format, with its arrays on the device.
class DeviceLayer {
public:
  virtual ~DeviceLayer() = default;
  virtual std::size_t bytes() const = 0;

  /// False for cones, which stay on the device.
  virtual bool can_be_streamed() const = 0;
  /// Moves the arrays from the device to an image in host memory (ArraysInImage).
  virtual std::vector<unsigned char> to_image() = 0;
  /// Gives the arrays of a layer in an image their addresses on the device, where its image will be at `image`.
  virtual void move_arrays(unsigned char const* image) = 0;
};

/// A layer whose arrays are in an image (ArraysInImage) until they are streamed to the device.
struct LayerInImage {
  std::unique_ptr<DeviceLayer> layer;
  std::vector<unsigned char> image;
};

/// The second form of layer 0, for samples whose values are all equal.
class FirstLayer {
public:
  virtual ~FirstLayer() = default;
  virtual std::size_t bytes() const = 0;
};

/// What happens to the samples after a step; see Step.
struct HandOver {
  bool lists_live = true;
  bool lists_saturated = false;
  bool joins_equal = false;
  bool keeps_dead = true;
  int tile_samples = 0;   ///< samples per tile of the next step
  double cap = 0;         ///< the activation of every neuron of a saturated sample
  bool marks_live = true; ///< live samples get their stamps; else nobody asks for them before the next step
};

/// A launch that carries out one step of the plan: one or more consecutive layers, in the format and with the kernel
/// that the plan chose for them.
class Launch {
public:
  virtual ~Launch() = default;

  /// Launches the kernels that take the panel through the layers. Panel and lane are of the launch's kernel set.
  virtual void forward(Lane const& lane, Panel& panel, HandOver const& hand_over) const = 0;

  /// Samples per tile that the kernel reads.
  virtual int tile_samples() const = 0;
};

/// The meaning of a panel's last activations.
struct PanelOutputs {
  NeuronIndex const* neurons = nullptr; ///< on the device: output -> neuron of the panel; null: output j is neuron j
  std::size_t num_outputs = 0;
  double saturated_value = 0; ///< the activation of every output of samples that are saturated for ever
};

/// Samples of a batch whose activations are in a panel; arrays on the device.
struct SamplesInPanel {
  int const* ids;
  int const* positions; ///< null: sample i is at position i
  std::size_t count;
};

/// Where samples end, for KernelSet::write_rows(): a position in the panel, or one of these.
constexpr int kDeadSample = -1;
constexpr int kSaturatedSample = -2;

/// The nonzero values of dense rows on a device.
struct DenseEntries {
  std::size_t num_entries;
  std::size_t first_bad; ///< row * columns + column of the first value that is not finite; beyond all if there is none
};

/// Some neurons of a panel, computed by one rank, at the same positions as in the whole panel; arrays on the device.
struct RankPart {
  void const* activations; ///< tiles [neuron][sample] of its neurons
  int const* live_stamps;  ///< by position
  std::size_t num_positions;
  int first_neuron, num_neurons, tile_samples;
};

/// All of inference that is compiled for an execution space and a scalar type: formats, and the launches of kernels.
/// Lanes, panels, layers and numbers (void pointers) must be of this space and type.
class KernelSet {
public:
  virtual ~KernelSet() = default;

  virtual DeviceMemory const& memory() const = 0;
  virtual std::size_t scalar_bytes() const = 0; ///< 4 or 8
  virtual DeviceTraits traits() const = 0;

  /// encode() puts a layer into a format on the host, on several threads at a time; place() then puts it on the device,
  /// place_in_image() into an image. encode() throws InputError if the layer has more than the format's types count, or
  /// hold.
  virtual std::unique_ptr<EncodedLayer> encode(Layer const& layer, Encoding encoding) const = 0;
  virtual std::unique_ptr<DeviceLayer> place(Layer const& layer, EncodedLayer const& encoded) const = 0;
  virtual LayerInImage place_in_image(Layer const& layer, EncodedLayer const& encoded) const = 0;
  virtual std::unique_ptr<DeviceLayer> place_cones(std::span<Layer const> run, ConeRun const& cones) const = 0;
  virtual std::unique_ptr<FirstLayer> place_first(Layer const& layer, FirstLayerChoice const& choice) const = 0;

  /// The launch of a step of the plan, which shares ownership of the arrays of `layers`: those of the step, or its
  /// strip alone.
  virtual std::unique_ptr<Launch> launch_of(Step const& step, std::span<DeviceLayer const* const> layers,
                                            LaunchCutter const& cutter) const = 0;
  virtual std::unique_ptr<Launch> launch_of_first(Step const& step, FirstLayer const& layer) const = 0;

  /// A panel of zeros.
  virtual std::unique_ptr<Panel> new_panel(Panel::Size const& size) const = 0;

  /// The conversions that samples need on the device (SampleCopy).
  virtual WidenLaunches widen() const = 0;

  /// For dense samples on the device: writes the ends of the rows' nonzero values, row_ends[0] = 0 first. Fences.
  virtual DenseEntries count_entries(Lane const& lane, DeviceInput const& rows, EdgeOffset* row_ends) const = 0;
  /// Writes the num_entries nonzero values and their columns. Does not fence.
  virtual void fill_entries(Lane const& lane, DeviceInput const& rows, EdgeOffset const* row_ends,
                            std::size_t num_entries, NeuronIndex* columns, void* values) const = 0;

  /// The sum of the fingerprints of all nonzero last activations of these samples, of which the batch's first is number
  /// first_sample. Fence.
  virtual std::uint64_t hash(Lane const& lane, Panel const& panel, SamplesInPanel const& samples,
                             PanelOutputs const& outputs, SampleIndex first_sample) const = 0;
  virtual std::uint64_t hash_saturated(Lane const& lane, int const* ids, std::size_t count, PanelOutputs const& outputs,
                                       SampleIndex first_sample) const = 0;

  /// Copies the last activations at positions [first, first + count) to `rows` on the host, [count][outputs].
  virtual void gather_rows(Lane const& lane, Panel const& panel, PanelOutputs const& outputs, std::size_t first,
                           std::size_t count, void* rows) const = 0;
  /// Writes the last activations of all samples, zeros too, to a matrix [samples, outputs] on the device. `ends`: on
  /// the device, by sample, where it ends. Does not fence.
  virtual void write_rows(Lane const& lane, Panel const& panel, PanelOutputs const& outputs, int const* ends,
                          DeviceOutput const& target) const = 0;

  /// Copies a rank's neurons to the next tiles of a panel of num_neurons neurons. Does not fence.
  virtual void join_part(Lane const& lane, Panel& panel, RankPart const& part, int num_neurons,
                         int tile_samples) const = 0;
};

/// The kernels of inference for one backend and scalar type, float or double. The build makes a file from
/// backend.cpp.in for each of them that Kokkos has.
template <Backend backend, class Scalar>
std::unique_ptr<KernelSet> kernel_set_of();

} // namespace varve
