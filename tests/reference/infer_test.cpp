#include "reference/infer.hpp"

#include "core/error.hpp"
#include "radixnet/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace varve {
namespace {

using DenseRows = std::vector<std::vector<double>>;

/// A sparse matrix of the nonzeros of dense rows.
SparseMatrix matrix_of(std::size_t columns, DenseRows const& rows) {
  SparseMatrix matrix;
  matrix.num_rows = rows.size();
  matrix.num_columns = columns;
  for (auto const& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (row[column] == 0.0) continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
      matrix.values.push_back(row[column]);
    }
    matrix.row_pointers.push_back(matrix.column_indices.size());
  }
  return matrix;
}

SampleSet samples_with(std::size_t neurons, DenseRows const& rows, SampleIndex first_sample = 0) {
  return {matrix_of(neurons, rows), first_sample};
}

Layer layer_with(std::size_t inputs, DenseRows const& outputs, std::vector<double> bias, Activation activation) {
  return {matrix_of(inputs, outputs), std::move(bias), activation};
}

template <class Scalar>
class Reference : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Reference, Scalars);

TYPED_TEST(Reference, OneLayerByHand) {
  // 0.5 * 1 + 2 * 3 - 0.25; -1 * 1; nothing read; 4 * 3 - 12 = 0
  Network const network({layer_with(3, {{0.5, 0.0, 2.0}, {-1.0, 0.0, 0.0}, {}, {0.0, 0.0, 4.0}},
                                    {-0.25, 0.0, 0.0, -12.0}, Activation::relu())});
  auto const last = infer<TypeParam>(network, samples_with(3, {{1.0, 5.0, 3.0}}));
  EXPECT_EQ(last, samples_with(4, {{6.25, 0.0, 0.0, 0.0}}));
}

TYPED_TEST(Reference, BiasOfEitherSignPerNeuron) {
  Network const network(
      {layer_with(2, {{1.0, 0.0}, {1.0, 0.0}, {1.0, 0.0}, {}, {}}, {-0.5, 0.0, 0.5, 0.75, -0.75}, Activation::relu())});
  auto const last = infer<TypeParam>(network, samples_with(2, {{1.0, 0.0}, {0.0, 1.0}, {}}));
  EXPECT_EQ(last, samples_with(5, {{0.5, 1.0, 1.5, 0.75}, {0.0, 0.0, 0.5, 0.75}, {0.0, 0.0, 0.5, 0.75}}));
}

TYPED_TEST(Reference, PositiveBiasRevivesDeadSamples) {
  auto const kills = layer_with(2, {{1.0, 1.0}, {1.0, 1.0}}, {-8.0}, Activation::relu());
  auto const revives = layer_with(2, {{1.0, 0.0}, {0.0, 1.0}}, {-1.0, 0.25}, Activation::relu());
  auto const samples = samples_with(2, {{1.0, 2.0}, {}, {9.0, 1.0}});
  EXPECT_EQ(infer<TypeParam>(Network({kills}), samples), samples_with(2, {{}, {}, {2.0, 2.0}}));
  EXPECT_EQ(infer<TypeParam>(Network({kills, revives}), samples),
            samples_with(2, {{0.0, 0.25}, {0.0, 0.25}, {1.0, 2.25}}));
}

TYPED_TEST(Reference, CapIsHitAndKept) {
  Network const network({layer_with(1, {{1.0}, {2.0}, {4.0}}, {0.0}, Activation::clipped_relu(32.0))});
  auto const last = infer<TypeParam>(network, samples_with(1, {{15.75}, {16.0}, {16.25}}));
  EXPECT_EQ(last, samples_with(3, {{15.75, 31.5, 32.0}, {16.0, 32.0, 32.0}, {16.25, 32.0, 32.0}}));
}

