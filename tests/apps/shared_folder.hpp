#pragma once

#include "apps/subprocess.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace varve::test {

/// A test suite that shares one folder of files: Suite::make_files(), a public static function, fills it before the
/// first test.
template <class Suite>
class SharedFolder : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<varve::test::TemporaryFolder>();
    Suite::make_files();
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(std::string const& name) { return (*folder_ / name).string(); }
  static varve::test::TemporaryFolder const& folder() { return *folder_; }

private:
  static inline std::unique_ptr<varve::test::TemporaryFolder> folder_;
};

/// Generates a network of 32 neurons per layer and images for it.
inline void generate_small(std::string const& network, std::string const& images, int num_layers, int num_images) {
  succeed({"generate", "radixnet", "--neurons", "32", "--layers", std::to_string(num_layers), "--bias", "-0.2",
           "--output", network});
  succeed({"generate", "images", "--neurons", "32", "--samples", std::to_string(num_images), "--output", images});
}

/// Generates a network of 256 neurons and 12 layers and images for it, some of which survive.
inline void generate_medium(std::string const& network, std::string const& images, int num_images) {
  succeed({"generate", "radixnet", "--neurons", "256", "--layers", "12", "--seed", "3", "--bias", "-0.15", "--output",
           network});
  succeed({"generate", "images", "--neurons", "256", "--samples", std::to_string(num_images), "--seed", "5", "--output",
           images});
}

/// The words of a command, followed by more.
inline std::vector<std::string> joined(std::vector<std::string> words, std::vector<std::string> const& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline nlohmann::json read_json(std::string const& path) {
  return nlohmann::json::parse(varve::test::read_bytes(path));
}

/// Expects that the command failed with this exit code and said why in one sentence, which holds all parts.
inline void expect_sentence(Ended const& ended, int exit_code, std::vector<std::string> const& parts = {},
                            std::string const& where = "") {
  EXPECT_EQ(ended.exit_code, exit_code) << where << ended.err;
  EXPECT_EQ(ended.complaints().size(), 1U) << where << ended.err;
  EXPECT_THAT(ended.err, ::testing::StartsWith("varve: ")) << where;
  for (auto const& part : parts) EXPECT_THAT(ended.err, ::testing::HasSubstr(part)) << where;
}

} // namespace varve::test
