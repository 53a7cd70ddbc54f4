#pragma once

#include "core/error.hpp"
#include "engine/inference.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <regex>
#include <string>

namespace varve::test {

/// The bytes of --memory weights, or else of --memory device, that the engine says suffice when it refuses
/// these limits.
inline std::size_t refused_limit(NetworkSource const& network, InferenceOptions const& options) {
  try {
    prepare(network, options);
  } catch (ResourceError const& error) {
    std::string const sentence = error.what();
    char const* const name = options.device_weight_limit ? "weights" : "device";
    std::smatch found;
    if (std::regex_search(sentence, found, std::regex(std::string(name) + "=([0-9.]+)")))
      return static_cast<std::size_t>(std::stod(found[1]) * 1024.0 * 1024.0 * 1024.0);
    ADD_FAILURE() << "no limit in: " << sentence;
    return 0;
  }
  ADD_FAILURE() << "these limits suffice";
  return 0;
}

} // namespace varve::test
