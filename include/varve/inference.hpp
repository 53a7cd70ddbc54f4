#pragma once

/// \file
/// Networks prepared for a backend, and how samples run through them.

#include <varve/matrix.hpp>
#include <varve/network.hpp>
#include <varve/samples.hpp>
#include <varve/types.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve::v0_3 {

/// How a network is run. Names and defaults are those of `varve infer` (`varve infer --help`).
struct InferenceOptions {
  std::optional<Backend> backend;                    ///< empty: the fastest of this build
  Precision precision = Precision::single_precision; ///< float, or double
  std::string engine = "varve";                      ///< for comparison also "reference", "kokkos-kernels"
  std::string reductions = "auto";                   ///< "auto", "none", or a list of names with commas
  std::string edge_order = "balanced";               ///< "balanced" or "ascending"
  std::string formats = "auto";                      ///< formats that the plan may use, with commas
  std::string kernel = "auto";                       ///< use this kernel for every layer that supports it
  std::optional<std::size_t> batch;                  ///< samples at a time; empty: the plan chooses
  std::optional<std::size_t> expected_samples;       ///< samples of a call, if known
  std::optional<std::size_t> memory_limit;           ///< bytes, as --memory host
  std::optional<std::size_t> device_memory_limit;    ///< bytes, as --memory device
  std::string input_name = "the samples";            ///< the name of the samples in messages
};

/// What infer() returns besides the live samples.
struct Wanted {
  bool activations = true;  ///< all nonzero last activations
  bool predictions = false; ///< the output of the largest activation of each sample
  /// If given, it gets the activations of each batch, of the samples from `first` on, and the result has none.
  std::function<void(std::size_t first, CsrMatrix const& activations)> take_activations = {};
};

/// The result of a call.
struct InferenceResult {
  std::vector<SampleIndex> live_samples; ///< ascending numbers of the samples with a nonzero last activation
  std::uint64_t activation_hash = 0;     ///< of all nonzero last activations; equal on every backend
  CsrMatrix activations;                 ///< if wanted: nonzero last activations [samples, outputs]
  std::vector<NeuronIndex> predictions;  ///< if wanted: per sample the output of the largest activation
  double loop_seconds = 0.0;             ///< time in the layer loop
};

/// A dense matrix in memory that the device of a backend can access: element (row, column) is number
/// row * row_stride + column * column_stride of `data`, an array of the type of the precision. See varve/kokkos.hpp.
template <class Address>
struct DeviceMatrix {
  Address data = nullptr;        ///< element (0, 0), in memory of the device
  std::size_t num_rows = 0;      ///< samples
  std::size_t num_columns = 0;   ///< inputs or outputs
  std::size_t row_stride = 0;    ///< elements from a row to the next
  std::size_t column_stride = 0; ///< elements from a column to the next
};
using DeviceInput = DeviceMatrix<void const*>; ///< a matrix that a call reads
using DeviceOutput = DeviceMatrix<void*>;      ///< a matrix that a call writes

/// A network prepared once for a backend and run often. One thread at a time may use it. Batches of several, steps of
/// trainings, and products that other threads run take turns. It holds memory of Kokkos, so it must be destroyed before
/// Kokkos ends (Runtime).
class PreparedNetwork {
public:
  /// Encodes the network for the device. Throws UsageError about options, InputError if the network is broken or its
  /// weights are too large for the precision, ResourceError if memory does not suffice or Kokkos does not run.
  explicit PreparedNetwork(Network const& network, InferenceOptions const& options = {});
  ~PreparedNetwork();
  /// Takes what is prepared; the other object can only be assigned to or destroyed.
  PreparedNetwork(PreparedNetwork&&) noexcept;
  /// Takes what is prepared, as the constructor does.
  PreparedNetwork& operator=(PreparedNetwork&&) noexcept;

  /// Values of a sample.
  std::size_t num_inputs() const;
  /// Last activations of a sample.
  std::size_t num_outputs() const;
  /// The backend that runs the layers.
  Backend backend() const;
  /// The type of activations and weights.
  Precision precision() const;

  /// Runs samples [samples, inputs]. Progress is called between batches of about a second at most. Throws InputError if
  /// the samples have another width than the network's inputs or are too large for the precision.
  InferenceResult infer(Samples const& samples, Wanted const& wanted = {}, Progress const& progress = {});

  /// Runs dense samples that lie on the device and writes all last activations [samples, outputs] there; nothing passes
  /// through host memory. `space` points to an instance of the Kokkos execution space of `backend`. The result has no
  /// activations. Use infer() of varve/kokkos.hpp, which takes Views. Without `progress`, batches are as large as
  /// memory allows. Throws as infer(), and UsageError if backend, precision or engine are not those of this object.
  InferenceResult infer_on_device(Backend backend, Precision precision, void const* space, DeviceInput const& samples,
                                  DeviceOutput const& activations, Progress const& progress = {});

  /// The lines of the plan for this many samples of any values, as `varve info --plan` prints them.
  std::vector<std::string> plan_lines(std::size_t num_samples);
  /// The same for these samples.
  std::vector<std::string> plan_lines(Samples const& samples);

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve::v0_3
