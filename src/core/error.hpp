#pragma once

#include <stdexcept>
#include <string>

namespace varve {

/// The kind of an error; its number is the exit code of the command.
enum class ErrorKind { usage = 2, input = 3, resource = 4 };

/// An error that the user can act on: one sentence that names the place, what was found and what was expected.
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

/// A file or network is missing, broken or does not match the rest of the input (exit code 3).
class InputError : public Error {
public:
  explicit InputError(std::string const& sentence) : Error(ErrorKind::input, sentence) {}
};

/// There is not enough memory, the device does not exist, or the device failed (exit code 4).
class ResourceError : public Error {
public:
  explicit ResourceError(std::string const& sentence) : Error(ErrorKind::resource, sentence) {}
};

} // namespace varve

/// Checks a contract between parts of Varve: throws std::logic_error, since a violation is a bug of the caller and not
/// bad input.
#define VARVE_REQUIRE(condition, sentence)                                                                             \
  do {                                                                                                                 \
    if (!(condition)) throw std::logic_error(std::string("varve: ") + (sentence) + " [" #condition "]");               \
  } while (false)
