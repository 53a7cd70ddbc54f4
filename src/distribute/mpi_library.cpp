#include "distribute/mpi_library.hpp"

#include "core/config.hpp"

#if VARVE_HAVE_MPI
#include <mpi.h>
#endif

namespace varve {

#if VARVE_HAVE_MPI
std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string const whole(text, static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n")); // what follows tells who built it and where
}
#else
std::string mpi_library() { return "none"; }
#endif

} // namespace varve
