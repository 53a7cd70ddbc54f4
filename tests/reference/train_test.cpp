#include "reference/train.hpp"

#include "core/error.hpp"
#include "reference/infer.hpp"
#include "reference/training_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace varve {
namespace {

using test::training_case;
using test::TrainingCase;
using test::TrainingShape;

/// Smooth at every place that a difference could meet: bends are far from all sums in the cases below.
std::vector<Activation> const curves = {Activation::sigmoid(), Activation::tanh(), Activation::softplus(),
                                        Activation::identity()};

double loss_at(std::vector<TrainedLayer<double>> const& layers, TrainingCase const& given, Answers const& answers,
               Loss loss) {
  return gradient_of(layers, given.samples, answers, loss).loss.loss;
}

/// The slope of the loss along one number, by central differences at two distances (Richardson's extrapolation).
double slope_along(std::vector<TrainedLayer<double>>& layers, double& number, TrainingCase const& given,
                   Answers const& answers, Loss loss) {
  double const before = number;
  auto const central = [&](double distance) {
    number = before + distance;
    double const above = loss_at(layers, given, answers, loss);
    number = before - distance;
    double const below = loss_at(layers, given, answers, loss);
    number = before;
    return (above - below) / (2.0 * distance);
  };
  return (4.0 * central(1e-4) - central(2e-4)) / 3.0;
}

void expect_differences_agree(TrainingCase const& given, Answers const& answers, Loss loss) {
  auto layers = trained_layers<double>(given.network);
  auto const gradient = gradient_of(layers, given.samples, answers, loss);
  double largest = 0.0;
  for (std::size_t number = 0; number < layers.size(); ++number) {
    for (std::size_t edge = 0; edge < layers[number].weights.size(); ++edge) {
      double const slope = slope_along(layers, layers[number].weights[edge], given, answers, loss);
      double const found = gradient.layers[number].weights[edge];
      ASSERT_NEAR(found, slope, 1e-8) << "layer " << number << " edge " << edge;
      largest = std::max(largest, std::abs(found));
    }
    for (std::size_t output = 0; output < layers[number].bias.size(); ++output) {
      double const slope = slope_along(layers, layers[number].bias[output], given, answers, loss);
      ASSERT_NEAR(gradient.layers[number].bias[output], slope, 1e-8) << "layer " << number << " bias " << output;
    }
  }
  EXPECT_GT(largest, 0.03) << "there is something to compare";
}

TEST(ReferenceGradient, AgreesWithDifferencesOfTheLoss) {
  for (std::size_t const num_samples : {1U, 7U, 40U}) {
    auto const given = training_case({{9, 12, 8, 5}, num_samples, 0.5, curves, num_samples});
    expect_differences_agree(given, given.labels, Loss::cross_entropy);
    expect_differences_agree(given, given.labels, Loss::mean_square);
    expect_differences_agree(given, given.targets, Loss::mean_square);
    expect_differences_agree(given, given.labels, Loss::logistic);
    expect_differences_agree(given, given.probabilities(), Loss::logistic);
    expect_differences_agree(given, given.targets, {Loss::huber, 100.0});
    expect_differences_agree(given, given.targets, {Loss::huber, 0.2});
  }
}

TEST(ReferenceGradient, OfWeightedSamplesAgreesWithDifferences) {
  auto const given = training_case({{9, 12, 8, 5}, 40, 0.5, curves});
  expect_differences_agree(given, given.weighted(given.labels), Loss::cross_entropy);
  expect_differences_agree(given, given.weighted(given.targets), Loss::mean_square);
}

TEST(ReferenceGradient, AgreesWithDifferencesWhereActivationsBend) {
  std::vector<Activation> const bent = {Activation::relu(), Activation::leaky_relu(0.25),
                                        Activation::clipped_relu(0.5)};
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    auto const given = training_case({{9, 12, 8, 6}, 6, 0.5, bent, seed});
    expect_differences_agree(given, given.targets, Loss::mean_square);
    expect_differences_agree(given, given.labels, Loss::cross_entropy);
  }
}

TEST(ReferenceGradient, OfNoEdgesAndOneNeuronExists) {
  auto const one = training_case({{1, 1, 1}, 3, 1.0, curves});
  expect_differences_agree(one, one.targets, Loss::mean_square);
  expect_differences_agree(one, one.labels_of_two(), Loss::logistic);
  auto const empty = training_case({{4, 3, 2}, 5, 0.0, curves});
  auto const gradient =
      gradient_of(trained_layers<float>(empty.network), empty.samples, empty.labels, Loss::cross_entropy);
  EXPECT_TRUE(gradient.layers[0].weights.empty());
  EXPECT_EQ(gradient.layers[0].bias, std::vector<float>(3, 0.0F));
  EXPECT_NE(gradient.layers[1].bias[0], 0.0F);
}

