#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

/// What the fuzz targets share. Each target is one file that defines read_input; one_input.cpp makes an entry for
/// libFuzzer of it, and replay.cpp a test of the ordinary builds.
namespace varve::fuzz {

/// Reads these bytes as Varve reads a file (or a command line) of this kind from outside. It refuses them by throwing
/// varve::Error; whatever else is thrown is a defect.
void read_input(std::string_view bytes);

/// Reads these bytes as read_input does. Returns whether they were accepted. Throws std::logic_error if a refusal says
/// nothing, and lets through what is not a varve::Error.
bool read_and_check(std::string_view bytes);

/// A folder of this process, in memory where the system has such a place, which goes with the process.
std::filesystem::path const& scratch_folder();

/// A file of these bytes, for readers that take paths. It replaces the file of that name from the last call.
std::filesystem::path file_of(std::string_view bytes, std::string const& name);

/// What must hold for all that a reader accepts.
inline void require(bool holds, char const* sentence) {
  if (!holds) throw std::logic_error(std::string("fuzz: ") + sentence);
}

} // namespace varve::fuzz
