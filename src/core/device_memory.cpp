#include "core/device_memory.hpp"

#include "core/device_stream.hpp"
#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/gpu.hpp"
#include "core/printable.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace varve {
namespace {

template <class MemorySpace>
using Bytes = Kokkos::View<std::byte*, MemorySpace>;
template <class MemorySpace>
using Part = Kokkos::View<std::byte*, MemorySpace, Kokkos::MemoryUnmanaged>;
template <class MemorySpace>
using ConstPart = Kokkos::View<std::byte const*, MemorySpace, Kokkos::MemoryUnmanaged>;

/// The host memory from which copies to a device are fastest.
template <class ExecutionSpace>
using HostOf = std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>;

template <class ExecutionSpace>
class StreamOn : public DeviceStream<ExecutionSpace> {
public:
  explicit StreamOn(ExecutionSpace space) : DeviceStream<ExecutionSpace>(std::move(space)) {}

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

/// Marks of a host, whose streams complete work before they return.
class HostMark final : public PeerMark {
public:
  HostMark() = default;
  explicit HostMark(std::string const& /*handle*/) {}
  void share() {}

  std::string handle() const override { return {}; }
  void set(Stream const& /*stream*/) override {}
  void make_wait(Stream const& /*stream*/) const override {}
  void await() const override {}
  bool is_reached() const override { return true; }
};

/// A random number after shared memory, by which those who open it know that it is the right one.
using Seal = std::array<std::uint64_t, 2>;

Seal new_seal() {
  std::random_device random;
  auto const word = [&] { return (std::uint64_t{random()} << 32U) | random(); };
  return {word(), word()};
}

/// Host memory that other processes of this machine can open by its handle: an anonymous file in memory (memfd), which
/// occupies only the pages that were written. It exists until all processes have closed it. (A shared window of MPI is
/// in /dev/shm, which containers often limit to 64 MB.)
class SharedHostMemory final : public PeerMemory {
public:
  /// Zero-initialized memory. Throws ResourceError if the system grants none.
  explicit SharedHostMemory(std::size_t bytes) : size_((bytes + sizeof(Seal) - 1) / sizeof(Seal) * sizeof(Seal)) {
    file_ = memfd_create("varve", MFD_CLOEXEC);
    if (file_ < 0) fail("the system grants no memory that processes can share", errno);
    if (ftruncate(file_, static_cast<off_t>(size_ + sizeof(Seal))) != 0)
      fail("the system grants no " + std::to_string(size_) + " bytes that processes can share", errno);
    map();
    auto const seal = new_seal();
    std::memcpy(data_ + size_, seal.data(), sizeof(seal));
    std::ostringstream text;
    text << getpid() << ' ' << file_ << ' ' << size_ << ' ' << seal[0] << ' ' << seal[1];
    handle_ = text.str();
  }

  /// The memory of a handle. Throws ResourceError, naming the reason, if it cannot be opened or is other memory, which
  /// happens if processes have different views of the machine.
  explicit SharedHostMemory(std::string const& handle) : handle_(handle) {
    std::istringstream text(handle);
    std::int64_t process = 0;
    int number = 0;
    Seal seal{};
    text >> process >> number >> size_ >> seal[0] >> seal[1];
    if (!text) throw ResourceError("'" + handle + "' is no handle of shared memory");
    auto const memory = "the memory of process " + std::to_string(process);
    auto const path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
    file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file_ < 0) fail(memory + " is closed", errno);
    bool const has_size = lseek(file_, 0, SEEK_END) == static_cast<off_t>(size_ + sizeof(Seal));
    if (has_size) map();
    if (has_size && std::memcmp(data_ + size_, seal.data(), sizeof(seal)) == 0) return;
    release();
    throw ResourceError(memory + " is another one");
  }
  ~SharedHostMemory() override { release(); }

  std::byte* data() const override { return data_; } ///< aligned to a page
  std::size_t size() const override { return size_; }
  std::string handle() const override { return handle_; }

private:
  void map() {
    auto const bytes = size_ + sizeof(Seal);
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (mapped == MAP_FAILED)
      fail("the system maps no " + std::to_string(bytes) + " bytes that processes share", errno);
    madvise(mapped, bytes, MADV_HUGEPAGE); // takes effect if huge pages are enabled for madvise
    data_ = static_cast<std::byte*>(mapped);
  }