template <class Scalar>
void expect_positions_beyond_the_end_add_nothing() {
  // samples without entries whose outputs are their targets have no errors, wherever they stand
  auto given = training_case({{6, 8, 3}, 40, 0.6, curves});
  auto const layers = trained_layers<Scalar>(given.network);
  auto const alone = gradient_of(layers, given.samples, given.targets, Loss::mean_square);
  SampleSet none;
  none.matrix = {1, 6, {0, 0}, {}, {}};
  auto const outputs = infer<Scalar>(given.network, none);
  for (std::size_t i = 0; i < 5; ++i) {
    append_rows(given.samples, none);
    SampleSet values{given.targets.values, 0};
    append_rows(values, outputs);
    given.targets.values = values.matrix;
  }
  auto const with_more = gradient_of(layers, given.samples, given.targets, Loss::mean_square);
  for (std::size_t number = 0; number < layers.size(); ++number) {
    EXPECT_EQ(alone.layers[number].weights, with_more.layers[number].weights);
    EXPECT_EQ(alone.layers[number].bias, with_more.layers[number].bias);
  }
}

TEST(ReferenceGradient, IsNotChangedBySamplesWithoutErrors) {
  expect_positions_beyond_the_end_add_nothing<float>();
  expect_positions_beyond_the_end_add_nothing<double>();
}

TEST(ReferenceGradient, CountsRightAnswersAndTheirLoss) {
  Layer layer{{2, 1, {0, 1, 2}, {0, 0}, {1.0, -1.0}}, {0.0}, Activation::identity()};
  auto const layers = trained_layers<double>(Network({layer}));
  SampleSet const samples{{3, 1, {0, 1, 2, 2}, {0, 0}, {1.0, -2.0}}, 0};
  Answers answers;
  answers.labels = {0, 0, 1}; // right; wrong; outputs are equal, the first counts
  auto const sum = gradient_of(layers, samples, answers, Loss::cross_entropy).loss;
  EXPECT_EQ(sum.num_right, 1U);
  EXPECT_EQ(sum.num_samples, 3U);
  EXPECT_NEAR(sum.loss, std::log1p(std::exp(-2.0)) + std::log1p(std::exp(4.0)) + std::log(2.0), 1e-14);
}

double train(OptimizerKind kind, double rate, double l2, int num_steps, std::vector<double>* losses = nullptr) {
  auto const given = training_case({{10, 16, 12, 4}, 80, 0.5, curves});
  Optimizer optimizer;
  optimizer.kind = kind;
  optimizer.l2 = l2;
  ReferenceTraining<double> training(given.network, Loss::cross_entropy, optimizer);
  for (int step = 0; step < num_steps; ++step) {
    auto const sum = training.step(given.samples, given.labels, rate);
    if (losses != nullptr) losses->push_back(sum.mean());
  }
  double squares = 0.0;
  for (auto const& layer : training.layers())
    for (auto const weight : layer.weights) squares += weight * weight;
  return squares;
}

TEST(ReferenceTraining, MakesTheLossFall) {
  for (auto const& optimizer : all_optimizers) {
    std::vector<double> losses;
    train(optimizer.kind, optimizer.is_adaptive ? 0.02 : 0.1, 0.0, 60, &losses);
    EXPECT_LT(losses.back(), 0.92 * losses.front()) << optimizer.name;
  }
}

TEST(ReferenceTraining, MomentumGoesFurther) {
  std::vector<double> without;
  std::vector<double> with;
  train(OptimizerKind::sgd, 0.05, 0.0, 40, &without);
  train(OptimizerKind::momentum, 0.05, 0.0, 40, &with);
  EXPECT_EQ(without[1], with[1]) << "the first step has no past";
  EXPECT_LT(with.back(), without.back());
}

TEST(ReferenceTraining, L2MakesWeightsSmaller) {
  EXPECT_LT(train(OptimizerKind::sgd, 0.1, 0.05, 40), 0.9 * train(OptimizerKind::sgd, 0.1, 0.0, 40));
}

TEST(ReferenceTraining, L2LeavesBiasesAlone) {
  auto const given = training_case({{4, 3}, 5, 0.5, {Activation::identity()}});
  for (auto const& entry : all_optimizers) {
    Optimizer optimizer{entry.kind};
    ReferenceTraining<double> without(given.network, Loss::cross_entropy, optimizer);
    optimizer.l2 = 0.5;
    ReferenceTraining<double> with(given.network, Loss::cross_entropy, optimizer);
    without.step(given.samples, given.labels, 0.5);
    with.step(given.samples, given.labels, 0.5);
    EXPECT_EQ(with.layers()[0].bias, without.layers()[0].bias) << entry.name;
    EXPECT_NE(with.layers()[0].weights, without.layers()[0].weights) << entry.name;
  }
}

