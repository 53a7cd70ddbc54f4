#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// An array of numbers in the memory of a device or of its host, or a part of another such array. The memory, which is
/// aligned for any number, lives as long as one of its arrays.
template <class Number>
class DeviceNumbers {
public:
  DeviceNumbers() = default;
  DeviceNumbers(std::shared_ptr<std::byte> owner, Number* data, std::size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}
  template <class Other>
  requires std::is_same_v<Number, Other const> DeviceNumbers(DeviceNumbers<Other> const& other)
      : owner_(other.owner()), data_(other.data()), size_(other.size()) {}

  Number* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t num_bytes() const { return size_ * sizeof(Number); }
  std::shared_ptr<std::byte> const& owner() const { return owner_; }

  /// The numbers [first, last).
  DeviceNumbers part(std::size_t first, std::size_t last) const { return {owner_, data_ + first, last - first}; }

  /// The same memory as numbers of another type.
  template <class Other>
  Other* as() const {
    return reinterpret_cast<Other*>(data_);
  }

private:
  std::shared_ptr<std::byte> owner_;
  Number* data_ = nullptr;
  std::size_t size_ = 0;
};

using DeviceBytes = DeviceNumbers<std::byte>;

/// An instance of a device's execution space: its work runs in order, concurrently with other streams. Kernels run in
/// the instance (instance_of(), core/device_stream.hpp).
class Stream {
public:
  virtual ~Stream() = default;
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;

  /// Waits for all work enqueued on the stream.
  virtual void fence(std::string const& label) const = 0;

  /// Copy bytes between host and device or within the device. They do not fence, but wait if host memory is not pinned.
  virtual void copy_to_device(void* to, void const* from, std::size_t bytes) const = 0;
  virtual void copy_to_host(void* to, void const* from, std::size_t bytes) const = 0;
  virtual void copy_on_device(void* to, void const* from, std::size_t bytes) const = 0;

protected:
  Stream() = default;
};

/// A point in the work of a stream that other streams and threads can wait for. On hosts, work is complete when the
/// call that enqueues it returns, so waits return immediately.
class StreamMark {
public:
  virtual ~StreamMark() = default;

  /// Moves the mark after all work enqueued on the stream so far.
  virtual void set(Stream const& stream) = 0;
  /// Work enqueued on this stream from now on waits for the mark. A mark that was never set holds nothing back.
  virtual void make_wait(Stream const& stream) const = 0;
  /// Returns when all work before the mark is complete. Any thread may call it.
  virtual void await() const = 0;
  /// True if all work before the mark is complete.
  virtual bool is_reached() const = 0;
};

/// A mark that other processes of this machine can open by its handle; work on their devices can then wait for the
/// maker's work. Only the maker calls set(). A message must tell the other process that the mark is set; that process
/// must call make_wait() after the message and before the maker sets the mark again.
class PeerMark : public StreamMark {
public:
  virtual std::string handle() const = 0;
};

/// Memory that other processes of this machine can open by its handle. All of them must close it before its maker frees
/// it.
class PeerMemory {
public:
  virtual ~PeerMemory() = default;
  PeerMemory(PeerMemory const&) = delete;
  PeerMemory& operator=(PeerMemory const&) = delete;

  virtual std::byte* data() const = 0;
  virtual std::size_t size() const = 0; ///< bytes, at least as many as requested
  virtual std::string handle() const = 0;

protected:
  PeerMemory() = default;
};

/// Scheduling priority of a stream's waiting kernels on a GPU. Urgent ones start first: otherwise short kernels on
/// which others depend would wait until long kernels leave processors idle.
enum class StreamPriority { ordinary, urgent };

/// Launches and copies that a device starts by a single call.
class LaunchGraph {
public:
  virtual ~LaunchGraph() = default;
  virtual void start(Stream const& stream) const = 0; ///< does not fence
};

