#include "io/whole_bytes.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace varve {

Descriptor open_temporary_file(std::filesystem::path const& folder) {
#if defined(O_TMPFILE)
  Descriptor nameless(open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (nameless.number() >= 0) return nameless;
#endif
  // Not every file system supports nameless files: create a named one and remove its name at once.
  auto name = (folder / "varve-temporary-XXXXXX").string();
  Descriptor descriptor(mkostemp(name.data(), O_CLOEXEC));
  if (descriptor.number() < 0) {
    throw ResourceError(
        fmt::format("a temporary file in the folder {} cannot be created: {}", folder.string(), std::strerror(errno)));
  }
  unlink(name.c_str());
  return descriptor;
}

} // namespace varve
