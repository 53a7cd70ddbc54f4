#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace varve::testing {

/// The bytes of an array of NumPy with this header.
inline std::string npy_of(std::string header, std::string const& elements) {
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() % 256);
  bytes += static_cast<char>(header.size() / 256);
  return bytes + header + elements;
}

/// The bytes of an array of NumPy with these elements, in their order in memory.
template <class Element>
std::string npy(std::string const& type, std::vector<std::uint64_t> const& shape, std::vector<Element> const& elements,
                bool is_fortran = false) {
  std::string text;
  for (auto const length : shape) text += std::to_string(length) + ",";
  return npy_of("{'descr': '" + type + "', 'fortran_order': " + (is_fortran ? "True" : "False") + ", 'shape': (" +
                    text + "), }",
                std::string(reinterpret_cast<char const*>(elements.data()), elements.size() * sizeof(Element)));
}

} // namespace varve::testing
