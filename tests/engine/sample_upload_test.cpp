#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "network/sample_set.hpp"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;

/// Batches of several sizes and of one or several values, whose samples come while others are computed.
class Staged : public testing::TestWithParam<Place> {
protected:
  Staged() {
    test::RandomCases random(21);
    for (std::size_t number = 0; number < 9; ++number) {
      SampleSet samples{random.draw_matrix(1 + random.below(90), 60, 40, 2.0), 100 * number};
      if (number % 3 == 1) samples.matrix.values = {1.0};
      batches_.emplace_back(std::move(samples));
    }
    std::vector<Layer> layers(5);
    for (auto& layer : layers) {
      layer.weights = random.draw_matrix(60, 60, 20, 1.0);
      layer.bias = {-0.1};
      layer.activation = Activation::clipped_relu(2.0);
    }
    network_.emplace(std::move(layers));
    inference_ = prepare(*network_, test::options_at(GetParam()));
    inference_->plan({90, 90 * 20, false});
  }

  void expect_right(SampleBatch const& samples) {
    auto const result = inference_->infer(samples, {true, false});
    EXPECT_EQ(result.activations, test::reference_of(*network_, to_set(samples), GetParam().precision));
    staged_bytes_ += result.samples.copied_bytes;
  }

  std::vector<SampleBatch> batches_;
  std::size_t staged_bytes_ = 0;
  std::optional<Network> network_;
  std::unique_ptr<Inference> inference_;
};
INSTANTIATE_TEST_SUITE_P(Everywhere, Staged, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(Staged, WhileAnotherBatchIsComputed) {
  for (int round = 0; round < 5; ++round) {
    auto const read = [&](std::size_t number) {
      return std::async(std::launch::async, [this, number] {
        inference_->upload_ahead(batches_.at(number));
        return batches_.at(number);
      });
    };
    auto next = read(0);
    for (std::size_t number = 0; number < batches_.size(); ++number) {
      auto const samples = next.get();
      if (number + 1 < batches_.size()) next = read(number + 1);
      ASSERT_EQ(samples, batches_[number]);
      expect_right(samples);
    }
  }
}

TEST_P(Staged, OthersThanAreInferredAreGivenUp) {
  inference_->upload_ahead(batches_[0]);
  expect_right(batches_[1]);
  inference_->upload_ahead(batches_[2]);
  inference_->upload_ahead(batches_[3]);
  inference_->upload_ahead(batches_[4]); // there is no place left for them
  expect_right(batches_[3]);
  expect_right(batches_[4]);
  expect_right(batches_[2]);
  expect_right(batches_[2]);
}

TEST_P(Staged, WhileOthersAreTakenThatWereNot) {
  for (int round = 0; round < 20; ++round) {
    auto const other = std::async(std::launch::async, [this] { inference_->upload_ahead(batches_[6]); });
    expect_right(batches_[7]);
    other.wait();
    expect_right(batches_[6]);
  }
}

TEST_P(Staged, BatchesAreBroughtOnce) {
  expect_right(batches_[4]);
  auto const bytes_of_one = staged_bytes_;
  EXPECT_GT(bytes_of_one, 0U);
  inference_->upload_ahead(batches_[4]);
  auto const same = batches_[4];
  expect_right(same);
  EXPECT_EQ(staged_bytes_, 2 * bytes_of_one);
  inference_->upload_ahead(batches_[4]);
  expect_right(batches_[4].numbered_from(7)); // other samples, as it were
  EXPECT_EQ(staged_bytes_, 4 * bytes_of_one);
}

TEST_P(Staged, NeighboursOfSeveralSetsAreOneBatch) {
  auto samples = batches_[0].part(0, batches_[0].num_samples() / 2);
  samples.append(batches_[0].part(0, 1));
  if (samples.num_samples() + batches_[2].num_samples() <= 90) samples.append(batches_[2]);
  expect_right(samples);
  expect_right(samples.part(1, samples.num_samples()));
}

TEST_P(Staged, TooManySamplesAreLeftToTheirInfer) {
  test::RandomCases random(22);
  SampleSet const too_many{random.draw_matrix(91, 60, 10, 1.0), 0};
  inference_->upload_ahead(too_many);
  expect_right(batches_[5]);
}

} // namespace
} // namespace varve
