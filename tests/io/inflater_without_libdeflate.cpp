// inflater.cpp as it is compiled where there is no libdeflate.
#include "core/config.hpp"

#undef VARVE_HAVE_LIBDEFLATE
#define VARVE_HAVE_LIBDEFLATE 0
#include "io/inflater.cpp"
