#pragma once

/// \file
/// The errors that all functions throw.

#include <varve/namespace.hpp>

#include <stdexcept>
#include <string>

namespace varve::v0_3 {

/// The kind of an error; its number is the exit code of the command `varve`.
enum class ErrorKind { usage = 2, input = 3, resource = 4 };

/// An error that the user can act on: what() is one sentence that names the place, what was found and what was
/// expected.
class Error : public std::runtime_error {
public:
  /// An error of this kind with this sentence.
  Error(ErrorKind kind, std::string const& sentence) : std::runtime_error(sentence), kind_(kind) {}

  /// The kind, and so the exit code.
  ErrorKind kind() const noexcept { return kind_; }

private:
  ErrorKind kind_;
};

/// The caller asked for something contradictory or unknown (exit code 2).
class UsageError : public Error {
public:
  /// An error with this sentence.
  explicit UsageError(std::string const& sentence) : Error(ErrorKind::usage, sentence) {}
};

/// A file, a network or an array is missing, broken or does not match the rest of the input (exit code 3).
class InputError : public Error {
public:
  /// An error with this sentence.
  explicit InputError(std::string const& sentence) : Error(ErrorKind::input, sentence) {}
};

/// There is not enough memory, the device does not exist or failed, or an output cannot be written (exit code 4).
class ResourceError : public Error {
public:
  /// An error with this sentence.
  explicit ResourceError(std::string const& sentence) : Error(ErrorKind::resource, sentence) {}
};

} // namespace varve::v0_3
