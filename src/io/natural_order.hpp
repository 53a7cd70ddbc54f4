#pragma once

#include <string_view>

namespace varve {

/// True if a name comes before another one where runs of digits count as numbers: "layer2" before "layer10".
bool comes_before(std::string_view name, std::string_view other);

} // namespace varve
