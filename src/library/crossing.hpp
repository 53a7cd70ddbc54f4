#pragma once

#include "core/types.hpp"
#include "network/activation.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <varve/error.hpp>
#include <varve/network.hpp>
#include <varve/samples.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

/// What crosses the border between the public headers (namespace varve::v0_3) and the library (namespace varve):
/// matrices, layers. The private parts of public classes.
namespace varve::v0_3 {

varve::Activation to_private(Activation const& activation);
Activation to_public(varve::Activation const& activation);

/// Copies a matrix. Throws InputError, naming `place`, if it is malformed.
varve::SparseMatrix to_private(CsrView const& matrix, std::string const& place);

/// Copies answers. Throws InputError, naming `place`, if the targets are malformed.
varve::Answers to_private(Answers const& answers, std::string const& place);

/// True from the start of Kokkos in this process to its end, and after its end: it cannot start again.
bool kokkos_runs();
bool kokkos_has_ended();

/// Throws ResourceError unless Kokkos runs.
void require_kokkos();

struct Network::Contents {
  explicit Contents(std::shared_ptr<varve::NetworkSource const> layers);
  Contents(std::shared_ptr<varve::NetworkSource const> layers, std::size_t inputs, std::size_t outputs)
      : source(std::move(layers)), num_inputs(inputs), num_outputs(outputs) {}
  static Network wrapped(std::shared_ptr<Contents const> contents) { return {std::move(contents), nullptr}; }

  std::shared_ptr<varve::NetworkSource const> source;
  std::size_t num_inputs = 0, num_outputs = 0;
};

/// A network that reads its layers from this source.
Network hold(std::shared_ptr<varve::NetworkSource const> source);
/// The same network, whose layers are read through another source.
Network hold(Network const& network, std::shared_ptr<varve::NetworkSource const> source);
/// A network with a copy of all layers of a source.
Network hold_copy(varve::NetworkSource const& source);

struct Samples::Contents {
  varve::SampleBatch batch; ///< of one set

  static Samples wrapped(std::shared_ptr<Contents const> contents) { return {std::move(contents), nullptr}; }
  varve::SampleSet const& set() const { return *batch.rows().front().set; }
};

/// Samples that keep this set.
Samples hold(varve::SampleSet set);

/// The right to use the devices of this process, which one thread has at a time; others wait. Kernels share the device,
/// and an instance of one of Kokkos's execution spaces serves one thread at a time. A thread may take it again while
/// it has it, such as in a callback.
class Turn {
public:
  Turn() : lock_(guard) {}

private:
  static inline std::recursive_mutex guard;
  std::unique_lock<std::recursive_mutex> lock_;
};

/// For unique_ptr: frees what has memory on a device.
struct FreeInTurn {
  template <class T>
  void operator()(T* object) const {
    Turn const turn;
    delete object;
  }
};

} // namespace varve::v0_3