/// The memory of a device and copies from and to it, so that code that stores data there is compiled once for all
/// devices. Recordings of launches restrict what other threads may do: see core/device_stream.hpp.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;

  virtual Backend backend() const = 0;
  /// True if the device is the host, which uses the memory in place.
  virtual bool is_host() const = 0;
  /// The number of processors for which launches in the default stream are sized (num_processors(),
  /// core/execution.hpp).
  virtual int num_processors() const = 0;

  /// Uninitialized memory of the device. `label`: its name for Kokkos's tools.
  virtual DeviceBytes allocate(std::string const& label, std::size_t bytes) const = 0;
  /// Copies bytes of the host to the device. This function and the two below wait for all other work of the device and
  /// for the end of a recording.
  virtual void copy_and_wait(void* to, void const* from, std::size_t bytes) const = 0;
  /// Copies bytes of the device to the host.
  virtual void copy_to_host_and_wait(void* to, void const* from, std::size_t bytes) const = 0;
  /// Sets bytes of the device to 0.
  virtual void clear_and_wait(void* data, std::size_t bytes) const = 0;

  /// Uninitialized host memory from which copies to the device are fastest: pinned, unless the device is the host.
  virtual DeviceBytes allocate_on_host(std::string const& label, std::size_t bytes) const = 0;

  /// Make room for `count` numbers of `number_bytes` bytes each on the device or, pinned, on its host, and for a
  /// sixteenth more, because the next batch may be larger. If the memory must grow, its contents are lost, and the call
  /// waits for the end of a recording. It waits for no stream but this one, which must not be the default stream if
  /// other threads use that: Kokkos initializes metadata of new memory on it.
  virtual void make_room(Stream const& stream, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                         std::string const& label) const = 0;
  virtual void make_room_on_host(Stream const& stream, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                                 std::string const& label) const = 0;

  /// Host memory from which the device copies, freed explicitly. Any thread may allocate and free it, also during
  /// recordings. allocate_ahead() returns null or throws std::bad_alloc if there is none.
  virtual void* allocate_ahead(std::size_t bytes) const = 0;
  virtual void free_ahead(void* address) const = 0;

  /// The default instance.
  virtual std::unique_ptr<Stream> default_stream() const = 0;
  /// A stream whose copies overlap the kernels of other streams. On hosts, where work is complete when it was enqueued,
  /// the default instance.
  virtual std::unique_ptr<Stream> new_stream() const = 0;
  /// The same on a stream that does not synchronize with other streams. Kokkos creates no such instances.
  virtual std::unique_ptr<Stream> independent_stream(StreamPriority priority) const = 0;
  /// The stream of a caller's instance, at the address of an object of its Kokkos execution space.
  virtual std::unique_ptr<Stream> stream_of(void const* instance) const = 0;

  virtual std::unique_ptr<StreamMark> new_mark() const = 0;

  /// Memory and marks that other processes can open, and those opened by a handle. Throw ResourceError, naming the
  /// reason, if the device or the machine does not provide them, or if they cannot be opened.
  virtual std::unique_ptr<PeerMemory> new_peer_memory(std::size_t bytes) const = 0;
  virtual std::unique_ptr<PeerMemory> open_peer_memory(std::string const& handle) const = 0;
  virtual std::unique_ptr<PeerMark> new_peer_mark() const = 0;
  virtual std::unique_ptr<PeerMark> open_peer_mark(std::string const& handle) const = 0;
  /// Distance of the device with this identity (device_identity()) from this one: a number for ordering devices,
  /// smaller is nearer; 0 on hosts.
  virtual int distance_to(std::string const& identity) const = 0;

  /// True if launches can be recorded: on NVIDIA GPUs, where one host call starts a graph. (A launch costs the host
  /// about 6 us, a node of a graph costs the GPU 1 to 2 us; most kernels of narrow layers take less.) False if a Kokkos
  /// tool is loaded, which sees calls only, or if bounds are checked, because launches then hold sizes of arrays.
  /// (Kokkos 4.5 records no streams.)
  virtual bool can_record() const = 0;
  /// Records what `launch` launches and copies on this stream. No other thread may use the stream meanwhile: its work
  /// would be recorded, or end the recording. Returns null, with nothing launched, if the recording fails, for example
  /// because launch() throws or a library that ignores BesideRecordings waits for the device.
  virtual std::unique_ptr<LaunchGraph> record(Stream const& stream, std::function<void()> const& launch) const = 0;
};

