#pragma once

#include "apps/options.hpp"
#include "apps/report.hpp"
#include "engine/inference.hpp"
#include "io/challenge.hpp"

#include <string>
#include <vector>

namespace varve {

/// Adds the option --options FILE, which sets defaults for the other options of a subcommand from the object `options`
/// of a JSON file, as `varve tune` writes it. Options on the command line take precedence. Parsing throws InputError,
/// naming the file, if the file cannot be read, names an option that the subcommand lacks, or has a value that the
/// option rejects, or one of `refused`: outputs, which a file from somebody else must not place. (CLI11 itself reads
/// files of options in TOML and INI, but no JSON, which all that Varve writes is.)
void add_options_file(CLI::App& command, std::string& path, std::vector<std::string> refused);

/// The whole content of an options file. Throws InputError, naming the file, if it cannot be read or has no object
/// `options`.
Json read_options_file(std::string const& path);

/// The target for which options are tuned, as in a tuning file: checksum of the network, backend, device, processor,
/// precision. Throws InputError if the network cannot be read.
Json describe_tuning_target(std::string const& network, ChallengeOptions const& challenge,
                            InferenceOptions const& engine);

/// The differences between the target of a tuning and another target, as sentences without a subject ("was tuned for
/// another network, ..."). Entries that the tuning lacks are not compared.
std::vector<std::string> tuning_differences(Json const& tuning, Json const& here);

} // namespace varve
