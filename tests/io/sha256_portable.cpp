// checksum.cpp as it is compiled for processors without instructions for SHA-256, with what it includes as it is.
#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/checksum.hpp"
#include "io/input_files.hpp"
#include "io/whole_bytes.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#undef __x86_64__
#include "io/checksum.cpp"
