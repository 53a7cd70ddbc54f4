#include "apps/tuning_target.hpp"

#include "core/host.hpp"
#include "core/runtime.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"

#include <fmt/format.h>

namespace varve {
namespace {

/// The sentence on one difference. Checksums of networks are not shown, because they tell a reader nothing.
std::string sentence_on(std::string const& name, std::string const& there, std::string const& here) {
  if (name == "network_checksum") return "was tuned for another network: run varve tune for this one";
  return fmt::format("was tuned for the {} {}, found {}: run varve tune for this one", name, there, here);
}

} // namespace

nlohmann::ordered_json describe_tuning_target(std::string const& network, ChallengeOptions const& challenge,
                                              InferenceOptions const& engine) {
  auto const device = device_name(engine.backend);
  nlohmann::ordered_json target = {{"network_checksum", fmt::format("{:016x}", network_checksum(network, challenge))},
                                   {"backend", to_string(engine.backend)},
                                   {"device", device.substr(0, device.find(" (device "))}};
  if (!has_own_memory(engine.backend)) target["processor"] = processor_name();
  target["precision"] = engine.precision == Precision::double_precision ? "double" : "float";
  return target;
}

std::vector<std::string> tuning_differences(nlohmann::ordered_json const& tuning, nlohmann::ordered_json const& here) {
  std::vector<std::string> sentences;
  if (!tuning.contains("target") || !tuning["target"].is_object()) return sentences;
  auto const& there = tuning["target"];
  for (auto const& [name, value] : here.items()) {
    if (!there.contains(name) || there[name] == value) continue;
    auto const& other = there[name];
    sentences.push_back(sentence_on(name, other.is_string() ? other.get<std::string>() : json_text(other), value));
  }
  return sentences;
}

} // namespace varve
