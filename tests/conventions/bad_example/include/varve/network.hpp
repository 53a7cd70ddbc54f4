#pragma once

#include "network/network.hpp"

#include <Kokkos_Core.hpp>
#include <vector>
