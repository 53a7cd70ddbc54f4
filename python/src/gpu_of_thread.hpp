#pragma once

namespace varve::python {

/// Keeps for other libraries, such as torch, the GPU that the calling thread works on: notes it on construction, and
/// makes it that of the thread again on destruction. Does nothing in builds without a GPU.
class GpuOfThread {
public:
  GpuOfThread();
  ~GpuOfThread();
  GpuOfThread(GpuOfThread const&) = delete;
  GpuOfThread& operator=(GpuOfThread const&) = delete;

  /// From now on the thread works on the GPU of Kokkos, which runs.
  void use_that_of_kokkos() const;

private:
  int before_ = -1; ///< below 0: unknown
};

} // namespace varve::python
