#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "network/sample_set.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace varve {
namespace {

using testing::HasSubstr;

TEST(Engines, HaveNames) {
  EXPECT_EQ(to_string(parse_engine("varve")), "varve");
  EXPECT_EQ(to_string(parse_engine("reference")), "reference");
  try {
    parse_engine("dense");
    ADD_FAILURE() << "no error";
  } catch (UsageError const& error) {
    EXPECT_THAT(error.what(), HasSubstr("'dense'"));
    EXPECT_THAT(error.what(), HasSubstr("varve"));
    EXPECT_THAT(error.what(), HasSubstr("reference"));
  }
}

TEST(Engines, BackendsHaveNames) {
  auto const backends = compiled_backends();
  ASSERT_FALSE(backends.empty());
  EXPECT_EQ(backends.back(), Backend::serial);
  for (Backend const backend : backends) EXPECT_EQ(parse_backend(to_string(backend)), backend);
  try {
    parse_backend("abacus");
    ADD_FAILURE() << "no error";
  } catch (UsageError const& error) {
    EXPECT_THAT(error.what(), HasSubstr("'abacus'"));
    EXPECT_THAT(error.what(), HasSubstr("serial"));
  }
}

TEST(Engines, TheReferenceRunsBehindTheSameInterface) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    auto const [network, samples] = test::random_case(seed);
    for (Precision const precision : {Precision::single_precision, Precision::double_precision}) {
      auto options = test::options_at({Backend::serial, precision});
      options.engine = Engine::reference;
      options.batch = 50;
      auto const outcome = test::run_all(network, samples, options);
      auto const expected = test::reference_of(network, samples, precision);
      EXPECT_EQ(outcome.plan.engine, "reference");
      EXPECT_EQ(outcome.result.activations, expected);
      EXPECT_EQ(outcome.result.live_samples, categories(expected));
      EXPECT_EQ(outcome.result.activation_hash, hash(expected, precision));
    }
  }
}

} // namespace
} // namespace varve