TEST(ReferenceTraining, FollowsTheFormulasOfItsOptimizers) {
  // one weight, input 1, bias 0 at first, target 0: the gradient of (w + b)^2 is 2 (w + b)
  Layer const layer{{1, 1, {0, 1}, {0}, {2.0}}, {0.0}, Activation::identity()};
  SampleSet const samples{{1, 1, {0, 1}, {0}, {1.0}}, 0};
  Answers answers;
  answers.values = {1, 1, {0, 0}, {}, {}};
  auto const weight_after = [&](Optimizer const& optimizer, int steps) {
    ReferenceTraining<double> training(Network({layer}), Loss::mean_square, optimizer);
    for (int step = 0; step < steps; ++step) training.step(samples, answers, 0.125);
    return training.layers()[0].weights[0];
  };
  EXPECT_EQ(weight_after({OptimizerKind::sgd}, 1), 1.5);  // gradient 4
  EXPECT_EQ(weight_after({OptimizerKind::sgd}, 2), 1.25); // w + b = 1, gradient 2
  Optimizer momentum{OptimizerKind::momentum};
  momentum.momentum = 0.5;
  EXPECT_EQ(weight_after(momentum, 2), 1.0); // v = 2 + 2
  momentum.kind = OptimizerKind::nesterov;
  EXPECT_EQ(weight_after(momentum, 1), 1.25); // 0.5 * 4 + 4
  EXPECT_NEAR(weight_after({OptimizerKind::adam}, 1), 2.0 - 0.125, 1e-8) << "Adam's first step is the rate";
  Optimizer decayed;
  decayed.l2 = 0.5;
  EXPECT_EQ(weight_after(decayed, 1), 1.375); // gradient 4 + 0.5 * 2
  decayed.kind = OptimizerKind::adamw;
  struct {
    double value, first = 0.0, second = 0.0;
    void step(double gradient, double decay, int number) { // Loshchilov and Hutter, algorithm 2
      first = 0.9 * first + 0.1 * gradient;
      second = 0.999 * second + 0.001 * gradient * gradient;
      double const m = first / (1.0 - std::pow(0.9, number));
      double const v = second / (1.0 - std::pow(0.999, number));
      value -= 0.125 * (m / (std::sqrt(v) + 1e-8) + decay * value);
    }
  } weight{2.0}, bias{0.0};
  for (int number = 1; number <= 20; ++number) {
    double const gradient = 2.0 * (weight.value + bias.value);
    weight.step(gradient, decayed.l2, number);
    bias.step(gradient, 0.0, number);
    EXPECT_NEAR(weight_after(decayed, number), weight.value, 1e-13) << number << " steps of AdamW";
  }
}

TEST(ReferenceTraining, RefusesAnswersThatDoNotFit) {
  auto const given = training_case({{4, 3}, 5, 0.5});
  auto const layers = trained_layers<float>(given.network);
  auto const complaint = [&](Answers const& answers, Loss loss) -> std::string {
    try {
      gradient_of(layers, given.samples, answers, loss);
    } catch (Error const& error) {
      return error.what();
    }
    return "none";
  };
  auto answers = given.labels;
  answers.labels[2] = 3;
  EXPECT_EQ(complaint(answers, Loss::cross_entropy),
            "answers: sample 3 has the label 3, expected 0 to 2, the last class of the network");
  answers.labels.pop_back();
  EXPECT_EQ(complaint(answers, Loss::cross_entropy), "answers: found 4 labels for 5 samples, expected one each");
  EXPECT_EQ(complaint(given.targets, Loss::cross_entropy),
            "answers holds targets, but the loss cross-entropy needs labels");
  answers = given.targets;
  answers.values.num_columns = 4;
  EXPECT_EQ(complaint(answers, Loss::mean_square),
            "answers: found targets of 4 values, expected 3, the outputs of the network");
}

TEST(ReferenceTraining, TakesTargetsOfLogisticFromZeroToOne) {
  auto const given = training_case({{4, 3, 1}, 5, 0.5});
  auto const layers = trained_layers<float>(given.network);
  auto answers = given.probabilities();
  answers.values = {5, 1, {0, 1, 1, 2, 2, 3}, {0, 0, 0}, {0.0, 1.0, 0.5}};
  EXPECT_NO_THROW(gradient_of(layers, given.samples, answers, Loss::logistic));
  for (double const target : {1.5, -0.25, std::numeric_limits<double>::quiet_NaN()}) {
    answers.values.values[1] = target;
    EXPECT_THAT([&] { gradient_of(layers, given.samples, answers, Loss::logistic); },
                testing::ThrowsMessage<InputError>(testing::HasSubstr("answers: sample 3 has the target ")));
  }
  answers = given.labels_of_two();
  EXPECT_NO_THROW(gradient_of(layers, given.samples, answers, Loss::logistic));
  EXPECT_THROW(gradient_of(layers, given.samples, answers, Loss::huber), InputError);
  answers.labels[1] = 2;
  EXPECT_THAT([&] { gradient_of(layers, given.samples, answers, Loss::logistic); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("sample 2 has the label 2, expected 0 to 1")));
}

