#pragma once

#include "io/container.hpp"

#include <map>
#include <string>
#include <string_view>

namespace varve::container {

/// The header of a safetensors file. Places of arrays count from the end of the header.
struct Header {
  std::map<std::string, Array> arrays;
  std::map<std::string, std::string> metadata;
};

/// Parses a header, in memory for what it says and not for its JSON. Throws InputError "PLACE: ..." if it is none, says
/// something twice, or if the bytes of an array are not those of its type and shape.
Header parse_header(std::string_view text, std::string const& place);

/// The text of a header.
std::string header_text(Header const& header);

} // namespace varve::container
