#pragma once

#include "core/error.hpp"
#include "distribute/communicator.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace varve {

/// Throws an error of this kind unless all ranks pass the same values, by name. Its sentence says the first that
/// differs and ends with `ending`. Each rank has its own command line and its own files, so all that outputs or the
/// number of messages between ranks depend on is compared before work begins. Collective.
void require_agreement(Communicator const& communicator, nlohmann::ordered_json const& mine, ErrorKind kind,
                       std::string const& ending);

/// What all ranks pass, in rank order, on rank 0; other ranks get an empty list. Collective.
std::vector<nlohmann::ordered_json> gather_json(Communicator const& communicator, nlohmann::ordered_json const& mine);

/// An input of a command: the option that names it, with its value, and the files that it consists of.
struct RankInput {
  std::string name;
  std::vector<std::filesystem::path> files;
};

/// Throws InputError unless all ranks found the same facts and read the same bytes. Files that are seen to be one file,
/// on one machine or on a file system of the network, are not read for that; others are, once on each machine. Throws
/// InputError, too, if a file cannot be read. Collective; costs one rank nothing.
void require_same_inputs(Communicator const& communicator, nlohmann::ordered_json facts,
                         std::vector<RankInput> const& inputs);

} // namespace varve
