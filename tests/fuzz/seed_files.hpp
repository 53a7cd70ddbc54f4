#pragma once

#include "core/error.hpp"

#include <filesystem>
#include <fstream>
#include <ios>
#include <string>

/// The files that fuzz_seeds writes.
namespace varve::fuzz {

inline void write_bytes(std::filesystem::path const& path, std::string const& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw ResourceError(path.string() + " cannot be written");
}

/// A new, empty folder.
inline std::filesystem::path made(std::filesystem::path const& folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

} // namespace varve::fuzz
