#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// Bytes of a device's memory or of its host's, aligned for any number. The last copy of this object frees them.
class DeviceBytes {
public:
  DeviceBytes() = default;
  DeviceBytes(std::shared_ptr<std::byte> bytes, std::size_t size) : bytes_(std::move(bytes)), size_(size) {}

  std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  std::shared_ptr<std::byte> const& owner() const { return bytes_; }

  /// The same as an array of numbers.
  template <class Number>
  Number* as() const {
    return reinterpret_cast<Number*>(data());
  }

private:
  std::shared_ptr<std::byte> bytes_;
  std::size_t size_ = 0;
};

/// An instance of a device's execution space: what it is given is carried out in order, beside other lanes. Kernels run
/// in the instance itself (instance_of(), core/device_lane.hpp).
class Lane {
public:
  virtual ~Lane() = default;
  Lane(Lane const&) = delete;
  Lane& operator=(Lane const&) = delete;

  /// Waits for all that the lane was given.
  virtual void fence(std::string const& label) const = 0;

  /// Copy bytes, between host (pinned, if the host is not to wait) and device or within the device. They do not fence.
  virtual void copy_to_device(void* to, void const* from, std::size_t bytes) const = 0;
  virtual void copy_to_host(void* to, void const* from, std::size_t bytes) const = 0;
  virtual void copy_on_device(void* to, void const* from, std::size_t bytes) const = 0;

protected:
  Lane() = default;
};

/// A point in the work of a lane that other lanes and threads can wait for. On hosts work is done when it was given, so
/// no one waits.
class LaneMark {
public:
  virtual ~LaneMark() = default;

  /// Moves the mark behind all work that the lane was given.
  virtual void set(Lane const& lane) = 0;
  /// Work that the lane is given from now on begins after the mark. A mark that was never set holds nothing back.
  virtual void hold_back(Lane const& lane) const = 0;
  /// Returns when all work before the mark is done. Other threads than that of set() may call it.
  virtual void await() const = 0;
  /// True when all work before the mark is done.
  virtual bool is_reached() const = 0;
};

/// A mark that other processes of this machine can open by its handle: work that they give to their devices waits for
/// the maker's work. The maker alone calls set(). Whoever opened it must be told by other means (a message) that the
/// maker has set it, and calls hold_back() after that and before the maker sets it again.
class PeerMark : public LaneMark {
public:
  virtual std::string handle() const = 0;
};

/// Memory that other processes of this machine can open by its handle. Those who opened it must let it go before its
/// maker does.
class PeerMemory {
public:
  virtual ~PeerMemory() = default;
  PeerMemory(PeerMemory const&) = delete;
  PeerMemory& operator=(PeerMemory const&) = delete;

  virtual std::byte* data() const = 0;
  virtual std::size_t size() const = 0; ///< in bytes, no less than were asked for
  virtual std::string handle() const = 0;

protected:
  PeerMemory() = default;
};

/// How soon a GPU begins the waiting kernels of a lane. Those of an urgent one begin before those of others: short
/// kernels on which others depend would else wait until long ones leave processors free.
enum class LanePriority { ordinary, urgent };

/// Launches and copies that a device starts by one call.
class LaunchGraph {
public:
  virtual ~LaunchGraph() = default;
  virtual void start(Lane const& lane) const = 0; ///< does not fence
};