/// The backend of this build that runs on the host of a device; a CPU backend is its own.
Backend backend_of_host(Backend backend);

/// The memory of a backend of this build. Throws std::logic_error if the build lacks the backend.
DeviceMemory const& device_memory(Backend backend);

/// The memory as an array of numbers.
template <class Number>
DeviceNumbers<Number> numbers_in(DeviceBytes const& bytes) {
  return {bytes.owner(), bytes.as<Number>(), bytes.size() / sizeof(Number)};
}

/// A new array on the device, not initialized.
template <class Number>
DeviceNumbers<Number> new_numbers(DeviceMemory const& memory, std::string const& label, std::size_t size) {
  return numbers_in<Number>(memory.allocate(label, size * sizeof(Number)));
}

/// A new array of zeros on the device.
template <class Number>
DeviceNumbers<Number> new_zeros(DeviceMemory const& memory, std::string const& label, std::size_t size) {
  auto const numbers = new_numbers<Number>(memory, label, size);
  memory.clear_and_wait(numbers.data(), numbers.num_bytes());
  return numbers;
}

/// A new array on the device with a copy of these numbers.
template <class Number>
DeviceNumbers<Number> new_copy(DeviceMemory const& memory, std::string const& label,
                               std::vector<Number> const& numbers) {
  auto const array = new_numbers<Number>(memory, label, numbers.size());
  memory.copy_and_wait(array.data(), numbers.data(), array.num_bytes());
  return array;
}

/// A copy of the numbers of a device array in host memory.
template <class Number>
std::vector<std::remove_const_t<Number>> download(DeviceMemory const& memory, DeviceNumbers<Number> const& numbers) {
  std::vector<std::remove_const_t<Number>> found(numbers.size());
  memory.copy_to_host_and_wait(found.data(), numbers.data(), numbers.num_bytes());
  return found;
}

/// An array of zeros on a device with a buffer on the host, pinned unless the device is the host, so that the host need
/// not wait for copies between them.
template <class Number>
class MirroredArray {
public:
  MirroredArray() = default;
  MirroredArray(DeviceMemory const& memory, std::string const& label, std::size_t size)
      : is_host_(memory.is_host()), on_device_(new_zeros<Number>(memory, label, size)) {
    on_host_ =
        is_host_ ? on_device_ : numbers_in<Number>(memory.allocate_on_host(label + "_on_host", size * sizeof(Number)));
  }

  DeviceNumbers<Number> const& on_device() const { return on_device_; }

  /// Element of the host's buffer.
  Number const& operator[](std::size_t i) const { return on_host_.data()[i]; }

  /// Sets the first `count` elements of the host's buffer to number_of(i). No copy may be in flight.
  template <class NumberOf>
  void fill(std::size_t count, NumberOf const& number_of) {
    for (std::size_t i = 0; i < count; ++i) on_host_.data()[i] = number_of(i);
  }

  /// Copies the first `count` elements to the device. Does not fence.
  void send(Stream const& stream, std::size_t count) {
    if (!is_host_) stream.copy_to_device(on_device_.data(), on_host_.data(), count * sizeof(Number));
  }

  /// Copies the first `count` elements to the host's buffer. Does not fence.
  void copy_back(Stream const& stream, std::size_t count) {
    if (!is_host_) stream.copy_to_host(on_host_.data(), on_device_.data(), count * sizeof(Number));
  }

private:
  bool is_host_ = true;
  DeviceNumbers<Number> on_device_, on_host_;
};

} // namespace varve