  void release() const {
    if (data_ != nullptr) munmap(data_, size_ + sizeof(Seal));
    if (file_ >= 0) close(file_);
  }

  [[noreturn]] void fail(std::string const& what, int error) const {
    release();
    throw ResourceError(what + ": " + std::generic_category().message(error));
  }

  int file_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string handle_;
};

/// Types that DeviceMemoryOf uses on hosts.
template <class ExecutionSpace, bool OnHost = kOnHost<ExecutionSpace>>
struct PartsOf {
  using Mark = HostMark;
  using Shared = SharedHostMemory;
};

#if defined(VARVE_GPU)

using gpu::check;
using gpu::failure;

/// Throws ResourceError, beginning with `what`, if `why`, a failure of the GPU's runtime library, is not empty.
void require(std::string const& why, std::string const& what) {
  if (!why.empty()) throw ResourceError(what + ": " + why);
}

template <class Value>
std::string_view bytes_of(Value const& value) {
  return {reinterpret_cast<char const*>(&value), sizeof(value)};
}

/// An event without timing. A thread that waits for it sleeps.
class GpuMark final : public PeerMark {
public:
  GpuMark() = default; // set() creates the event
  /// The mark of a handle. Throws ResourceError if the handle is not valid.
  explicit GpuMark(std::string const& handle) : is_set_(true) {
    auto const bytes = from_hexadecimal(handle);
    if (bytes.size() != sizeof(handle_)) throw ResourceError("'" + handle + "' is no handle of a mark of a GPU");
    std::memcpy(&handle_, bytes.data(), sizeof(handle_));
    require(failure(VARVE_GPU(IpcOpenEventHandle)(&event_, handle_)), "a mark of its GPU cannot be opened");
  }
  ~GpuMark() override {
    if (event_ != nullptr) static_cast<void>(VARVE_GPU(EventDestroy)(event_));
  }
  GpuMark(GpuMark const&) = delete;
  GpuMark& operator=(GpuMark const&) = delete;

  /// Creates the handle of the mark. Throws ResourceError if processes cannot share it.
  void share() {
    require(failure(make(VARVE_GPU(EventInterprocess))), "the GPU grants no mark that processes share");
    require(failure(VARVE_GPU(IpcGetEventHandle)(&handle_, event_)), "processes cannot share marks of this GPU");
  }
  std::string handle() const override { return hexadecimal(bytes_of(handle_)); }

  void set(Stream const& stream) override {
    if (event_ == nullptr) check(make(VARVE_GPU(EventBlockingSync)));
    device_ = gpu::device_of(instance_of<gpu::Space>(stream));
    check(VARVE_GPU(EventRecord)(event_, native_of(stream)));
    is_set_ = true;
  }
  void make_wait(Stream const& stream) const override {
    if (is_set_) check(VARVE_GPU(StreamWaitEvent)(native_of(stream), event_, 0));
  }
  void await() const override {
    if (!is_set_) return;
    check(VARVE_GPU(SetDevice)(device_)); // a new thread uses the first device
    check(VARVE_GPU(EventSynchronize)(event_));
  }
  bool is_reached() const override {
    if (!is_set_) return true;
    auto const status = VARVE_GPU(EventQuery)(event_);
    if (status != VARVE_GPU(ErrorNotReady)) check(status);
    return status == VARVE_GPU(Success);
  }

private:
  using Event = VARVE_GPU(Event_t);
  using Handle = VARVE_GPU(IpcEventHandle_t);
  using Status = VARVE_GPU(Error_t);
  using NativeStream = VARVE_GPU(Stream_t);

  Status make(unsigned kind) { return VARVE_GPU(EventCreateWithFlags)(&event_, VARVE_GPU(EventDisableTiming) | kind); }
  static NativeStream native_of(Stream const& stream) { return gpu::stream_of(instance_of<gpu::Space>(stream)); }

