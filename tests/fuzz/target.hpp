#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

/// What the fuzz targets share. Each target is one file with one VARVE_FUZZ_TARGET; one_input.cpp makes an entry for
/// libFuzzer of the only one that a fuzzer holds, and replay.cpp tests all of them in the ordinary builds.
namespace varve::fuzz {

/// A target: reads bytes as Varve reads a file (or a command line) of one kind from outside. It refuses them by
/// throwing varve::Error; whatever else is thrown is a defect.
using Target = void (*)(std::string_view bytes);

/// Makes a target known to this program.
bool add_target(char const* name, Target target);

/// The target of this name, or the only one of this program if the name is empty. Throws std::logic_error if there is
/// none.
Target find_target(std::string const& name);

/// VARVE_FUZZ_TARGET(labels) { reads `bytes` } defines the target "labels".
#define VARVE_FUZZ_TARGET(name)                                                                                        \
  static void fuzz_##name(std::string_view bytes);                                                                     \
  [[maybe_unused]] static bool const is_##name##_known = add_target(#name, fuzz_##name);                               \
  static void fuzz_##name(std::string_view bytes)

/// Reads these bytes by a target. Returns whether they were accepted. Throws std::logic_error if a refusal says
/// nothing, and lets through what is not a varve::Error.
bool read_and_check(Target target, std::string_view bytes);

/// A folder of this process, in memory where the system has such a place, which goes with the process.
std::filesystem::path const& scratch_folder();

/// A file of these bytes, for readers that take paths. It replaces the file of that name from the last call.
std::filesystem::path file_of(std::string_view bytes, std::string const& name);

/// What must hold for all that a reader accepts.
inline void require(bool holds, char const* sentence) {
  if (!holds) throw std::logic_error(std::string("fuzz: ") + sentence);
}

} // namespace varve::fuzz
