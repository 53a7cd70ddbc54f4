#include "distribute/mpi_state.hpp"

#include "core/config.hpp"

#if VARVE_HAVE_MPI
#include <mpi.h>
#endif

namespace varve {

bool mpi_runs() {
#if VARVE_HAVE_MPI
  int has_begun = 0;
  int has_ended = 0;
  MPI_Initialized(&has_begun);
  MPI_Finalized(&has_ended);
  return has_begun != 0 && has_ended == 0;
#else
  return false;
#endif
}

} // namespace varve
