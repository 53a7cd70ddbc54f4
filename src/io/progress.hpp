#pragma once

#include <cstddef>
#include <functional>

namespace varve {

/// Is told how many of all parts are done; called from one thread at a time. May be empty.
using Progress = std::function<void(std::size_t done, std::size_t total)>;

} // namespace varve
