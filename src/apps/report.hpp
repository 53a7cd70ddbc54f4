#pragma once

#include "distribute/ranks.hpp"
#include "io/challenge.hpp"
#include "plan/plan.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

/// A report is one JSON object of facts. Lines for the terminal are patterns that name these facts, so that each number
/// is written once.
namespace varve {

using Json = nlohmann::ordered_json;

/// The beginning of every report: the program, its version and build, the host and the date.
Json report_head(std::string const& program);

/// The pattern with its facts. {PATH} is the fact of this path, such as plan/batch, and {PATH:UNIT} a number with its
/// unit: `s` for seconds, B, edges or another name for numbers with a decimal prefix, or a format such as .3g. [PART]
/// is left out if a fact in it is missing, zero, false or empty. Empty if a fact elsewhere is missing.
std::string line_of(std::string_view pattern, Json const& facts);

/// Prints a line for each pattern that has all its facts.
void print_lines(std::vector<std::string_view> const& patterns, Json const& facts);

/// Texts with ", " between them.
std::string list_of(std::vector<std::string> const& texts);

/// The first numbers, each plus `added`, with ", " between them; "..." stands for the others.
std::string list_of_first(std::size_t most, std::vector<std::size_t> numbers, std::size_t added = 0);

/// The numbers of layers, inputs, outputs and edges of a network or of an inference.
template <class Network>
Json shape_facts(Network const& network) {
  return {{"layers", network.num_layers()},
          {"inputs", network.num_inputs()},
          {"outputs", network.num_outputs()},
          {"edges", network.num_edges()}};
}

/// Adds the number of ranks and their devices and hosts.
void add_devices(Json& report, std::vector<RankDevice> const& ranks);

/// Prints the device of each of several ranks, of the first 16 at most.
void print_devices(Json const& report);

/// Adds the effect of reductions and of the order of edges on a network, where they have one.
void add_rewrites(Json& report, Plan const& plan);

/// The effect of rewriting a network.
Json describe(ReductionReport const& found);

/// Prints the effect of reductions in one or two lines.
void print_reductions(Json const& found);

/// Of at least one measurement: median, interquartile range over median, minimum, and percentiles. (Of few
/// measurements, the high percentiles are near the longest.)
Json statistics_of(std::vector<double> seconds);

/// Writes a report to a file. Throws as OutputFile does.
void write_report(std::string const& path, Json const& report);

/// Seconds with three digits and a fitting unit: "12.3 ms", "4.56 s".
std::string readable_seconds(double seconds);

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
