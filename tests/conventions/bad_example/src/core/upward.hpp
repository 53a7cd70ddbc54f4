#pragma once

#include "network/network.hpp"