TYPED_TEST(Reference, CapOfEachLayerIsItsOwn) {
  auto const one = layer_with(1, {{1.0}}, {0.0}, Activation::clipped_relu(8.0));
  auto const other = layer_with(1, {{1.0}}, {0.0}, Activation::clipped_relu(3.0));
  auto const open = layer_with(1, {{16.0}}, {0.0}, Activation::relu());
  EXPECT_EQ(infer<TypeParam>(Network({one, open}), samples_with(1, {{100.0}})), samples_with(1, {{128.0}}));
  EXPECT_EQ(infer<TypeParam>(Network({one, other, open}), samples_with(1, {{100.0}})), samples_with(1, {{48.0}}));
}

TYPED_TEST(Reference, IdentityKeepsNegativeValuesAndHasNoNegativeZero) {
  Network const network(
      {layer_with(2, {{-1.0, 0.0}, {1.0, 1.0}, {0.0, -1.0}}, {0.0, -0.5, 0.0}, Activation::identity())});
  auto const last = infer<TypeParam>(network, samples_with(2, {{2.0, -1.5}, {0.5, 0.0}}));
  EXPECT_EQ(last, samples_with(3, {{-2.0, 0.0, 1.5}, {-0.5, 0.0, 0.0}}));
  for (auto const value : last.matrix.values) EXPECT_NE(value, 0.0);
  EXPECT_EQ(categories(last), (std::vector<SampleIndex>{0, 1}));
}

TYPED_TEST(Reference, IdentityWithNegativeBiasRevivesDeadSamples) {
  Network const network({layer_with(1, {{1.0}}, {-0.5}, Activation::identity())});
  EXPECT_EQ(infer<TypeParam>(network, samples_with(1, {{}})), samples_with(1, {{-0.5}}));
}

TYPED_TEST(Reference, RectangularLayersFollowEachOther) {
  auto const widens = layer_with(2, {{1.0, 0.0}, {0.0, 1.0}, {1.0, 1.0}, {1.0, -1.0}}, {0.0}, Activation::relu());
  auto const narrows = layer_with(4, {{1.0, 2.0, 4.0, 8.0}}, {-1.0}, Activation::relu());
  auto const last = infer<TypeParam>(Network({widens, narrows}), samples_with(2, {{3.0, 1.0}, {1.0, 3.0}}));
  EXPECT_EQ(last, samples_with(1, {{3.0 + 2.0 + 16.0 + 16.0 - 1.0}, {1.0 + 6.0 + 16.0 - 1.0}}));
}

TYPED_TEST(Reference, SharedWeightsEqualOneEach) {
  auto layer = layer_with(3, {{0.3, 0.3}, {0.0, 0.3, 0.3}, {}}, {-0.1}, Activation::relu());
  auto const samples = samples_with(3, {{0.1, 0.7, 0.9}, {1.0, 0.0, 0.0}});
  auto const one_each = infer<TypeParam>(Network({layer}), samples);
  make_iso_if_equal(layer.weights);
  ASSERT_TRUE(layer.weights.is_iso());
  EXPECT_EQ(infer<TypeParam>(Network({layer}), samples), one_each);
}

TYPED_TEST(Reference, StoredZerosAreNoNonzeros) {
  SampleSet samples = samples_with(2, {{1.0, 1.0}});
  samples.matrix.values = {0.0, 0.0};
  auto const last = infer<TypeParam>(Network({layer_with(2, {{1.0, 1.0}}, {0.0}, Activation::relu())}), samples);
  EXPECT_EQ(last, samples_with(1, {{}}));
  EXPECT_TRUE(categories(last).empty());
  EXPECT_TRUE(categories(samples).empty());
}

TYPED_TEST(Reference, NoSamplesGiveNoActivations) {
  Network const network({layer_with(2, {{1.0, 1.0}, {}, {}}, {1.0}, Activation::relu())});
  auto const last = infer<TypeParam>(network, samples_with(2, {}, 5));
  EXPECT_EQ(last, samples_with(3, {}, 5));
}

