#pragma once

#include <varve/error.hpp>

#include <stdexcept>
#include <string>

namespace varve {

// The errors of the public headers: whoever uses the library catches what its parts throw.
using v0_2::Error;
using v0_2::ErrorKind;
using v0_2::InputError;
using v0_2::ResourceError;
using v0_2::UsageError;

} // namespace varve

/// Checks a contract between parts of Varve: throws std::logic_error, since a violation is a bug of the caller and not
/// bad input.
#define VARVE_REQUIRE(condition, sentence)                                                                             \
  do {                                                                                                                 \
    if (!(condition)) throw std::logic_error(std::string("varve: ") + (sentence) + " [" #condition "]");               \
  } while (false)
