#pragma once

#include "core/device_memory.hpp"
#include "engine/panel.hpp"
#include "network/network.hpp"
#include "plan/choose.hpp"
#include "plan/cuts.hpp"
#include "receipts/digests.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace varve {

/// A layer in the format that the plan chose for it, encoded on the host.
struct EncodedLayer {
  std::shared_ptr<void const> arrays;
  std::size_t bytes = 0;
};

/// A layer, a further copy of layer 0, a strip of a layer or a run of cones in its format, with its arrays on the
/// device.
class DeviceLayer {
public:
  virtual ~DeviceLayer() = default;
  virtual std::size_t bytes() const = 0;

  /// False for cones and copies of layer 0, which stay on the device.
  virtual bool can_be_streamed() const = 0;
  /// Moves the arrays from the device to an image in host memory (ArraysInImage).
  virtual std::vector<unsigned char> to_image() = 0;
  /// Rebases the arrays of a layer in an image to device addresses; the image will be at `image`.
  virtual void move_arrays(unsigned char const* image) = 0;
};

/// True if the kernel reads a further copy of layer 0, and the samples without tiles.
constexpr bool reads_copy_of_first_layer(KernelName kernel) {
  return kernel == KernelName::bits || kernel == KernelName::counts || kernel == KernelName::entries;
}

/// What happens to the samples after a step; see Step.
struct HandOver {
  bool lists_live = true;
  bool lists_saturated = false;
  bool joins_equal = false;
  bool keeps_dead = true;
  int tile_samples = 0;   ///< samples per tile of the next step
  double cap = 0;         ///< the activation of every neuron of a saturated sample
  bool marks_live = true; ///< stamp live samples; false if no stamp is read before the next step
};

/// A launch that carries out one step of the plan: one or more consecutive layers, in the format and with the kernel
/// that the plan chose for them.
class Launch {
public:
  virtual ~Launch() = default;

  /// Launches the kernels of the layers on a panel. Panel and stream must be of the launch's kernel set.
  virtual void forward(Stream const& stream, Panel& panel, HandOver const& hand_over) const = 0;
};

/// Interpretation of a panel's last activations.
struct PanelOutputs {
  NeuronIndex const* neurons = nullptr; ///< on the device: output -> neuron of the panel; null: output j is neuron j
  std::size_t num_outputs = 0;
  double saturated_value = 0; ///< the activation of every output of permanently saturated samples
};

/// Samples of a batch whose activations are in a panel; arrays on the device.
struct SamplesInPanel {
  int const* ids;
  int const* positions; ///< null: sample i is at position i
  std::size_t count;
};

/// Values of `ends` of KernelSet::write_rows(): a position in the panel, or one of these.
constexpr int kDeadSample = -1;
constexpr int kSaturatedSample = -2;

/// The nonzero values of dense rows on a device.
struct DenseEntries {
  std::size_t num_entries;
  std::size_t first_bad; ///< row * columns + column of the first value that is not finite; past the end if none
};

/// The end of a run on a batch, whose last activations are in a panel.
struct EndOfRun {
  Stream const& stream; ///< on which results are computed and copied
  Panel const& panel;
  PanelOutputs outputs;
  std::size_t num_samples;  ///< of the batch
  SampleIndex first_sample; ///< number of the batch's first sample
};

/// Neurons of a panel that one rank has computed, at the same positions as in the whole panel; arrays on the device.
struct RankPart {
  void const* activations; ///< tiles [neuron][sample] of its neurons
  int const* live_stamps;  ///< [position]
  std::size_t num_positions;
  int first_neuron, num_neurons, tile_samples;
};

/// All parts of inference that are compiled for an execution space and a scalar type: formats, and the launches of
/// kernels. Lanes, panels, layers and numbers (void pointers) must have this space and type.
class KernelSet {
public:
  virtual ~KernelSet() = default;

  virtual DeviceMemory const& memory() const = 0;
  virtual std::size_t scalar_bytes() const = 0; ///< 4 or 8
  virtual DeviceTraits traits() const = 0;

  /// encode() converts a layer to a format on the host; several threads may call it at a time. place() then copies it
  /// to the device or, if `image` is not null, to an image until it is streamed. encode() throws InputError if the
  /// layer exceeds the range of the format's index or scalar types.
  virtual EncodedLayer encode(Layer const& layer, Encoding encoding) const = 0;
  virtual std::unique_ptr<DeviceLayer> place(Layer const& layer, EncodedLayer const& encoded,
                                             std::vector<unsigned char>* image) const = 0;
  virtual std::unique_ptr<DeviceLayer> place_cones(std::span<Layer const> run, ConeRun const& cones) const = 0;
  virtual std::unique_ptr<DeviceLayer> place_first(Layer const& layer, FirstLayerChoice const& choice) const = 0;

  /// The launch of a step of the plan; it shares ownership of the arrays of `layers`. layers: the layers of the step,
  /// its strip alone, or the copy of layer 0 that it reads.
  virtual std::unique_ptr<Launch> launch_of(Step const& step, std::span<DeviceLayer const* const> layers,
                                            LaunchCutter const& cutter) const = 0;

  /// A panel of zeros.
  virtual std::unique_ptr<Panel> new_panel(Panel::Size const& size) const = 0;

  /// The conversions that samples need on the device (SampleCopy).
  virtual WidenLaunches widen() const = 0;

  /// For dense samples on the device: writes row_ends[0] = 0, then the end of each row's nonzero values. Fences.
  virtual DenseEntries count_entries(Stream const& stream, DeviceInput const& rows, EdgeOffset* row_ends) const = 0;
  /// Writes the num_entries nonzero values and their columns. Does not fence.
  virtual void fill_entries(Stream const& stream, DeviceInput const& rows, EdgeOffset const* row_ends,
                            std::size_t num_entries, NeuronIndex* columns, void* values) const = 0;

  /// The sum of the fingerprints of all nonzero last activations of these samples. Both fence.
  virtual std::uint64_t hash(EndOfRun const& run, SamplesInPanel const& samples) const = 0;
  virtual std::uint64_t hash_saturated(EndOfRun const& run, int const* ids, std::size_t count) const = 0;

  /// Copies the last activations at positions [first, first + count) to `rows` on the host, [count][outputs].
  virtual void gather_rows(EndOfRun const& run, std::size_t first, std::size_t count, void* rows) const = 0;
  /// Writes the last activations of all samples, including zeros, to a matrix [samples, outputs] on the device. `ends`:
  /// on the device, by sample, its position, kDeadSample or kSaturatedSample. Does not fence.
  virtual void write_rows(EndOfRun const& run, int const* ends, DeviceOutput const& target) const = 0;
  /// SampleLeaves::output of all samples of a batch, hashed on the device; `ends` as above. Fences.
  virtual void digest_outputs(EndOfRun const& run, int const* ends, std::span<Digest> digests) const = 0;

  /// Copies a rank's neurons to the next tiles of a panel of num_neurons neurons. Does not fence.
  virtual void join_part(Stream const& stream, Panel& panel, RankPart const& part, int num_neurons,
                         int tile_samples) const = 0;
};

/// The kernels of inference of one backend (backend_of_kernels()) for one scalar type, float or double, with the memory
/// of a backend that runs them. CMake generates a source file from backend.cpp.in for each combination.
template <Backend backend, class Scalar>
std::unique_ptr<KernelSet> kernel_set_of(DeviceMemory const& memory);

} // namespace varve