  Event event_ = nullptr;
  Handle handle_{};
  int device_ = 0;
  bool is_set_ = false;
};

/// Memory of the GPU in use in a separate allocation: memory that Kokkos allocates may come from a pool that other
/// processes cannot open.
class GpuPeerMemory final : public PeerMemory {
public:
  /// Throws ResourceError if the memory is not available, or if the machine does not let processes share it.
  explicit GpuPeerMemory(std::size_t bytes) : size_(bytes), is_made_here_(true) {
    // an allocation of whole pages shares no page with others
    auto const whole = (bytes + sizeof(Seal) + page - 1) / page * page;
    require(failure(VARVE_GPU(Malloc)(&data_, whole)), "the GPU grants no " + std::to_string(whole) + " bytes");
    seal_ = new_seal();
    auto why = copy(behind(), seal_.data());
    if (why.empty()) why = failure(VARVE_GPU(IpcGetMemHandle)(&memory_, data_));
    if (why.empty()) return;
    free();
    throw ResourceError("processes cannot share memory of this GPU: " + why);
  }

  /// The memory of a handle. Throws ResourceError, naming the reason, if it cannot be opened or copied from.
  explicit GpuPeerMemory(std::string const& handle) {
    auto const bytes = from_hexadecimal(handle);
    if (bytes.size() != sizeof(size_) + sizeof(seal_) + sizeof(memory_))
      throw ResourceError("'" + handle + "' is no handle of memory of a GPU");
    std::memcpy(&size_, bytes.data(), sizeof(size_));
    std::memcpy(&seal_, bytes.data() + sizeof(size_), sizeof(seal_));
    std::memcpy(&memory_, bytes.data() + sizeof(size_) + sizeof(seal_), sizeof(memory_));
    require(failure(VARVE_GPU(IpcOpenMemHandle)(&data_, memory_, VARVE_GPU(IpcMemLazyEnablePeerAccess))),
            "memory of its GPU cannot be opened");
    Seal found{};
    auto const why = copy(found.data(), behind());
    if (why.empty() && found == seal_) return;
    free();
    throw ResourceError("a copy from its GPU fails: " + (why.empty() ? "it gives other numbers" : why));
  }
  ~GpuPeerMemory() override { free(); }

  std::byte* data() const override { return static_cast<std::byte*>(data_); }
  std::size_t size() const override { return size_; }
  std::string handle() const override {
    return hexadecimal(bytes_of(size_)) + hexadecimal(bytes_of(seal_)) + hexadecimal(bytes_of(memory_));
  }

private:
  using Handle = VARVE_GPU(IpcMemHandle_t);

  static constexpr std::size_t page = std::size_t{1} << 21U;

  std::byte* behind() const { return data() + size_; }

  void free() {
    static_cast<void>(failure(is_made_here_ ? VARVE_GPU(Free)(data_) : VARVE_GPU(IpcCloseMemHandle)(data_)));
  }

  /// Copies a seal and waits until it has arrived: a plain copy from the host may return while the bytes are in flight
  /// to the GPU, and another process would not see them.
  static std::string copy(void* to, void const* from) {
    auto why = failure(VARVE_GPU(Memcpy)(to, from, sizeof(Seal), VARVE_GPU(MemcpyDefault)));
    return why.empty() ? failure(VARVE_GPU(StreamSynchronize)(nullptr)) : why;
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
  Seal seal_{};
  Handle memory_{};
  bool is_made_here_ = false;
};

/// Types that DeviceMemoryOf uses on GPUs.
template <class ExecutionSpace>
struct PartsOf<ExecutionSpace, false> {
  using Mark = GpuMark;
  using Shared = GpuPeerMemory;

  class IndependentStream final : public StreamOn<ExecutionSpace> {
  public:
    explicit IndependentStream(StreamPriority priority) : IndependentStream(new_native(priority)) {}
    ~IndependentStream() override {
      this->space_ = ExecutionSpace(); // the instance is destroyed before its stream
      static_cast<void>(VARVE_GPU(StreamDestroy)(stream_));
    }
    IndependentStream(IndependentStream const&) = delete;
    IndependentStream& operator=(IndependentStream const&) = delete;

