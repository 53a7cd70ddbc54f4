#pragma once

namespace varve {

/// True from MPI_Init in this process to MPI_Finalize; false in builds without MPI.
bool mpi_runs();

} // namespace varve
