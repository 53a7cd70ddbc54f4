// text_file.cpp as it is compiled where there is no liblzma.
#include "core/config.hpp"

#undef VARVE_HAVE_XZ
#define VARVE_HAVE_XZ 0
#include "io/text_file.cpp"
