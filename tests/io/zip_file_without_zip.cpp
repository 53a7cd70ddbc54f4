// zip_file.cpp as it is compiled where there is no libzip.
#include "core/config.hpp"

#undef VARVE_HAVE_ZIP
#define VARVE_HAVE_ZIP 0
#include "io/zip_file.cpp"
