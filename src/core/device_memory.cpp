#include "core/device_memory.hpp"

#include "core/beside_recordings.hpp"
#include "core/device_lane.hpp"
#include "core/execution.hpp"
#include "core/own_stream.hpp"
#include "core/shared_memory.hpp"
#include "core/shared_work_mark.hpp"
#include "core/work_mark.hpp"

#include <Kokkos_Core.hpp>

#include <cstdlib>
#include <stdexcept>
#include <type_traits>

namespace varve {
namespace {

template <class MemorySpace>
using Bytes = Kokkos::View<std::byte*, MemorySpace>;
template <class MemorySpace>
using Part = Kokkos::View<std::byte*, MemorySpace, Kokkos::MemoryUnmanaged>;
template <class MemorySpace>
using ConstPart = Kokkos::View<std::byte const*, MemorySpace, Kokkos::MemoryUnmanaged>;

/// The memory of the host from which copies to a device are fastest.
template <class ExecutionSpace>
using HostOf = std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>;

template <class ExecutionSpace>
class LaneOn : public DeviceLane<ExecutionSpace> {
public:
  explicit LaneOn(ExecutionSpace space) : DeviceLane<ExecutionSpace>(std::move(space)) {}

  void fence(std::string const& label) const override { this->space_.fence(label); }

  void copy_to_device(void* to, void const* from, std::size_t bytes) const override {
    copy<Device, HostOf<ExecutionSpace>>(to, from, bytes);
  }
  void copy_to_host(void* to, void const* from, std::size_t bytes) const override {
    copy<HostOf<ExecutionSpace>, Device>(to, from, bytes);
  }
  void copy_on_device(void* to, void const* from, std::size_t bytes) const override {
    copy<Device, Device>(to, from, bytes);
  }

private:
  using Device = typename ExecutionSpace::memory_space;

  template <class To, class From>
  void copy(void* to, void const* from, std::size_t bytes) const {
    auto const& space = this->space_;
    Kokkos::deep_copy(space, Part<To>(static_cast<std::byte*>(to), bytes),
                      ConstPart<From>(static_cast<std::byte const*>(from), bytes));
  }
};

/// A lane on an OwnStream.
template <class ExecutionSpace>
class IndependentLane final : public LaneOn<ExecutionSpace> {
public:
  explicit IndependentLane(std::unique_ptr<OwnStream<ExecutionSpace>> stream)
      : LaneOn<ExecutionSpace>(stream->get()), stream_(std::move(stream)) {}
  ~IndependentLane() override { this->space_ = ExecutionSpace(); } // the instance goes before its stream

private:
  std::unique_ptr<OwnStream<ExecutionSpace>> stream_;
};

template <class ExecutionSpace>
class MarkOn final : public LaneMark {
public:
  void set(Lane const& lane) override { mark_.set(instance_of<ExecutionSpace>(lane)); }
  void hold_back(Lane const& lane) const override { mark_.hold_back(instance_of<ExecutionSpace>(lane)); }
  bool is_reached() const override { return mark_.is_reached(); }

private:
  WorkMark<ExecutionSpace> mark_;
};

template <class ExecutionSpace>
class PeerMemoryOn final : public PeerMemory {
public:
  /// `given`: the number of bytes, or a handle.
  template <class Given>
  explicit PeerMemoryOn(Given const& given) : memory_(given) {}

  std::byte* data() const override { return memory_.data(); }
  std::string handle() const override { return memory_.handle(); }

private:
  SharedMemory<ExecutionSpace> memory_;
};

template <class ExecutionSpace>
class PeerMarkOn final : public PeerMark {
public:
  PeerMarkOn() = default;
  explicit PeerMarkOn(std::string const& handle) : mark_(handle) {}

  std::string handle() const override { return mark_.handle(); }
  void set(Lane const& lane) override { mark_.set(instance_of<ExecutionSpace>(lane)); }
  void hold_back(Lane const& lane) const override { mark_.hold_back(instance_of<ExecutionSpace>(lane)); }

private:
  SharedWorkMark<ExecutionSpace> mark_;
};

#if defined(KOKKOS_ENABLE_CUDA)

class CudaGraph final : public LaunchGraph {
public:
  explicit CudaGraph(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }

  void start(Lane const& lane) const override {
    detail::GpuEvent::check(cudaGraphLaunch(graph_, instance_of<Kokkos::Cuda>(lane).cuda_stream()));
  }

private:
  cudaGraphExec_t graph_;
};

/// DeviceMemory::record().
std::unique_ptr<LaunchGraph> record_graph(Kokkos::Cuda const& space, std::function<void()> const& launch) {
  cudaGraph_t recorded = nullptr;
  cudaGraphExec_t graph = nullptr;
  {
    BesideRecordings::Recording const recording;
    if (cudaStreamBeginCapture(space.cuda_stream(), cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
      bool is_whole = false;
      try {
        launch();
        is_whole = true;
      } catch (...) { // what launch() throws it throws again when it is called
      }
      is_whole = cudaStreamEndCapture(space.cuda_stream(), &recorded) == cudaSuccess && is_whole;
      if (is_whole && cudaGraphInstantiateWithFlags(&graph, recorded, 0) != cudaSuccess) graph = nullptr;
    }
  }
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  if (graph != nullptr) return std::make_unique<CudaGraph>(graph);
  static_cast<void>(cudaGetLastError()); // the next call shall not report it again
  return nullptr;
}

#endif

template <class ExecutionSpace>
class DeviceMemoryOf final : public DeviceMemory {
public:
  Backend backend() const override { return to_backend<ExecutionSpace>(); }
  bool is_host() const override { return kOnHost<ExecutionSpace>; }

  DeviceBytes allocate(std::string const& label, std::size_t bytes) const override {
    return allocate_in<Device>(label, bytes);
  }
  void copy_and_wait(void* to, void const* from, std::size_t bytes) const override {
    varve::copy_and_wait(Part<Device>(static_cast<std::byte*>(to), bytes),
                         ConstPart<Kokkos::HostSpace>(static_cast<std::byte const*>(from), bytes));
  }
  void bring_and_wait(void* to, void const* from, std::size_t bytes) const override {
    varve::copy_and_wait(Part<Kokkos::HostSpace>(static_cast<std::byte*>(to), bytes),
                         ConstPart<Device>(static_cast<std::byte const*>(from), bytes));
  }
  void clear_and_wait(void* data, std::size_t bytes) const override {
    varve::copy_and_wait(Part<Device>(static_cast<std::byte*>(data), bytes), std::byte{0});
  }
  DeviceBytes allocate_on_host(std::string const& label, std::size_t bytes) const override {
    return allocate_in<Host>(label, bytes);
  }

  void make_room(Lane const& lane, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                 std::string const& label) const override {
    make_room_in<Device>(lane, bytes, count, number_bytes, label);
  }
  void make_room_on_host(Lane const& lane, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                         std::string const& label) const override {
    make_room_in<Host>(lane, bytes, count, number_bytes, label);
  }

  void* allocate_ahead(std::size_t bytes) const override {
    if constexpr (kOnHost<ExecutionSpace>) return std::malloc(bytes);
    auto const lock = BesideRecordings::not_while_recording();
    return Kokkos::kokkos_malloc<Host>("varve::samples_ahead", bytes);
  }
  void free_ahead(void* address) const override {
    if constexpr (kOnHost<ExecutionSpace>) return std::free(address);
    auto const lock = BesideRecordings::not_while_recording();
    Kokkos::kokkos_free<Host>(address);
  }

  std::unique_ptr<Lane> default_lane() const override {
    return std::make_unique<LaneOn<ExecutionSpace>>(ExecutionSpace());
  }
  std::unique_ptr<Lane> new_lane() const override {
    if constexpr (kOnHost<ExecutionSpace>) return default_lane();
    return std::make_unique<LaneOn<ExecutionSpace>>(Kokkos::Experimental::partition_space(ExecutionSpace(), 1)[0]);
  }
  std::unique_ptr<Lane> independent_lane(LanePriority priority) const override {
    return std::make_unique<IndependentLane<ExecutionSpace>>(std::make_unique<OwnStream<ExecutionSpace>>(
        priority == LanePriority::urgent ? StreamPriority::urgent : StreamPriority::ordinary));
  }
  std::unique_ptr<Lane> lane_of(void const* instance) const override {
    return std::make_unique<LaneOn<ExecutionSpace>>(*static_cast<ExecutionSpace const*>(instance));
  }

  std::unique_ptr<LaneMark> new_mark() const override { return std::make_unique<MarkOn<ExecutionSpace>>(); }

  std::unique_ptr<PeerMemory> new_peer_memory(std::size_t bytes) const override {
    return std::make_unique<PeerMemoryOn<ExecutionSpace>>(bytes);
  }
  std::unique_ptr<PeerMemory> open_peer_memory(std::string const& handle) const override {
    return std::make_unique<PeerMemoryOn<ExecutionSpace>>(handle);
  }
  std::unique_ptr<PeerMark> new_peer_mark() const override { return std::make_unique<PeerMarkOn<ExecutionSpace>>(); }
  std::unique_ptr<PeerMark> open_peer_mark(std::string const& handle) const override {
    return std::make_unique<PeerMarkOn<ExecutionSpace>>(handle);
  }

  bool can_record() const override {
#if defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
    return false;
#elif defined(KOKKOS_ENABLE_CUDA)
    return std::is_same_v<ExecutionSpace, Kokkos::Cuda> && !Kokkos::Tools::profileLibraryLoaded();
#else
    return false;
#endif
  }
  std::unique_ptr<LaunchGraph> record([[maybe_unused]] Lane const& lane,
                                      [[maybe_unused]] std::function<void()> const& launch) const override {
#if defined(KOKKOS_ENABLE_CUDA)
    if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>)
      return record_graph(instance_of<ExecutionSpace>(lane), launch);
#endif
    return nullptr;
  }

private:
  using Device = typename ExecutionSpace::memory_space;
  using Host = HostOf<ExecutionSpace>;

  template <class MemorySpace>
  static DeviceBytes bytes_of(Bytes<MemorySpace> const& memory) {
    return {std::shared_ptr<std::byte>(memory.data(), [memory](std::byte const* /*bytes*/) {}), memory.size()};
  }
  template <class MemorySpace>
  static DeviceBytes allocate_in(std::string const& label, std::size_t bytes) {
    return bytes_of(Bytes<MemorySpace>(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes));
  }
  template <class MemorySpace>
  static void make_room_in(Lane const& lane, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                           std::string const& label) {
    if (bytes.size() >= count * number_bytes) return;
    auto const lock = BesideRecordings::not_while_recording();
    bytes = {}; // frees the old memory before new memory is allocated
    auto const room = Kokkos::view_alloc(instance_of<ExecutionSpace>(lane), Kokkos::WithoutInitializing, label);
    bytes = bytes_of(Bytes<MemorySpace>(room, (count + count / 16) * number_bytes));
  }
};

template <class... Spaces>
DeviceMemory const* find(Backend wanted, SpaceList<Spaces...> /*spaces*/) {
  DeviceMemory const* found = nullptr;
  auto const look = [&]<class ExecutionSpace>(std::type_identity<ExecutionSpace>) {
    static DeviceMemoryOf<ExecutionSpace> const memory;
    if (wanted == to_backend<ExecutionSpace>()) found = &memory;
  };
  (look(std::type_identity<Spaces>()), ...);
  return found;
}

} // namespace

Backend backend_of_host(Backend backend) {
  return has_own_memory(backend) ? to_backend<Kokkos::DefaultHostExecutionSpace>() : backend;
}

DeviceMemory const& device_memory(Backend backend) {
  auto const* const memory = find(backend, CompiledSpaces());
  if (memory == nullptr) throw std::logic_error("varve: this build has no backend " + to_string(backend));
  return *memory;
}

} // namespace varve
