#pragma once

#include <filesystem>

namespace varve {

/// While an object of this kind lives, the files that this process reads are watched, by the functions below: size,
/// time and inode of each are noted when it is opened first, and what is no file but a pipe is read once, to its end,
/// into a temporary file, which all readings take then. One at a time.
class InputFiles {
public:
  InputFiles();
  ~InputFiles();
  InputFiles(InputFiles const&) = delete;
  InputFiles& operator=(InputFiles const&) = delete;
};

/// What is to be opened to read `path`: itself or, for a pipe, the temporary file with its bytes (in the folder
/// TMPDIR). Call before every opening. Throws InputError if it is a device (other than /dev/null) or a socket, or if it
/// has changed since it was opened first; ResourceError if there is no room for the bytes of a pipe. A path that leads
/// nowhere is returned as it is.
std::filesystem::path readable_place(std::filesystem::path const& path);

/// True if `path` is a pipe, which only one process can read.
bool is_pipe(std::filesystem::path const& path);

/// Throws InputError, naming the file and what is different, if a file that was read is not what it was. Call before
/// what was computed from inputs appears.
void require_unchanged_inputs();

} // namespace varve
