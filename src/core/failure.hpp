#pragma once

#include "core/error.hpp"

#include <exception>

namespace varve {

/// The error that an exception means: an Error is itself, others are ResourceErrors, with a sentence about what lacks
/// if memory or a thread does.
Error error_of(std::exception const& failure);

} // namespace varve
