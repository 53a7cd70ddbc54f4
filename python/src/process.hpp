#pragma once

#include "gpu_of_thread.hpp"

#include <varve/types.hpp>

#include <nanobind/nanobind.h>

#include <mutex>
#include <optional>
#include <string>

/// What all objects of the module share: Kokkos, which one process starts and ends once, and the turn to use it.
namespace varve::python {

/// Holds views of Kokkos, so it must let go of them before Kokkos ends. Registered during its lifetime; destructors of
/// classes made from it call close_in_turn().
class HoldsViews {
public:
  HoldsViews();
  virtual ~HoldsViews();
  HoldsViews(HoldsViews const&) = delete;
  HoldsViews& operator=(HoldsViews const&) = delete;

  /// Frees all views. Called in turn; may be called again.
  virtual void close() = 0;

protected:
  /// In turn, ends the registration and calls close(). Call it with the GIL, which is released while waiting. In a
  /// forked process it calls lose() instead, because devices and threads of the parent are out of reach there.
  void close_in_turn();

  /// Forgets all views without freeing their memory.
  virtual void lose() = 0;
};

/// The right to run kernels, which one thread has at a time: kernels of several threads would share their scratch
/// memory and, on CPU backends, the processors. A thread that has it may take it again, in a callback for instance.
/// While it lasts, the thread works on the GPU of Kokkos.
class Turn {
public:
  /// Starts Kokkos unless it runs and waits for the turn. Call it without the GIL. Throws UsageError and ResourceError
  /// as Runtime does, ResourceError in a child that was forked after the start and at the end of the process, and the
  /// exception of a signal handler (KeyboardInterrupt) that runs while it waits.
  Turn();

private:
  std::unique_lock<std::recursive_timed_mutex> lock_;
  GpuOfThread gpu_;
};

/// Starts Kokkos with this number of threads and on this device; nullopt: its defaults, and what the environment says
/// (OMP_NUM_THREADS, KOKKOS_DEVICE_ID). Throws as Turn() does, and UsageError if Kokkos runs already.
void start(std::optional<int> num_threads, std::optional<int> device);

/// True in a process that was forked after Kokkos had started: its threads and devices do not exist here.
bool is_forked();

/// Calls close() of all objects that hold views, then ends Kokkos. Call it once, without the GIL. Calls on other
/// (daemon) threads end first, at their next run_signal_handlers().
void end();

/// Runs Python's signal handlers if a signal has come, at most every twentieth of a second; throws their exception.
/// Call it without the GIL, in everything that may take long. Threads other than the main one have no handlers; once
/// end() has been called, it throws ResourceError there.
void run_signal_handlers();

/// Calls a callback of Python, unless it is None, and then run_signal_handlers(). The caller keeps the callback alive.
v0_3::Progress to_progress(nanobind::object const& callback);

/// The precision "float32" or "float64".
v0_3::Precision to_precision(std::string const& name);
char const* name_of(v0_3::Precision precision);

} // namespace varve::python
