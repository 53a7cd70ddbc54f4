#pragma once

#include "core/error.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

/// What keeps a broken HDF5 file from crashing, stopping or filling this process. HDF5 trusts what a file says of
/// itself: one changed byte can send it into a segmentation fault, an endless loop or an allocation of gigabytes.
namespace varve::hdf5 {

/// Runs `walk`, which reads all metadata of the file that the caller is going to read, in a child process with limits
/// on processor time, clock time and memory. Throws InputError with the error of the walk, or, if the child did not
/// survive it, with what became of it. A file is not tried again while its size and times stay the same.
/// Call it under lock(), which `walk` must not take again: it belongs to the parent's thread.
///
/// The child is a fork that calls HDF5, the allocator and nothing else, and leaves by _exit. The lock keeps other
/// threads out of HDF5, and the C library makes its allocator usable in the child of a process with threads; so this is
/// safe beside MPI, OpenMP and CUDA, whose state the child never touches. The varve command tries the files of its
/// command line before it starts any of these.
void try_out(std::filesystem::path const& path, std::function<void()> const& walk);

/// True if the structures of a file carry checksums, as in the files that Varve writes: HDF5 itself refuses those that
/// are broken. The only exception are texts of variable length, which lie in a heap without any.
bool has_checksums(std::filesystem::path const& path);

/// Thrown where a text of variable length is met in a file that was not tried out.
class UntriedText : public InputError {
  using InputError::InputError;
};

/// Throws UntriedText unless the file of this object was tried out, or is being.
void require_tried(hid_t object);

/// Returns work(), which reads metadata of a file that is tried out before if it has to be: always, if it lacks
/// checksums; else when `work` meets a text of variable length, in which case it is called twice. Throws as try_out and
/// `work`.
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

/// Throws InputError "PLACE: ..." if reading any part of a list takes far more memory than the list has content: its
/// chunks are much larger than all of it, or most of its elements were never written. `properties` are those that it
/// was created with.
void require_modest(Dataset const& dataset, Properties const& properties, std::string const& place);

} // namespace varve::hdf5
