// sha256.cpp as it is compiled for processors without instructions for it; what it includes is included as it is.
#include "io/checksum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#undef __x86_64__
#include "io/sha256.cpp"
