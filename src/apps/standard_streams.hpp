#pragma once

#include "io/challenge.hpp"

#include <string>

namespace varve {

/// Opens standard input, output and error if they are closed, so that no file of ours gets their descriptors and
/// receives what is printed. Reading or writing such a stream remains an error. Call it first in main.
void open_missing_streams();

/// Prints one line on standard error. Never throws: exit_code_of_streams() notices a failed write.
void say(std::string const& sentence);

/// A progress bar on standard error, labelled `what`; empty if standard error is not a terminal.
Progress terminal_progress(std::string const& what);

/// Flushes standard output. Throws ResourceError if it cannot be written.
void flush_output();

/// A sentence that says why standard output failed; empty if it did not.
std::string failure_of_output();

/// Flushes the streams for the last time. Returns 4 if standard output or standard error could not be written (and
/// reports it if possible), else `exit_code`.
int exit_code_of_streams(int exit_code);

} // namespace varve
