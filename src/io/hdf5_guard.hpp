#pragma once

#include "core/error.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

/// Protection against broken HDF5 files. HDF5 trusts the content of a file: one changed byte can cause a segmentation
/// fault, an endless loop or an allocation of gigabytes.
namespace varve::hdf5 {

/// Runs `walk`, which must read all metadata that the caller is going to read, in a child process with limits on
/// processor time, wall-clock time and memory. Throws InputError with the error of the walk or, if the child did not
/// survive, with the reason. A file is not tried again while its size and times are unchanged. Call it under lock();
/// `walk` must not lock again, because the lock belongs to the parent's thread.
///
/// The child is a fork that calls nothing but HDF5 and the allocator, and leaves through _exit. The lock keeps other
/// threads out of HDF5, and the C library keeps its allocator usable in the child of a multithreaded process, so this
/// is safe beside MPI, OpenMP and CUDA, whose state the child never touches. The varve command still tries the files on
/// its command line before it starts any of these.
void try_out(std::filesystem::path const& path, std::function<void()> const& walk);

/// True if the metadata of a file carries checksums, as in the files that Varve writes: HDF5 itself refuses such
/// metadata if it is broken. The only exception is text of variable length, which lies in a heap without checksums.
bool has_checksums(std::filesystem::path const& path);

/// Thrown when text of variable length is found in a file that was not tried out.
class UntriedText : public InputError {
  using InputError::InputError;
};

/// Throws UntriedText unless the file of this object was tried out, or is being tried out by this process.
void require_tried(hid_t object);

/// Returns work(), which reads metadata of a file, and calls try_out before it where needed: always if the file lacks
/// checksums, else only if `work` finds text of variable length, in which case `work` is called twice. Throws as
/// try_out and `work` do.
template <class Work>
auto guarded(std::filesystem::path const& path, std::function<void()> const& walk, Work const& work) {
  if (!has_checksums(path)) try_out(path, walk);
  try {
    return work();
  } catch (UntriedText const&) {
    try_out(path, walk);
  }
  return work();
}

/// Throws InputError "PLACE: ..." if reading any part of a list takes far more memory than the list holds: its chunks
/// are much larger than the list, or most of its elements were never written. `properties` is the creation property
/// list of the dataset.
void require_modest(Dataset const& dataset, Properties const& properties, std::string const& place);

} // namespace varve::hdf5
