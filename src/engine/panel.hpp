#pragma once

#include "core/device_memory.hpp"
#include "core/types.hpp"

#include <varve/inference.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace varve {

/// Sparse samples on a device: entries of sample s are [row_pointers[s], row_pointers[s + 1]).
struct SamplesOnDevice {
  int num_samples = 0;
  int num_neurons = 0;
  EdgeOffset const* row_pointers = nullptr;
  NeuronIndex const* columns = nullptr;
  void const* values = nullptr; ///< numbers of the kernels' scalar type: one per entry, or one for all entries
  int value_stride = 0;         ///< 1: one value per entry; 0: one value for all
  std::size_t num_entries = 0;
};

using v0_3::DeviceInput;
using v0_3::DeviceMatrix;
using v0_3::DeviceOutput;

/// Launches on a stream that widen `count` numbers on the device, which were copied in fewer bits.
struct WidenLaunches {
  void (*pointers)(Stream const& stream, std::uint32_t const* from, EdgeOffset* to, std::size_t count);
  void (*columns)(Stream const& stream, std::uint16_t const* from, NeuronIndex* to, std::size_t count);
};

/// The activations of a batch on a device: two buffers of tiles, the sample at each position, and the number of
/// positions. Position p is slot from_slot(p) after a list of live samples was made, else slot p. Counts stay on the
/// device; the host knows upper bounds (exact ones if it shares memory with the device). This class has the host's
/// state; PanelOn has the arrays.
class Panel {
public:
  static constexpr std::size_t slot_granularity = 64; ///< a multiple of the samples of every tile shape

  /// The capacity of a panel.
  struct Size {
    std::size_t max_samples = 0;
    std::size_t max_neurons = 0;
    std::size_t max_lists = 0; ///< lists and compactions of samples in a run
    std::size_t num_bits = 0;  ///< input neurons if layer 0 reads samples as bits, else 0
    bool finds_equal = false;  ///< equal samples are searched
  };

  /// Number of slots for this many samples, a multiple of slot_granularity.
  static std::size_t slots_of(std::size_t samples) {
    return (samples + slot_granularity - 1) / slot_granularity * slot_granularity;
  }

  /// Device memory of a panel of this size, in bytes. `scalar_bytes`: bytes of an activation.
  static std::size_t bytes(Size const& size, std::size_t scalar_bytes) {
    std::size_t const slots = slots_of(size.max_samples);
    std::size_t const equal_bytes =
        size.finds_equal ? slots * (sizeof(std::uint64_t) + 2 * sizeof(int)) + std::bit_ceil(2 * slots) * sizeof(int)
                         : 0;
    return slots * (2 * size.max_neurons * scalar_bytes + 7 * sizeof(int)) + slots / 8 * size.num_bits + equal_bytes;
  }

  virtual ~Panel() = default;
  Panel(Panel const&) = delete;
  Panel& operator=(Panel const&) = delete;

  /// Starts a run on these samples.
  virtual void start(Stream const& stream, SamplesOnDevice const& samples) = 0;

  /// Lists the live samples, those with the last stamp; afterwards only they have positions. Call only after advance().
  virtual void list_live(Stream const& stream) = 0;

  /// The number of live samples, computed on the device from the stamps of the last launch. Fences.
  virtual int count_live(Stream const& stream) const = 0;

  /// Copies the number of samples from the device. Fences.
  virtual int count_samples(Stream const& stream) const = 0;

  /// Addresses on the device.
  struct Arrays {
    void* source;         ///< tiles of the last activations
    int* live_stamps;     ///< [position]
    int const* counts;    ///< samples after each list; last element: samples that left saturated
    int const* ids;       ///< [position]: the sample
    int const* saturated; ///< the samples that left saturated
    /// By sample: the sample that represents it, or itself; null if equal samples have not been searched in this run.
    int const* represented_by;
    std::size_t num_counts;
  };
  virtual Arrays arrays() const = 0;

  /// The host's state of a run, besides its samples.
  struct Progress {
    int current = 0; ///< the buffer of the last activations
    int current_list = 0, num_lists = 0;
    int stamp = 0;
    int max_samples = 0, num_neurons = 0;
    int tile_samples = 0; ///< samples of a tile; 0 before the samples are in tiles
    bool is_listed = false, seeks_equal = false;
  };
  Progress const& progress() const { return run_; }
  /// Call after a replay of recorded launches on these samples. progress: progress() after the recorded calls.
  void take_progress(SamplesOnDevice const& samples, Progress const& progress) {
    set_samples(samples);
    run_ = progress;
  }

  /// Lowers the host's upper bound of the number of samples to a number that the caller has counted.
  void limit(int max_samples) { run_.max_samples = std::min(run_.max_samples, max_samples); }

  /// True if the activations are in tiles; false while they are still sparse in samples().
  bool is_expanded() const { return run_.tile_samples != 0; }

  /// Call after a launch that read source() and wrote target(), position by position, in tiles of tile_samples samples.
  void advance(int num_neurons, int tile_samples) {
    run_.current = 1 - run_.current;
    run_.num_neurons = num_neurons;
    run_.tile_samples = tile_samples;
    run_.is_listed = false;
  }

  int stamp() const { return run_.stamp; }
  int max_samples() const { return run_.max_samples; }
  int num_neurons() const { return run_.num_neurons; }
  int tile_samples() const { return run_.tile_samples; }
  int num_lists() const { return run_.num_lists; }

protected:
  Panel() = default;
  virtual void set_samples(SamplesOnDevice const& samples) = 0;

  Progress run_;
};

} // namespace varve