  private:
    using NativeStream = VARVE_GPU(Stream_t);

    explicit IndependentStream(NativeStream stream)
        : StreamOn<ExecutionSpace>(ExecutionSpace(stream)), stream_(stream) {}

    static NativeStream new_native(StreamPriority priority) {
      int least = 0;
      int greatest = 0;
      NativeStream stream = nullptr;
      check(VARVE_GPU(DeviceGetStreamPriorityRange)(&least, &greatest));
      check(VARVE_GPU(StreamCreateWithPriority)(&stream, VARVE_GPU(StreamNonBlocking),
                                                priority == StreamPriority::urgent ? greatest : least));
      return stream;
    }

    NativeStream stream_;
  };
};

#endif

#if defined(KOKKOS_ENABLE_CUDA)

class CudaGraph final : public LaunchGraph {
public:
  explicit CudaGraph(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }

  void start(Stream const& stream) const override {
    check(cudaGraphLaunch(graph_, instance_of<Kokkos::Cuda>(stream).cuda_stream()));
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
      } catch (...) { // launch() throws the same when it is called without a recording
      }
      is_whole = cudaStreamEndCapture(space.cuda_stream(), &recorded) == cudaSuccess && is_whole;
      if (is_whole && cudaGraphInstantiateWithFlags(&graph, recorded, 0) != cudaSuccess) graph = nullptr;
    }
  }
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  if (graph != nullptr) return std::make_unique<CudaGraph>(graph);
  static_cast<void>(cudaGetLastError()); // clears the error, so that the next call does not report it
  return nullptr;
}

#endif

template <class ExecutionSpace>
class DeviceMemoryOf final : public DeviceMemory {
public:
  explicit DeviceMemoryOf(Backend backend) : backend_(backend) {}

  Backend backend() const override { return backend_; }
  bool is_host() const override { return kOnHost<ExecutionSpace>; }
  int num_processors() const override { return varve::num_processors(instance_of_backend<ExecutionSpace>(backend_)); }

  DeviceBytes allocate(std::string const& label, std::size_t bytes) const override {
    return allocate_in<Device>(label, bytes);
  }
  void copy_and_wait(void* to, void const* from, std::size_t bytes) const override {
    varve::copy_and_wait(Part<Device>(static_cast<std::byte*>(to), bytes),
                         ConstPart<Kokkos::HostSpace>(static_cast<std::byte const*>(from), bytes));
  }
  void copy_to_host_and_wait(void* to, void const* from, std::size_t bytes) const override {
    varve::copy_and_wait(Part<Kokkos::HostSpace>(static_cast<std::byte*>(to), bytes),
                         ConstPart<Device>(static_cast<std::byte const*>(from), bytes));
  }
  void clear_and_wait(void* data, std::size_t bytes) const override {
    varve::copy_and_wait(Part<Device>(static_cast<std::byte*>(data), bytes), std::byte{0});
  }
  DeviceBytes allocate_on_host(std::string const& label, std::size_t bytes) const override {
    return allocate_in<Host>(label, bytes);
  }

