#pragma once

#include <cstddef>
#include <functional>

namespace varve {

/// Callback that receives the number of finished parts and their total; called by one thread at a time. May be empty.
using Progress = std::function<void(std::size_t done, std::size_t total)>;

} // namespace varve
