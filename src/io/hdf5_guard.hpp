#pragma once

#include "core/error.hpp"
#include "io/hdf5.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

/// Protection against broken HDF5 files. HDF5 trusts the content of a file: one changed byte can cause a segmentation
/// fault, an endless loop or an allocation of gigabytes.
namespace varve::hdf5 {

/// Share `number` of `count` equal shares of a walk.
struct Share {
  std::size_t number = 0;
  std::size_t count = 1;

  /// The range of the items 0 to num_items - 1 that belongs to this share.
  std::pair<std::size_t, std::size_t> range(std::size_t num_items) const {
    return {num_items * number / count, num_items * (number + 1) / count};
  }
};

/// A walk through a file, which reads all metadata that the caller is going to read: all shares together read all of
/// it.
struct Walk {
  std::string what; ///< what is walked through, for example "network": a file is tried once for each
  std::function<void(Share)> run;
};

/// Runs the shares of a walk in child processes, side by side if the file is large, with limits on
/// processor time, wall-clock time and memory. Throws InputError with the error of the first share that failed or, if a
/// child did not survive, with the reason. A file is not tried again with a walk through the same while its size and
/// times are unchanged. Call it under lock(); the walk must not lock again, because the lock belongs to the parent's
/// thread.
///
/// A child is a fork that calls nothing but HDF5 and the allocator, and leaves through _exit. The lock keeps other
/// threads out of HDF5, and the C library keeps its allocator usable in the child of a multithreaded process, so this
/// is safe beside MPI, OpenMP and CUDA, whose state a child never touches. The varve command still tries the files on
/// its command line before it starts any of these.
void try_out(std::filesystem::path const& path, Walk const& walk);

/// True if the metadata of a file carries checksums, as in the files that Varve writes: HDF5 itself refuses such
/// metadata if it is broken. The only exception is text of variable length, which lies in a heap without checksums.
bool has_checksums(std::filesystem::path const& path);

/// Thrown when text of variable length is found in a file that was not tried out.
class UntriedText : public InputError {
  using InputError::InputError;
};

/// Says, while it exists, which walk must have been through a file before text of variable length is read from it.
class NeedsWalk {
public:
  explicit NeedsWalk(std::string what);
  ~NeedsWalk();
  NeedsWalk(NeedsWalk const&) = delete;
  NeedsWalk& operator=(NeedsWalk const&) = delete;

private:
  std::string before_;
};

/// Throws UntriedText unless the file of this object was tried out with the walk that is needed (NeedsWalk), or is
/// being tried out by this process.
void require_tried(hid_t object);

/// Returns work(), which reads metadata of a file, and calls try_out before it where needed: always if the file lacks
/// checksums, else only if `work` finds text of variable length, in which case `work` is called twice. Throws as
/// try_out and `work` do.
/// is_checked: has_checksums(), which opens the file, for those who keep its answer.
template <class Work>
auto guarded(std::filesystem::path const& path, bool is_checked, Walk const& walk, Work const& work) {
  NeedsWalk const needs(walk.what);
  if (!is_checked) try_out(path, walk);
  try {
    return work();
  } catch (UntriedText const&) {
    try_out(path, walk);
  }
  return work();
}

template <class Work>
auto guarded(std::filesystem::path const& path, Walk const& walk, Work const& work) {
  return guarded(path, has_checksums(path), walk, work);
}

} // namespace varve::hdf5