TEST(ReferenceTraining, TakesWeightsOfSamples) {
  auto const given = training_case({{9, 12, 5}, 70, 0.5, curves});
  auto const layers = trained_layers<float>(given.network);
  auto const of = [&](std::vector<double> const& weights) {
    auto answers = given.labels;
    answers.weights = weights;
    return gradient_of(layers, given.samples, answers, Loss::cross_entropy);
  };
  auto const plain = of({});
  auto const ones = of(std::vector<double>(70, 1.0));
  auto const doubled = of(std::vector<double>(70, 2.0));
  EXPECT_EQ(ones.loss.loss, plain.loss.loss);
  EXPECT_EQ(doubled.loss.loss, 2.0 * plain.loss.loss);
  for (std::size_t number = 0; number < layers.size(); ++number) {
    EXPECT_EQ(ones.layers[number].weights, plain.layers[number].weights);
    for (std::size_t edge = 0; edge < plain.layers[number].weights.size(); ++edge)
      EXPECT_EQ(doubled.layers[number].weights[edge], 2.0F * plain.layers[number].weights[edge]);
  }
  EXPECT_THAT([&] { of({1.0}); },
              testing::ThrowsMessage<InputError>("answers: found 1 weights for 70 samples, expected one each"));
  for (double const wrong : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<double> weights(70, 1.0);
    weights[2] = wrong;
    EXPECT_THAT([&] { of(weights); },
                testing::ThrowsMessage<InputError>(testing::HasSubstr("answers: sample 3 has the weight ")));
  }
}

/// Losses and slopes of one output at points of every size, against long double.
TEST(ReferenceGradient, OfLogisticAndHuberIsRightForLargeActivations) {
  for (double const x : {-800.0, -745.0, -40.0, -1.0, -1e-300, 0.0, 1e-9, 0.5, 36.0, 40.0, 709.9, 1e300}) {
    Layer const layer{{1, 1, {0, 1}, {0}, {x}}, {0.0}, Activation::identity()};
    auto const layers = trained_layers<double>(Network({layer}));
    SampleSet const samples{{1, 1, {0, 1}, {0}, {1.0}}, 0};
    for (double const target : {0.0, 0.3, 1.0}) {
      Answers answers;
      answers.values = {1, 1, {0, 1}, {0}, {target}};
      auto const logistic = gradient_of(layers, samples, answers, Loss::logistic);
      long double const wide = x;
      long double const tail = std::log1p(std::exp(-std::abs(wide)));
      auto const loss = static_cast<double>(std::max(wide, 0.0L) - wide * target + tail);
      auto const slope = static_cast<double>(1.0L / (1.0L + std::exp(-wide)) - target);
      EXPECT_NEAR(logistic.loss.loss, loss, 1e-15 * std::abs(loss)) << x << ' ' << target;
      EXPECT_NEAR(logistic.layers[0].bias[0], slope, 3e-16) << x << ' ' << target;
      auto const huber = gradient_of(layers, samples, answers, {Loss::huber, 0.5});
      long double const size = std::abs(wide - target);
      auto const of_huber = static_cast<double>(size <= 0.5L ? size * size / 2 : 0.5L * (size - 0.25L));
      EXPECT_NEAR(huber.loss.loss, of_huber, 1e-15 * of_huber) << x << ' ' << target;
      EXPECT_NEAR(huber.layers[0].bias[0], std::clamp(x - target, -0.5, 0.5), 1e-16) << x << ' ' << target;
    }
  }
}

TEST(LeafTree, SplitsAtTheLargestPowerOfTwo) {
  struct Text {
    std::string text;
    Text operator+(Text const& other) const { return {"(" + text + other.text + ")"}; }
  };
  auto const tree = [](std::size_t count) {
    return leaf_tree(0, count, [](std::size_t leaf) { return Text{std::to_string(leaf)}; }).text;
  };
  EXPECT_EQ(tree(1), "0");
  EXPECT_EQ(tree(3), "((01)2)");
  EXPECT_EQ(tree(6), "(((01)(23))(45))");
  EXPECT_EQ(tree(7), "(((01)(23))((45)6))");
  EXPECT_EQ(num_leaves<float>(64), 1U);
  EXPECT_EQ(num_leaves<float>(65), 2U);
  EXPECT_EQ(num_leaves<double>(65), 3U);
}

} // namespace
} // namespace varve
