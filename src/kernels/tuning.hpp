#pragma once

#include "kernels/tuning/cuda.hpp"
#include "kernels/tuning/hip.hpp"
#include "kernels/tuning/host.hpp"
