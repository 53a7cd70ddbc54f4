#pragma once

#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/types.hpp"
#include "engine/rank_exchange.hpp"
#include "engine/trained_layers.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/optimizer.hpp"
#include "network/sample_set.hpp"
#include "passes/regrow.hpp"
#include "plan/names.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace varve {

/// Options of a training, except for the contents of mini-batches. Only precision, loss and optimizer affect the
/// results; the other options change no bit. (The pattern changes by evolve() only.)
struct TrainingOptions {
  Backend backend = Backend::serial;
  Precision precision = Precision::single_precision;
  Loss loss = Loss::cross_entropy;
  Optimizer optimizer;
  std::size_t batch = 128;                ///< samples of the largest mini-batch
  std::optional<std::size_t> micro_batch; ///< samples at a time: leaf times a power of two; empty: as many as fit
  std::optional<std::size_t> keep_every;  ///< keeps the activations of every keep_every-th layer; empty: all that fit
  /// Bytes. With a device that has its own memory: host memory for streamed weights (default: half of the available
  /// memory). Else: limit of all memory (default: nine tenths of the available memory).
  std::optional<std::size_t> memory_limit;
  /// Bytes on the device (default: nine tenths of what is available). CPU backends stream weights only if it is given.
  std::optional<std::size_t> device_memory_limit;
  std::optional<FormatName> format;       ///< csr or dense; empty: dense where that is faster
  std::shared_ptr<RankExchange> exchange; ///< exchange between the ranks that train the network; empty: one rank
  bool reads_peers = true;                ///< ranks of one machine read each other's memory if they can
  std::vector<double> rank_speeds;        ///< relative speeds by which ranks share leaves; empty: measured
  /// Least number of gradients that ranks exchange at a time; empty: GradientParts::min_sums_of() the network.
  std::optional<std::size_t> min_bundle;
  PatternKind pattern = PatternKind::keep;           ///< the changes of the pattern that evolve() carries out
  std::size_t growth_bytes = std::size_t{64} << 20U; ///< for PatternKind::rigl: memory for gradients of free places
};

/// How training uses memory.
struct TrainingPlan {
  std::size_t leaf = 0;                  ///< samples of a leaf
  std::size_t micro_batch = 0;           ///< samples at a time
  std::size_t keep_every = 1;            ///< keeps activations of every keep_every-th layer and recomputes the others
  bool streams_weights = false;          ///< weights, gradients and moments are in host memory; layers are streamed
  std::size_t strip_size = kWholeLayers; ///< if streamed: most weights and rows of a strip (engine/trained_layers.hpp)
  std::size_t num_cut_layers = 0;        ///< layers that are streamed in several strips
  std::size_t weight_bytes = 0, activation_bytes = 0; ///< on the device
  std::size_t group_bytes = 0; ///< more bytes on the device: sums of several layers' leaves, which one launch adds up
  std::size_t host_bytes = 0;  ///< host memory for streamed data
  std::size_t num_dense_forward = 0, num_dense_backward = 0; ///< layers computed as dense layers
  std::size_t num_series_layers = 0; ///< layers computed in series, several per launch (engine/trained_layers.hpp)
};

/// Work of one rank in all steps; times are in seconds.
struct TrainingTimes {
  std::uint64_t num_steps = 0;
  std::uint64_t num_leaves = 0;  ///< leaves that the rank computed
  double compute_seconds = 0.0;  ///< passes and changes of the pattern; with one rank, whole steps
  double exchange_seconds = 0.0; ///< messages, sums over ranks and steps of the rank's part of the weights
  double wait_seconds = 0.0;     ///< waiting for other ranks
  double exchange_bytes = 0.0;   ///< bytes sent to other ranks
};

/// Thrown if a weight, bias or moment of a training is not finite.
class DivergenceError : public InputError {
public:
  using InputError::InputError;
};

/// A network in training on a device, and sets of samples with their answers. All results are bitwise equal to
/// ReferenceTraining (tests/reference/train.hpp) on every backend. With several ranks, all functions are collectives:
/// all ranks call them with the same arguments and in the same order, and all get the same results.
class Training {
public:
  virtual ~Training() = default;

  /// Copies samples and answers to the device; returns the number of the set, from 0. Throws InputError, naming
  /// `place`, if they do not fit the network or each other, or if the precision cannot represent a sample or a target.
  virtual std::size_t add_samples(SampleSet const& samples, Answers const& answers, std::string const& place) = 0;

  /// One step with a mini-batch of rows of a set: row rows[p] is at position p. The gradient is the sum over the
  /// samples, each times its weight, divided by their number. Returns the loss before the step. Throws DivergenceError,
  /// naming the layer, if a weight or bias is not finite afterwards; the object must not be used after that.
  virtual LossSum step(std::size_t set, std::span<std::uint64_t const> rows, double rate) = 0;

  /// Changes the pattern before a step with a mini-batch (rows: see step()). The event's kind must be that of the
  /// options. Layers keep their numbers of edges.
  virtual PatternCount evolve(std::size_t set, std::span<std::uint64_t const> rows, PatternEvent const& event) = 0;

  /// Loss of all samples of a set.
  virtual LossSum evaluate(std::size_t set) = 0;

  /// The network with its present weights and biases: one weight per edge and one bias per output.
  virtual Network network() const = 0;

  /// Throws DivergenceError, naming the layer, if a moment of the optimizer is not finite. step() cannot notice this:
  /// Adam changes no weight whose second moment is infinite. Collective. Engines without moments do nothing.
  virtual void require_finite_moments() {}

  /// The moments of the optimizer and the number of steps. With several ranks only rank 0 gets moments.
  virtual OptimizerState state() const = 0;
  /// Continues from a state. Throws InputError unless it has the shape of the network and of the optimizer.
  virtual void restore(OptimizerState const& state) = 0;

  virtual TrainingPlan const& plan() const = 0;
  virtual TrainingTimes times() const = 0; ///< times of this rank

  /// How ranks exchange gradients and weights: "memory" (each reads the others' memory directly), "messages", or
  /// "messages (the reason against memory)". Known after the first step; empty before that, and with one rank.
  virtual std::string exchange_way() const = 0;

  /// Frees the set that was added last; the next one gets its number. There must be one.
  virtual void remove_last_samples() = 0;
};

/// Prepares a network for training. Throws UsageError if options are invalid or the build lacks the backend, InputError
/// if the network cannot be trained, ResourceError if it does not fit the memory.
std::unique_ptr<Training> prepare_training(Network const& network, TrainingOptions const& options);

} // namespace varve
