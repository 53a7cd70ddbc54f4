#pragma once

#include "engine/inference.hpp"
#include "io/challenge.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace varve {

/// What options are tuned for, as a tuning file holds it: checksum of the network, backend, device, processor,
/// precision. Throws InputError if the network cannot be read.
nlohmann::ordered_json describe_tuning_target(std::string const& network, ChallengeOptions const& challenge,
                                              InferenceOptions const& engine);

/// How the target of a tuning differs from another one, a sentence each without its subject ("was tuned for another
/// network, ..."). What the tuning does not hold does not differ.
std::vector<std::string> tuning_differences(nlohmann::ordered_json const& tuning, nlohmann::ordered_json const& here);

} // namespace varve