TYPED_TEST(Reference, CategoriesCountFromTheFirstSample) {
  Network const network({layer_with(1, {{1.0}}, {-1.0}, Activation::relu())});
  auto const last = infer<TypeParam>(network, samples_with(1, {{2.0}, {1.0}, {}, {1.5}}, 1000));
  EXPECT_EQ(last.first_sample, 1000U);
  EXPECT_EQ(categories(last), (std::vector<SampleIndex>{1000, 1003}));
}

TYPED_TEST(Reference, SumIsOneChainOfFusedMultiplyAdds) {
  // Random values with full mantissas; the expected bits come from the chain written out on its own.
  RandomStream random(1, 0);
  auto const draw = [&] { return static_cast<double>(random.between(-1000000007, 1000000007)) / 998244353.0; };
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<double> weights(17);
    std::vector<double> inputs(17);
    for (auto& weight : weights) weight = draw();
    for (auto& input : inputs) input = draw();
    double const bias = draw();
    TypeParam sum = 0;
    for (std::size_t i = 0; i < 17; ++i) {
      sum = std::fma(static_cast<TypeParam>(weights[i]), static_cast<TypeParam>(inputs[i]), sum);
    }
    auto const expected = static_cast<TypeParam>(static_cast<double>(sum) + bias);
    Network const network({layer_with(17, {weights}, {bias}, Activation::identity())});
    auto const last = infer<TypeParam>(network, samples_with(17, {inputs}));
    EXPECT_EQ(last, samples_with(1, {{static_cast<double>(expected)}}));
  }
}

TEST(ReferencePrecision, FusedProductsAreNotRounded) {
  // (1 + e)(1 - e) - 1 = -e^2, which only a fused multiply-add keeps.
  double const e = std::ldexp(1.0, -30);
  Network const network({layer_with(2, {{-1.0, 1.0 + e}}, {0.0}, Activation::identity())});
  EXPECT_EQ(infer<double>(network, samples_with(2, {{1.0, 1.0 - e}})), samples_with(1, {{-e * e}}));
}

TEST(ReferencePrecision, EdgesAreSummedInAscendingOrder) {
  // In float, 1e8 swallows what is added to it one by one; from the other end the ones survive.
  Network const network({layer_with(3, {{1.0, 1.0, 1.0}}, {0.0}, Activation::identity())});
  EXPECT_EQ(infer<float>(network, samples_with(3, {{1e8, 3.0, 3.0}})), samples_with(1, {{1e8}}));
  EXPECT_EQ(infer<float>(network, samples_with(3, {{3.0, 3.0, 1e8}})), samples_with(1, {{1e8 + 8.0}}));
}

TEST(ReferencePrecision, BiasIsAddedInDoubleAndRoundedOnce) {
  // 3/10 as a sum of floats is above the double -0.3 by so little that a bias rounded to float would give zero.
  Network const network({layer_with(1, {{1.0}}, {-0.3}, Activation::relu())});
  auto const activation = static_cast<double>(0.3F);
  auto const last = infer<float>(network, samples_with(1, {{activation}}));
  EXPECT_EQ(last, samples_with(1, {{static_cast<double>(static_cast<float>(activation - 0.3))}}));
  EXPECT_EQ(categories(last), (std::vector<SampleIndex>{0}));
}

TEST(ReferenceErrors, SayWhatDoesNotFit) {
  auto const complaint = [](NetworkSource const& network, SampleSet const& samples) -> std::string {
    try {
      infer(network, samples);
    } catch (InputError const& error) {
      return error.what();
    }
    return "";
  };
  Network const network({layer_with(2, {{1.0, 1.0}}, {0.0}, Activation::relu())}, "small");
  EXPECT_EQ(complaint(network, samples_with(3, {{1.0}})),
            "the samples have 3 neurons, but layer 0 of small takes 2 inputs");
  auto broken = samples_with(2, {{1.0, 1.0}});
  broken.matrix.values[1] = std::nan("");
  EXPECT_EQ(complaint(network, broken), "samples: entry 1 has the value nan, expected a finite number");
}

} // namespace
} // namespace varve
