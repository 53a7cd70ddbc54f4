#pragma once

#include "core/error.hpp"

#include <exception>

namespace varve {

/// Notes that a library of C found no memory, whatever its caller takes the failure for. Any thread may call it.
void note_lack_of_memory() noexcept;

/// Throws ResourceError if note_lack_of_memory() was called.
void require_memory();

/// The error that an exception means: an Error is itself, unless it finds fault with an input although memory was
/// lacking; others are ResourceErrors.
Error error_of(std::exception const& failure);

} // namespace varve
