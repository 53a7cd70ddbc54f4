#pragma once

#include <string>

namespace varve {

/// Opens what is closed of standard input, output and error, so that no file of ours gets their numbers, which whatever
/// is printed would go into. Using them stays an error. Call first.
void open_missing_streams();

/// One line on standard error. Never throws: what cannot be said is counted by exit_code_of_streams.
void say(std::string const& sentence);

/// Hands all that was printed to the operating system. Throws ResourceError if standard output takes it not.
void flush_output();

/// Why standard output failed, as a sentence; empty if it did not.
std::string failure_of_output();

/// The last flush: 4 if standard output or standard error could not be written (and the sentence, if that can be
/// said), else the code given.
int exit_code_of_streams(int exit_code);

} // namespace varve
