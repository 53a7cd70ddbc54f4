#pragma once

#include "engine/inference.hpp"
#include "io/challenge.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace varve {

/// The target for which options are tuned, as in a tuning file: checksum of the network, backend, device, processor,
/// precision. Throws InputError if the network cannot be read.
nlohmann::ordered_json describe_tuning_target(std::string const& network, ChallengeOptions const& challenge,
                                              InferenceOptions const& engine);

/// The differences between the target of a tuning and another target, as sentences without a subject ("was tuned for
/// another network, ..."). Entries that the tuning lacks are not compared.
std::vector<std::string> tuning_differences(nlohmann::ordered_json const& tuning, nlohmann::ordered_json const& here);

} // namespace varve