/// The memory of a device and the copies from and to it, so that code that keeps data there is compiled once for all
/// devices. It also decides what may run while a thread records launches (core/beside_recordings.hpp).
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;

  virtual Backend backend() const = 0;
  /// True if the device is the host, which reads the memory where it is.
  virtual bool is_host() const = 0;

  /// Uninitialized memory of the device. `label`: its name for Kokkos's tools.
  virtual DeviceBytes allocate(std::string const& label, std::size_t bytes) const = 0;
  /// A new array on the device that holds these numbers. Waits for all other work of the device, too, and for the end
  /// of a recording, as the three functions below do.
  template <class Number>
  DeviceBytes upload(std::string const& label, std::vector<Number> const& numbers) const {
    auto bytes = allocate(label, numbers.size() * sizeof(Number));
    copy_and_wait(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }
  /// Copies bytes of the host to the device.
  virtual void copy_and_wait(void* to, void const* from, std::size_t bytes) const = 0;
  /// Copies bytes of the device to the host.
  virtual void bring_and_wait(void* to, void const* from, std::size_t bytes) const = 0;
  /// Sets bytes of the device to 0.
  virtual void clear_and_wait(void* data, std::size_t bytes) const = 0;

  /// Uninitialized memory of the host from which copies to the device are fastest: pinned, if the device is not the
  /// host.
  virtual DeviceBytes allocate_on_host(std::string const& label, std::size_t bytes) const = 0;

  /// Make room for `count` numbers of `number_bytes` each and a sixteenth more, because the next batch may have a few
  /// more, on the device or, pinned, on its host. The contents are lost if the memory must grow. They wait for no other
  /// lane than this one, which must be the caller's own if other threads use the default one: without it, Kokkos copies
  /// what it notes about new memory in the default instance. May be called beside a recording of another thread.
  virtual void make_room(Lane const& lane, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                         std::string const& label) const = 0;
  virtual void make_room_on_host(Lane const& lane, DeviceBytes& bytes, std::size_t count, std::size_t number_bytes,
                                 std::string const& label) const = 0;

  /// Host memory from which a device copies, not freed by its owner's end: any thread asks for it and frees it, beside
  /// recordings. allocate_ahead() returns null or throws std::bad_alloc if there is none.
  virtual void* allocate_ahead(std::size_t bytes) const = 0;
  virtual void free_ahead(void* address) const = 0;

  /// The default instance.
  virtual std::unique_ptr<Lane> default_lane() const = 0;
  /// A lane whose copies overlap the kernels of others. On hosts, where work is done when it was given, it is the
  /// default instance.
  virtual std::unique_ptr<Lane> new_lane() const = 0;
  /// The same on a stream that no other lane waits for and that waits for no other; Kokkos makes no such instances.
  virtual std::unique_ptr<Lane> independent_lane(LanePriority priority) const = 0;
  /// The lane of a caller's instance, at the address of an object of its Kokkos execution space.
  virtual std::unique_ptr<Lane> lane_of(void const* instance) const = 0;

  virtual std::unique_ptr<LaneMark> new_mark() const = 0;

  /// Memory and marks for other processes, and those of handles. Throw ResourceError, saying why, if the device or the
  /// machine does not grant them, or if they cannot be opened.
  virtual std::unique_ptr<PeerMemory> new_peer_memory(std::size_t bytes) const = 0;
  virtual std::unique_ptr<PeerMemory> open_peer_memory(std::string const& handle) const = 0;
  virtual std::unique_ptr<PeerMark> new_peer_mark() const = 0;
  virtual std::unique_ptr<PeerMark> open_peer_mark(std::string const& handle) const = 0;
  /// How far the device of an identity (device_identity()) is from this one: a number that orders devices, smaller is
  /// nearer; 0 on hosts.
  virtual int distance_to(std::string const& identity) const = 0;

  /// True if launches can be recorded: on NVIDIA GPUs, where the host starts a graph by one call (a launch costs the
  /// host about 6 us and a graph's node a GPU 1 to 2 us, and most kernels of narrow layers take less than that), unless
  /// a Kokkos tool is there, which sees calls only, or bounds are checked, for which launches hold sizes of arrays.
  /// (Kokkos 4.5 records no streams.)
  virtual bool can_record() const = 0;
  /// What `launch` launches and copies on this lane, which nothing else may use meanwhile: what other threads launch,
  /// copy or fence there would get into the recording, or end it. Null, with nothing launched, if the recording fails,
  /// such as when launch() throws or a library that knows nothing of this one waits for the device (BesideRecordings).
  virtual std::unique_ptr<LaunchGraph> record(Lane const& lane, std::function<void()> const& launch) const = 0;
};

/// The backend of this build that uses the host beside a device: a CPU backend is its own.
Backend backend_of_host(Backend backend);

/// The memory of a backend of this build.
DeviceMemory const& device_memory(Backend backend);

} // namespace varve
