#pragma once

#include "io/whole_bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace varve {

/// During the lifetime of this object, the functions below watch the files that this process reads. They record size,
/// time and inode of each file when it is first opened, and copy a pipe, once and to its end, into a temporary file
/// that all reads then use. Only one object may exist at a time.
class InputFiles {
public:
  InputFiles();
  ~InputFiles();
  InputFiles(InputFiles const&) = delete;
  InputFiles& operator=(InputFiles const&) = delete;
};

/// The path to open in order to read `path`: the path itself or, for a pipe, the temporary file with its bytes (in the
/// folder TMPDIR). Call it before every opening. Returns a path that does not exist unchanged. Throws InputError if it
/// is a device (other than /dev/null) or a socket, or if it has changed since it was first opened; ResourceError if
/// there is no room for the bytes of a pipe.
std::filesystem::path readable_place(std::filesystem::path const& path);

/// Opens readable_place() of a file for reading. Throws as that does, and InputError if there is no such file, if it is
/// a folder or may not be read.
Descriptor open_input(std::filesystem::path const& path);

/// Throws InputError "PATH cannot be read: " and what the system says of the error (errno).
[[noreturn]] void fail_to_read(std::filesystem::path const& path, int error);

/// Up to `count` bytes of a file from `first` on, fewer at its end; none of what does not exist or is a folder. Throws
/// InputError as readable_place does, or if the file cannot be read: what a file holds is not to be guessed from that.
std::string bytes_of_file(std::filesystem::path const& path, std::uint64_t first, std::size_t count);

/// True if `path` is a named pipe, which only one process can read.
bool is_pipe(std::filesystem::path const& path);

/// Stops watching a file that has been read to its end and that this process is going to replace, such as a checkpoint.
/// Throws InputError if it has changed since it was first opened.
void release_input(std::filesystem::path const& path);

/// Throws InputError, naming the file and the difference, if a file has changed since it was first opened. Call it
/// before results computed from inputs appear.
void require_unchanged_inputs();

} // namespace varve