  void make_room(Stream const& stream, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                 std::string const& label) const override {
    make_room_in<Device>(stream, bytes, count, number_bytes, label);
  }
  void make_room_on_host(Stream const& stream, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                         std::string const& label) const override {
    make_room_in<Host>(stream, bytes, count, number_bytes, label);
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

  std::unique_ptr<Stream> default_stream() const override {
    return std::make_unique<StreamOn<ExecutionSpace>>(instance_of_backend<ExecutionSpace>(backend_));
  }
  std::unique_ptr<Stream> new_stream() const override {
    if constexpr (kOnHost<ExecutionSpace>) return default_stream();
    return std::make_unique<StreamOn<ExecutionSpace>>(Kokkos::Experimental::partition_space(ExecutionSpace(), 1)[0]);
  }
  std::unique_ptr<Stream> independent_stream([[maybe_unused]] StreamPriority priority) const override {
    if constexpr (kOnHost<ExecutionSpace>) {
      return default_stream();
    } else {
      return std::make_unique<typename PartsOf<ExecutionSpace>::IndependentStream>(priority);
    }
  }
  std::unique_ptr<Stream> stream_of(void const* instance) const override {
    if (backend_ != to_backend<ExecutionSpace>()) return default_stream(); // the work of Serial is complete anyway
    return std::make_unique<StreamOn<ExecutionSpace>>(*static_cast<ExecutionSpace const*>(instance));
  }

  std::unique_ptr<StreamMark> new_mark() const override { return std::make_unique<Mark>(); }

  std::unique_ptr<PeerMemory> new_peer_memory(std::size_t bytes) const override {
    return std::make_unique<Shared>(bytes);
  }
  std::unique_ptr<PeerMemory> open_peer_memory(std::string const& handle) const override {
    return std::make_unique<Shared>(handle);
  }
  std::unique_ptr<PeerMark> new_peer_mark() const override {
    auto mark = std::make_unique<Mark>();
    mark->share();
    return mark;
  }
  std::unique_ptr<PeerMark> open_peer_mark(std::string const& handle) const override {
    return std::make_unique<Mark>(handle);
  }
  int distance_to(std::string const& identity) const override {
    return kOnHost<ExecutionSpace> ? 0 : gpu::distance_to(from_hexadecimal(identity));
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
  std::unique_ptr<LaunchGraph> record([[maybe_unused]] Stream const& stream,
                                      [[maybe_unused]] std::function<void()> const& launch) const override {
#if defined(KOKKOS_ENABLE_CUDA)
    if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>)
      return record_graph(instance_of<ExecutionSpace>(stream), launch);
#endif
    return nullptr;
  }

private:
  Backend backend_;

  using Device = typename ExecutionSpace::memory_space;
  using Host = HostOf<ExecutionSpace>;
  using Mark = typename PartsOf<ExecutionSpace>::Mark;
  using Shared = typename PartsOf<ExecutionSpace>::Shared;

  template <class MemorySpace>
  static DeviceBytes bytes_of(Bytes<MemorySpace> const& memory) {
    return {std::shared_ptr<std::byte>(memory.data(), [memory](std::byte const* /*bytes*/) {}), memory.data(),
            memory.size()};
  }
  template <class MemorySpace>
  static DeviceBytes allocate_in(std::string const& label, std::size_t bytes) {
    return bytes_of(Bytes<MemorySpace>(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes));
  }
  template <class MemorySpace>
  static void make_room_in(Stream const& stream, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                           std::string const& label) {
    if (bytes.size() >= count * number_bytes) return;
    auto const lock = BesideRecordings::not_while_recording();
    bytes = {}; // frees the old memory before new memory is allocated
    auto const room = Kokkos::view_alloc(instance_of<ExecutionSpace>(stream), Kokkos::WithoutInitializing, label);
    bytes = bytes_of(Bytes<MemorySpace>(room, (count + count / 16) * number_bytes));
  }
};

template <class ExecutionSpace, Backend backend = to_backend<ExecutionSpace>()>
DeviceMemory const& memory_of() {
  static DeviceMemoryOf<ExecutionSpace> const memory(backend);
  return memory;
}

template <class... Spaces>
DeviceMemory const* find(Backend wanted, SpaceList<Spaces...> /*spaces*/) {
  if (wanted == Backend::serial) return &memory_of<Kokkos::DefaultHostExecutionSpace, Backend::serial>();
  DeviceMemory const* found = nullptr;
  ((wanted == to_backend<Spaces>() ? void(found = &memory_of<Spaces>()) : void()), ...);
  return found;
}

} // namespace

Backend backend_of_host(Backend backend) {
  return has_own_memory(backend) ? backend_of_kernels(Backend::serial) : backend;
}

DeviceMemory const& device_memory(Backend backend) {
  auto const* const memory = find(backend, CompiledSpaces());
  if (memory == nullptr) throw std::logic_error("varve: this build has no backend " + to_string(backend));
  return *memory;
}

} // namespace varve
