#pragma once

#include <string>

namespace varve {

/// The name and version of the MPI library in use, such as "Open MPI v4.1.4"; "none" in builds without MPI.
std::string mpi_library();

} // namespace varve
