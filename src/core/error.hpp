#pragma once

#include <stdexcept>
#include <string>

namespace varve {

/// What went wrong, as the exit code of the command tells it.
enum class ErrorKind { usage = 2, input = 3, resource = 4 };

/// An error that its reader can act on: one sentence with the place, what was found and what was expected.
class Error : public std::runtime_error {
public:
  Error(ErrorKind kind, std::string const& sentence) : std::runtime_error(sentence), kind_(kind) {}

  ErrorKind kind() const noexcept { return kind_; }

private:
  ErrorKind kind_;
};

/// The caller asked for something contradictory or unknown (exit code 2).
class UsageError : public Error {
public:
  explicit UsageError(std::string const& sentence) : Error(ErrorKind::usage, sentence) {}
};

/// A file or a network is missing, broken or does not fit (exit code 3).
class InputError : public Error {
public:
  explicit InputError(std::string const& sentence) : Error(ErrorKind::input, sentence) {}
};

/// Not enough memory, no such device, or a device that failed (exit code 4).
class ResourceError : public Error {
public:
  explicit ResourceError(std::string const& sentence) : Error(ErrorKind::resource, sentence) {}
};

} // namespace varve

/// Checks a contract between parts of Varve itself; a failure is a defect of the caller, not of the input.
#define VARVE_REQUIRE(condition, sentence)                                                                             \
  do {                                                                                                                 \
    if (!(condition)) throw std::logic_error(std::string("varve: ") + (sentence) + " [" #condition "]");               \
  } while (false)
